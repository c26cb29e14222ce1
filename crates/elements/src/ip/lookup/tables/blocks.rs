//! An allocator for blocks of different sizes within an array.

/// The writer's notes on an array of cells. New blocks are taken from the unused end of the array; a freed block is
/// reused for the next request of its size class. There are two classes per doubling, so at most a third of a block is
/// unused.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The number of cells ever used.
    used: usize,
    capacity: usize,
    /// The first cells of free blocks, for each class.
    free: Vec<Vec<u32>>,
}

impl Blocks {
    /// All cells except the first, so that cell 0 can mean "none".
    pub(super) fn new(capacity: usize) -> Blocks {
        Blocks { used: 1, capacity, free: Vec::new() }
    }

    /// The first cell of a block of this length, which is not 0; `None` when the array is full.
    pub(super) fn take(&mut self, length: usize) -> Option<u32> {
        let (class, size) = class_of(length);
        if let Some(start) = self.free.get_mut(class).and_then(Vec::pop) {
            return Some(start);
        }
        let end = self.used.checked_add(size).filter(|end| *end <= self.capacity)?;
        let start = u32::try_from(self.used).ok()?;
        self.used = end;
        Some(start)
    }

    /// Frees a block of this length.
    pub(super) fn give_back(&mut self, start: u32, length: usize) {
        let (class, _) = class_of(length);
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        if let Some(free) = self.free.get_mut(class) {
            free.push(start);
        }
    }

    /// The number of cells ever used.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Bytes of memory that the notes use.
    pub(super) fn memory(&self) -> usize {
        self.free.iter().map(|free| free.capacity() * size_of::<u32>()).sum()
    }
}

/// The size class of blocks of this length, and their number of cells: 1, 2, 3, 4, 6, 8, 12, 16...
fn class_of(length: usize) -> (usize, usize) {
    match length {
        0 | 1 => (0, 1),
        2 => (1, 2),
        _ => {
            let log = (length - 1).ilog2() as usize;
            match length <= 3 << (log - 1) {
                true => (2 * log, 3 << (log - 1)),
                false => (2 * log + 1, 2 << log),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_large_enough_for_their_lengths() {
        let sizes: Vec<usize> = (1..=16).map(|length| class_of(length).1).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12, 12, 16, 16, 16, 16]);
        for length in 2..5000 {
            let (class, size) = class_of(length);
            assert!(size >= length && size * 2 < length * 3 + 3, "{length}");
            let (before, smaller) = class_of(length - 1);
            assert_eq!(class - before, usize::from(smaller < size), "{length}");
        }
    }

    #[test]
    fn freed_blocks_are_reused() {
        let mut blocks = Blocks::new(10);
        assert_eq!((blocks.take(5), blocks.take(3), blocks.take(1)), (Some(1), Some(7), None));
        blocks.give_back(1, 5);
        assert_eq!((blocks.take(2), blocks.take(6), blocks.take(6)), (None, Some(1), None));
        assert_eq!(blocks.used(), 10);
    }
}

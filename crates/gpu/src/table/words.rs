//! The words of a table that changes while others read it.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of separate ranges. If there are more, adjacent ones are joined.
const MOST_RANGES: usize = 1024;

/// The words of a table. A holder of [the words](Self::shared) keeps them unchanged, and changes are made to another
/// copy. There are two copies. So a change copies only the differences, as soon as nobody holds the copy before the
/// last one.
#[derive(Clone, Debug)]
pub(super) struct Words {
    newest: Arc<Vec<u32>>,
    /// An earlier copy, if there is one.
    spare: Option<Arc<Vec<u32>>>,
    /// The ranges in which the spare copy differs from the newest words.
    behind: Ranges,
    /// The ranges that have changed since they were last [taken](Self::take_changes).
    changed: Ranges,
}

impl Words {
    /// A table of these words, all of which count as changed.
    pub(super) fn new(words: Vec<u32>) -> Self {
        let mut changed = Ranges::default();
        changed.add(0..words.len());
        Self { newest: Arc::new(words), spare: None, behind: Ranges::default(), changed }
    }

    /// The newest words, which the caller may keep.
    pub(super) fn shared(&self) -> &Arc<Vec<u32>> {
        &self.newest
    }

    /// The given words, for writing.
    pub(super) fn change(&mut self, range: Range<usize>) -> &mut [u32] {
        self.note(&range);
        self.own().get_mut(range).unwrap_or_default()
    }

    /// Appends words.
    pub(super) fn grow(&mut self, count: usize) {
        let len = self.newest.len();
        self.note(&(len..len + count));
        self.own().resize(len + count, 0);
    }

    /// The ranges that have changed since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<Range<usize>> {
        self.changed.take()
    }

    fn note(&mut self, range: &Range<usize>) {
        self.own();
        if self.spare.is_some() {
            self.behind.add(range.clone());
        }
        self.changed.add(range.clone());
    }

    /// The newest words in a copy that nobody else holds.
    fn own(&mut self) -> &mut Vec<u32> {
        if Arc::get_mut(&mut self.newest).is_none() {
            let copy = match self.spare.take().map(Arc::try_unwrap) {
                Some(Ok(mut copy)) => {
                    copy.resize(self.newest.len(), 0);
                    for range in self.behind.take() {
                        copy[range.clone()].copy_from_slice(&self.newest[range]);
                    }
                    copy
                }
                // There is none, or a reader still holds it.
                _ => self.newest.to_vec(),
            };
            self.behind.take();
            self.spare = Some(mem::replace(&mut self.newest, Arc::new(copy)));
        }
        // Nobody else holds it now.
        Arc::make_mut(&mut self.newest)
    }
}

impl std::ops::Deref for Words {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.newest
    }
}

/// Ranges of a table; they may overlap.
#[derive(Clone, Debug, Default)]
struct Ranges(Vec<Range<usize>>);

impl Ranges {
    fn add(&mut self, range: Range<usize>) {
        if let Some(last) = self.0.last_mut()
            && last.start <= range.end
            && range.start <= last.end
        {
            *last = last.start.min(range.start)..last.end.max(range.end);
            return;
        }
        self.0.push(range);
        if self.0.len() > 2 * MOST_RANGES {
            self.0 = joined(mem::take(&mut self.0));
        }
    }

    fn take(&mut self) -> Vec<Range<usize>> {
        match mem::take(&mut self.0) {
            ranges if ranges.len() > 1 => joined(ranges),
            ranges => ranges,
        }
    }
}

/// The same words as ordered, separate ranges, at most [`MOST_RANGES`]; they may contain some additional words.
pub(super) fn joined(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut gap = 0;
    loop {
        let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end + gap => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        if joined.len() <= MOST_RANGES {
            return joined;
        }
        gap = (2 * gap).max(16);
        ranges = joined;
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn readers_keep_their_words_and_a_copy_can_follow_the_changes() {
        let mut rng = Rng::with_seed(11);
        let mut words = Words::new(vec![0; 5000]);
        assert_eq!(words.take_changes().first(), Some(&(0..5000)));
        let mut plain = vec![0; 5000];
        // A copy that is updated only by the reported changes.
        let mut far = plain.clone();
        let mut readers = Vec::new();
        let mut copied = 0;
        for round in 0..2000 {
            for _ in 0..rng.usize(0..4) {
                let from = rng.usize(0..plain.len());
                let range = from..(from + rng.usize(0..20)).min(plain.len());
                let value = rng.u32(..);
                words.change(range.clone()).fill(value);
                plain[range].fill(value);
            }
            if round % 300 == 0 {
                words.grow(100);
                plain.resize(plain.len() + 100, 0);
            }
            if round % 500 == 99 {
                for at in (0..plain.len()).step_by(2) {
                    words.change(at..at + 1)[0] = round;
                    plain[at] = round;
                }
            }
            assert!(*words == *plain, "round {round}");
            let changes = words.take_changes();
            assert!(changes.len() <= MOST_RANGES);
            far.resize(words.len(), 0);
            for range in changes {
                copied += range.len();
                far[range.clone()].copy_from_slice(&words[range]);
            }
            assert!(far == plain, "round {round}");
            readers.push((words.shared().clone(), plain.clone()));
            while readers.len() > rng.usize(1..4) {
                let (read, had) = readers.swap_remove(0);
                assert!(*read == had, "round {round}");
            }
        }
        assert!(copied < 100 * 5000, "{copied} words in 2,000 rounds");
    }

    #[test]
    fn a_change_does_not_copy_the_table_when_the_spare_copy_is_free() {
        let mut words = Words::new(vec![0; 1000]);
        let first = words.shared().clone();
        words.change(5..6)[0] = 1;
        let second = words.shared().clone();
        let place = first.as_ptr();
        drop(first);
        words.change(7..8)[0] = 2;
        assert_eq!(words.shared().as_ptr(), place, "the first copy again");
        assert_eq!((words[5], words[7], second[7]), (1, 2, 0));
    }
}

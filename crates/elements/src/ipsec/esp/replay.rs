//! The window of sequence numbers that a receiver accepts, each once (RFC 4303, 3.4.3).

use millrace_core::Reason;

/// The highest number received, and which of the numbers just below it were received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayWindow {
    size: u32,
    highest: u32,
    /// Bit N: `highest - N` was received.
    seen: u128,
}

impl ReplayWindow {
    /// The maximum size of a window.
    pub(crate) const MOST: u32 = u128::BITS;

    /// A window of `size` numbers; no number above `highest` was received.
    pub(crate) fn new(size: u32, highest: u32) -> Self {
        Self { size: size.min(Self::MOST), highest, seen: 0 }
    }

    /// The number of numbers in the window.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Changes the size. Numbers that were received stay received.
    pub(crate) fn resize(&mut self, size: u32) {
        let size = size.min(Self::MOST);
        // Of the numbers that were too old before, nobody knows which were received.
        if size > self.size {
            self.seen |= u128::MAX.checked_shl(self.size).unwrap_or(0);
        }
        self.size = size;
    }

    /// Checks whether a number is acceptable.
    ///
    /// # Errors
    /// The number was already received, or it is 0 or too old to tell.
    pub(crate) fn check(&self, number: u32) -> Result<(), Reason> {
        if number == 0 {
            return Err(Reason::Expired);
        }
        match self.highest.checked_sub(number) {
            None => Ok(()),
            Some(age) if age >= self.size => Err(Reason::Expired),
            Some(age) if self.seen >> age & 1 != 0 => Err(Reason::Replayed),
            Some(_) => Ok(()),
        }
    }

    /// Records that a number was received.
    ///
    /// # Errors
    /// Those of [`check`](Self::check); in that case nothing changes.
    pub(crate) fn take(&mut self, number: u32) -> Result<(), Reason> {
        self.check(number)?;
        match number.checked_sub(self.highest) {
            Some(ahead) => {
                let rest = if ahead < self.size { self.seen.checked_shl(ahead) } else { None };
                self.seen = rest.unwrap_or(0) | 1;
                self.highest = number;
            }
            None => self.seen |= 1 << (self.highest - number),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the window with a list of all numbers received.
        #[test]
        fn each_number_is_accepted_once(
            size in 1u32..=128,
            numbers in prop::collection::vec(0u32..400, 0..300),
        ) {
            let mut window = ReplayWindow::new(size, 0);
            let (mut came, mut highest) = (HashSet::new(), 0);
            for number in numbers {
                let good = number > 0 && number + size > highest && !came.contains(&number);
                prop_assert_eq!(window.take(number).is_ok(), good, "{}", number);
                if good {
                    came.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }

    #[test]
    fn a_window_of_another_size_accepts_nothing_a_second_time() {
        let mut window = ReplayWindow::new(8, 0);
        for number in [100, 97] {
            window.take(number).unwrap();
        }
        window.resize(32);
        assert_eq!(window.take(97), Err(Reason::Replayed));
        assert_eq!(window.take(98), Ok(()));
        // This one was too old to tell before.
        assert_eq!(window.take(92), Err(Reason::Replayed));
        window.resize(2);
        assert_eq!(window.take(97), Err(Reason::Expired));
        assert_eq!(window.take(99), Ok(()));
    }

    #[test]
    fn accepts_and_rejects_at_the_edges_of_the_window() {
        let mut window = ReplayWindow::new(128, 5);
        assert_eq!(window.take(5), Ok(()));
        assert_eq!(window.take(5), Err(Reason::Replayed));
        assert_eq!(window.take(u32::MAX), Ok(()));
        assert_eq!(window.take(u32::MAX - 127), Ok(()));
        assert_eq!(window.take(u32::MAX - 128), Err(Reason::Expired));
        assert_eq!(ReplayWindow::new(0, 5).take(5), Err(Reason::Expired));
    }
}

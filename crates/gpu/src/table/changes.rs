//! The recent changes of a table.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::words::joined;

/// The changes of a table, epoch by epoch. If an epoch is not [noted](Self::note), any word may have changed in it.
#[derive(Clone, Debug, Default)]
pub struct Changes(VecDeque<Change>);

/// The difference between an epoch and the one before.
#[derive(Clone, Debug)]
struct Change {
    epoch: u64,
    ranges: Arc<[Range<usize>]>,
}

impl Changes {
    /// The number of changes that are remembered.
    const MOST: usize = 64;

    /// Notes that the table of `epoch` differs from that of the epoch before in these words only, and is at least as
    /// long.
    pub fn note(&mut self, epoch: u64, ranges: Vec<Range<usize>>) {
        if self.0.back().is_some_and(|last| last.epoch + 1 != epoch) {
            self.0.clear();
        }
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(Change { epoch, ranges: ranges.into() });
    }

    /// The ranges in which the newest table may differ from that of `epoch`, in order, at most about a thousand;
    /// `None` if they are not known.
    pub fn since(&self, epoch: u64) -> Option<Vec<Range<usize>>> {
        let from = self.0.iter().position(|change| change.epoch == epoch + 1)?;
        let changes = self.0.iter().skip(from);
        Some(joined(changes.flat_map(|change| change.ranges.iter().cloned()).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_changes_are_not_guessed() {
        let one = |range: Range<usize>| -> Vec<_> { std::iter::once(range).collect() };
        let mut changes = Changes::default();
        assert_eq!(changes.since(0), None);
        changes.note(5, one(0..1));
        changes.note(6, vec![3..4, 7..9]);
        assert_eq!(changes.since(3), None);
        assert_eq!(changes.since(4), Some(vec![0..1, 3..4, 7..9]));
        assert_eq!(changes.since(5), Some(vec![3..4, 7..9]));
        assert_eq!(changes.since(6), None);
        // An epoch that was not noted.
        changes.note(8, one(2..3));
        assert_eq!((changes.since(6), changes.since(7)), (None, Some(one(2..3))));
        for epoch in 9..200 {
            changes.note(epoch, vec![]);
        }
        assert_eq!((changes.since(199 - 64), changes.since(198 - 64)), (Some(vec![]), None));
    }
}

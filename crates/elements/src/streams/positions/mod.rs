//! Which bytes of a changed stream come from which bytes of the original one.
//!
//! Positions count from the sequence number of the SYN, which is position 0, in 64 bits, so that they do not wrap. The
//! stream is cut where an element had received some original bytes and put out all that comes of them. Between two
//! cuts is a piece: either of equal length on both sides (it may still be changed, byte by byte), so that each position
//! inside corresponds to one on the other side; or a block, of which only the ends correspond. Bytes that an element
//! holds back count as made of the bytes with which they leave.
//!
//! An acknowledgment of changed bytes is translated to the last original position before which everything that was made
//! of the stream has arrived. So the sender keeps, and sends again, what is still needed; bytes that were held back are
//! sent again with those behind them.

use std::collections::VecDeque;

/// The correspondence between the bytes that are not acknowledged yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    /// Where the first piece begins. Everything before has been acknowledged.
    base: (u64, u64),
    pieces: VecDeque<Piece>,
    /// Where the last piece ends.
    end: (u64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Its end, in the original stream and in the changed one.
    end: (u64, u64),
    /// Whether both sides are of one length and correspond byte by byte.
    is_even: bool,
}

impl Positions {
    /// The end of the original bytes.
    pub(crate) fn original_end(&self) -> u64 {
        self.end.0
    }

    /// The end of the changed bytes.
    pub(crate) fn changed_end(&self) -> u64 {
        self.end.1
    }

    /// The number of pieces, which is what all this costs.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.len() * size_of::<Piece>()
    }

    /// Whether both streams have the same length so far, and correspond byte by byte.
    pub(crate) fn is_identity(&self) -> bool {
        self.base.0 == self.base.1 && self.pieces.iter().all(|piece| piece.is_even)
    }

    /// Records that `original` bytes have become `changed` bytes.
    pub(crate) fn add(&mut self, original: u64, changed: u64) {
        if original == 0 && changed == 0 {
            return;
        }
        self.end = (self.end.0 + original, self.end.1 + changed);
        let is_even = original == changed;
        match self.pieces.back_mut() {
            Some(last) if last.is_even && is_even => last.end = self.end,
            _ => self.pieces.push_back(Piece { end: self.end, is_even }),
        }
    }

    /// The original position before which everything has arrived, when everything before `changed` has.
    pub(crate) fn acknowledged(&self, changed: u64) -> u64 {
        let mut before = self.base;
        for piece in &self.pieces {
            if piece.is_even && changed < piece.end.1 {
                return before.0 + changed.saturating_sub(before.1);
            }
            if changed < piece.end.1 {
                break;
            }
            before = piece.end;
        }
        before.0
    }

    /// The first original position after which nothing was made of bytes before `changed`.
    pub(crate) fn after(&self, changed: u64) -> u64 {
        let mut before = self.base;
        for piece in &self.pieces {
            if changed <= before.1 {
                break;
            }
            if piece.is_even && changed < piece.end.1 {
                return before.0 + (changed - before.1);
            }
            before = piece.end;
        }
        before.0
    }

    /// Where the changed bytes begin that come of the original ones from `original` on.
    pub(crate) fn begin_of(&self, original: u64) -> u64 {
        let mut before = self.base;
        for piece in &self.pieces {
            if original < piece.end.0 || original <= before.0 {
                return match piece.is_even {
                    true => before.1 + original.saturating_sub(before.0),
                    false => before.1,
                };
            }
            before = piece.end;
        }
        before.1
    }

    /// Where the changed bytes end that come of the original ones before `original`.
    pub(crate) fn end_of(&self, original: u64) -> u64 {
        let mut before = self.base;
        for piece in &self.pieces {
            if original < before.0 {
                break;
            }
            if piece.is_even && original < piece.end.0 {
                return before.1 + (original - before.0);
            }
            // What was removed right behind belongs to no byte.
            if original == before.0 && piece.end.0 > original {
                break;
            }
            before = piece.end;
        }
        before.1
    }

    /// Forgets what lies before an acknowledged changed position.
    pub(crate) fn forget(&mut self, changed: u64) {
        while let Some(piece) = self.pieces.front() {
            if changed < piece.end.1 {
                if piece.is_even && changed > self.base.1 {
                    self.base = (self.base.0 + (changed - self.base.1), changed);
                }
                break;
            }
            self.base = piece.end;
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SYN, "abcd" as it is, "word" to "longer word", "gone" to nothing, "xy" held back, "z" to "XYZ" with them.
    fn example() -> Positions {
        let mut positions = Positions::default();
        for (original, changed) in [(1, 1), (4, 4), (4, 11), (4, 0), (2, 0), (1, 3)] {
            positions.add(original, changed);
        }
        positions
    }

    #[test]
    fn acknowledgments_are_of_what_has_arrived() {
        let mut positions = example();
        let table = [(0, 0), (1, 1), (3, 3), (5, 5), (6, 5), (15, 5), (16, 15), (18, 15), (19, 16)];
        for (changed, original) in table {
            assert_eq!(positions.acknowledged(changed), original, "{changed}");
        }
        positions.forget(3);
        assert_eq!((positions.acknowledged(3), positions.acknowledged(4)), (3, 4));
        // Late ones say what is known already.
        assert_eq!(positions.acknowledged(1), 3);
        positions.forget(10);
        assert_eq!((positions.acknowledged(10), positions.acknowledged(16)), (5, 15));
        positions.forget(16);
        assert_eq!((positions.acknowledged(16), positions.acknowledged(19)), (15, 16));
        positions.forget(19);
        assert_eq!((positions.acknowledged(19), positions.pieces()), (16, 0));
    }

    #[test]
    fn bytes_that_are_sent_again_are_all_that_came_of_them() {
        let positions = example();
        let table = [
            ((1, 5), (1, 5)),
            ((2, 4), (2, 4)),
            ((1, 9), (1, 16)),
            ((6, 7), (5, 16)),
            ((5, 6), (5, 16)),
            ((9, 13), (16, 16)),
            ((8, 16), (5, 19)),
            ((13, 16), (16, 19)),
            ((15, 16), (16, 19)),
        ];
        for ((from, to), expected) in table {
            let found = (positions.begin_of(from), positions.end_of(to));
            assert_eq!(found, expected, "{from}..{to}");
        }
        assert_eq!((positions.after(1), positions.after(6), positions.after(16)), (1, 9, 9));
    }

    #[test]
    fn bytes_that_leave_alone_can_be_found_again() {
        let mut positions = Positions::default();
        positions.add(5, 3);
        positions.add(0, 2);
        assert_eq!((positions.begin_of(5), positions.end_of(5)), (3, 5));
        assert_eq!((positions.acknowledged(3), positions.acknowledged(5)), (5, 5));
        positions.forget(3);
        assert_eq!((positions.begin_of(5), positions.end_of(5)), (3, 5));
    }

    #[test]
    fn a_stream_that_stays_is_one_piece() {
        let mut positions = Positions::default();
        for n in 0..100 {
            positions.add(n, n);
        }
        assert!(positions.pieces() == 1 && positions.is_identity());
        positions.add(1, 0);
        assert!(!positions.is_identity() && positions.pieces() == 2);
    }
}

//! The words of a table, and the faults that a check can find.

/// A fault in a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first word does not belong to any kind of table.
    #[error("begins with {0:#010x}, as no table does")]
    Unknown(u32),
    /// A part is not within the table.
    #[error("{what}: {count} words at {at}, but there are {words}")]
    Outside {
        /// Which part.
        what: &'static str,
        /// Its offset.
        at: u64,
        /// Its number of words.
        count: u64,
        /// The number of words of the table.
        words: usize,
    },
    /// A part is loaded 16 bytes at a time, and its offset is not a multiple of that.
    #[error("{what}: at word {at}, which is no multiple of 4")]
    Unaligned {
        /// Which part.
        what: &'static str,
        /// Its offset.
        at: u64,
    },
    /// A number is not valid.
    #[error("{what}: {number:#x}")]
    Wrong {
        /// What the number stands for.
        what: &'static str,
        /// The number.
        number: u32,
    },
}

/// A table.
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(pub(super) &'a [u32]);

impl<'a> Words<'a> {
    /// A word of the header.
    pub(super) fn header(self, index: usize) -> Result<u32, Fault> {
        Ok(self.part("the header", index, 1)?[0])
    }

    /// A part of the table.
    pub(super) fn part(
        self,
        what: &'static str,
        at: impl TryInto<u64>,
        count: impl TryInto<u64>,
    ) -> Result<&'a [u32], Fault> {
        let (at, count) = (at.try_into().unwrap_or(u64::MAX), count.try_into().unwrap_or(u64::MAX));
        let words = self.0.len();
        let outside = Fault::Outside { what, at, count, words };
        let end = at.checked_add(count).filter(|&end| end <= words as u64).ok_or(outside)?;
        Ok(&self.0[at as usize..end as usize])
    }

    /// The table from an aligned offset on.
    pub(super) fn quads(self, what: &'static str, at: u32) -> Result<&'a [u32], Fault> {
        if !at.is_multiple_of(4) {
            return Err(Fault::Unaligned { what, at: at.into() });
        }
        self.part(what, at, self.0.len().saturating_sub(at as usize))
    }
}

/// Checks that a number is below a limit.
pub(super) fn below(what: &'static str, number: u32, limit: usize) -> Result<usize, Fault> {
    if (number as usize) < limit { Ok(number as usize) } else { Err(Fault::Wrong { what, number }) }
}

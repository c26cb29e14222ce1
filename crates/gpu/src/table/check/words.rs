//! The words of a table, and what may be wrong with them.

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The first word is none that a table begins with.
    #[error("begins with {0:#010x}, as no table does")]
    Unknown(u32),
    /// A part does not lie in the table.
    #[error("{what}: {count} words at {at}, but there are {words}")]
    Outside {
        /// Which part.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// Its words.
        count: u64,
        /// The table's.
        words: usize,
    },
    /// A part is loaded 16 bytes at a time, and does not begin at a multiple of them.
    #[error("{what}: at word {at}, which is no multiple of 4")]
    Unaligned {
        /// Which part.
        what: &'static str,
        /// Where it begins.
        at: u64,
    },
    /// A number is none of those that there are.
    #[error("{what}: {number:#x}")]
    Wrong {
        /// What it is the number of, and where.
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

    /// The table from an aligned place on.
    pub(super) fn quads(self, what: &'static str, at: u32) -> Result<&'a [u32], Fault> {
        if !at.is_multiple_of(4) {
            return Err(Fault::Unaligned { what, at: at.into() });
        }
        self.part(what, at, self.0.len().saturating_sub(at as usize))
    }
}

/// A number is below a limit.
pub(super) fn below(what: &'static str, number: u32, limit: usize) -> Result<usize, Fault> {
    if (number as usize) < limit { Ok(number as usize) } else { Err(Fault::Wrong { what, number }) }
}

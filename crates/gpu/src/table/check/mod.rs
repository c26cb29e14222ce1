//! Whether a table can be given to its kernel: kernels believe their tables, and what they read does not depend on packets
//! alone.
//!
//! [`check`] goes through a whole table and says that, whatever the packet, its kernel reads nothing but words of the table and
//! comes to an end; not that its results are right. Our own builders make no others, so that this is no part of
//! loading: the simulator does it, and tests. It takes as long as some copies of the table.

mod aho_corasick;
mod classify;
mod lpm4;
mod lpm6;
#[cfg(test)]
mod tests;

use millrace_match::{patterns, rules};

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

/// Goes through a table of the kernel that its first word names.
///
/// # Errors
/// Its kernel might read beside it, or not end.
pub fn check(words: &[u32]) -> Result<(), Fault> {
    let table = Words(words);
    match words.first().copied().unwrap_or_default() {
        super::lpm4::MAGIC => lpm4::check(table),
        super::lpm6::MAGIC => lpm6::check(table),
        rules::table::TABLE_MAGIC => classify::check(table),
        patterns::image::MAGIC => aho_corasick::check(table),
        other => Err(Fault::Unknown(other)),
    }
}

/// A table.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [u32]);

impl<'a> Words<'a> {
    /// A word of the header.
    fn header(self, index: usize) -> Result<u32, Fault> {
        Ok(self.part("the header", index, 1)?[0])
    }

    /// A part of the table.
    fn part(
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
    fn quads(self, what: &'static str, at: u32) -> Result<&'a [u32], Fault> {
        if !at.is_multiple_of(4) {
            return Err(Fault::Unaligned { what, at: at.into() });
        }
        self.part(what, at, self.0.len().saturating_sub(at as usize))
    }
}

/// A number is below a limit.
fn below(what: &'static str, number: u32, limit: usize) -> Result<usize, Fault> {
    if (number as usize) < limit { Ok(number as usize) } else { Err(Fault::Wrong { what, number }) }
}

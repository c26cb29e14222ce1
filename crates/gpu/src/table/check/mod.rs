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
mod words;

use millrace_match::{patterns, rules};

pub use words::Fault;
use words::Words;

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

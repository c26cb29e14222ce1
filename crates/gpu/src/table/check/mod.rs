//! Checks whether a table can be given to its kernel. Kernels trust their tables, and the addresses that they read do
//! not depend on packets alone.
//!
//! [`check`] examines a whole table and proves that its kernel reads only words of the table and terminates, whatever
//! the packet. It does not prove that the results are right. Millrace's own builders make only such tables, so
//! loading does not check them: the simulator and tests do. It takes as long as some copies of the table.

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

/// Checks a table of the kernel that its first word names.
///
/// # Errors
/// The kernel might read outside of it, or not terminate.
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

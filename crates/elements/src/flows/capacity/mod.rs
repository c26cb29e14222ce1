//! How many flows a table has room for.

use millrace_core::args::Kind;
use millrace_core::{Args, Footprint};

use super::key::TableKey;
use super::table::{Flows, Slot};

/// How many flows a table has room for unless the configuration says otherwise.
pub(crate) const MOST_FLOWS: u32 = 1 << 20;

/// Reads the keyword CAPACITY: the maximum number of flows.
pub(crate) fn capacity(args: &mut Args<'_>) -> usize {
    capacity_or(args, MOST_FLOWS)
}

/// Reads the keyword CAPACITY: the maximum number of entries of a table, with a default of its own.
pub(crate) fn capacity_or(args: &mut Args<'_>, default: u32) -> usize {
    args.in_range("CAPACITY", Kind::Keyword, 1..=1u32 << 30).unwrap_or(default) as usize
}

impl<K: TableKey, S: Slot> Flows<K, S> {
    /// What the table takes when it is full.
    pub(crate) fn footprint(&self) -> Footprint {
        Footprint::tables(self.bytes_when_full())
    }
}

//! The routes as ranges of addresses with one hop each. The [tree](crate::ip6::lookup::Tree) is built from these.

use std::net::Ipv6Addr;

use crate::ip::lookup::tables::rib::Rib;
use crate::ip::lookup::{Change, HopId};

/// An IPv6 prefix.
pub(super) type Prefix = crate::ip::lookup::Prefix<Ipv6Addr>;

/// Every address, in ranges; adjacent ranges have different hops.
#[derive(Debug)]
pub(super) struct Ranges {
    /// The first address of each range, in order; the first one is `::`.
    starts: Vec<u128>,
    hops: Vec<HopId>,
}

impl Ranges {
    /// No routes.
    pub(super) fn new() -> Ranges {
        Ranges { starts: vec![0], hops: vec![HopId::NONE] }
    }

    /// The ranges of all routes.
    pub(super) fn of(rib: &Rib<Ipv6Addr>) -> Ranges {
        // A route starts one range at its first address, and another after its last.
        let mut ranges = Ranges::with_capacity(rib.len() * 2 + 1);
        ranges.paint(Prefix::around(0, 0), rib);
        ranges
    }

    /// The ranges after these changes of routes; `self` holds the ranges before them. Copies the networks
    /// that did not change.
    pub(super) fn after(&self, changes: &[Change<Ipv6Addr>], rib: &Rib<Ipv6Addr>) -> Ranges {
        let mut ranges = Ranges::with_capacity(self.starts.len() + changes.len() * 2);
        let mut next = Some(0);
        for prefix in outermost(changes) {
            if let Some(next) = next
                && let Some(before) = prefix.first().checked_sub(1)
                && next <= before
            {
                ranges.copy(self, next, before);
            }
            ranges.paint(prefix, rib);
            next = prefix.last().checked_add(1);
        }
        if let Some(next) = next {
            ranges.copy(self, next, u128::MAX);
        }
        ranges
    }

    /// The first address and the hop of each range.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u128, HopId)> {
        self.starts.iter().copied().zip(self.hops.iter().copied())
    }

    /// The number of ranges.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> usize {
        self.starts.capacity() * size_of::<u128>() + self.hops.capacity() * size_of::<HopId>()
    }

    fn with_capacity(ranges: usize) -> Ranges {
        Ranges { starts: Vec::with_capacity(ranges), hops: Vec::with_capacity(ranges) }
    }

    /// Copies the addresses from `first` to `last` from the old ranges.
    fn copy(&mut self, old: &Ranges, first: u128, last: u128) {
        let from = old.starts.partition_point(|&start| start <= first);
        let to = old.starts.partition_point(|&start| start <= last);
        if let Some(&hop) = old.hops.get(from.saturating_sub(1)) {
            self.push(first, hop);
        }
        self.starts.extend_from_slice(old.starts.get(from..to).unwrap_or_default());
        self.hops.extend_from_slice(old.hops.get(from..to).unwrap_or_default());
    }

    /// Adds the addresses of a network with the hops of the routes.
    fn paint(&mut self, network: Prefix, rib: &Rib<Ipv6Addr>) {
        let around = rib.cover(network).map_or(HopId::NONE, |(_, hop)| hop);
        // The networks that enclose the current position, the smallest last.
        let mut open: Vec<(Prefix, HopId)> = Vec::new();
        self.push(network.first(), around);
        let inside = rib.from(network).take_while(|(prefix, _)| prefix.first() <= network.last());
        for (prefix, entry) in inside {
            self.close(&mut open, around, prefix.first());
            self.push(prefix.first(), entry.hop);
            open.push((prefix, entry.hop));
        }
        self.close(&mut open, around, network.last());
    }

    /// Closes the networks that end before an address. After each, the enclosing network resumes.
    fn close(&mut self, open: &mut Vec<(Prefix, HopId)>, around: HopId, address: u128) {
        while let Some((prefix, _)) = open.pop_if(|(prefix, _)| prefix.last() < address) {
            let hop = open.last().map_or(around, |(_, hop)| *hop);
            self.push(prefix.last() + 1, hop);
        }
    }

    /// Starts a range at an address, which is at or after the start of the last range.
    fn push(&mut self, start: u128, hop: HopId) {
        if self.starts.last() == Some(&start) {
            // A smaller network starts where a larger one starts, or where another one ends.
            self.starts.pop();
            self.hops.pop();
        }
        if self.hops.last() != Some(&hop) {
            self.starts.push(start);
            self.hops.push(hop);
        }
    }
}

/// The networks that changed, in order, without those inside another one.
fn outermost(changes: &[Change<Ipv6Addr>]) -> Vec<Prefix> {
    let mut prefixes: Vec<Prefix> = changes.iter().map(|change| change.prefix).collect();
    prefixes.sort_unstable();
    // A network sorts before the networks inside it.
    prefixes.dedup_by(|next, kept| kept.contains(next.first()));
    prefixes
}

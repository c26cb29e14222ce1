//! A sweep over the address space in order, which turns routes into ranges of addresses with the same hop.
//!
//! The structures with a directory ([`Ranges`](crate::ip::lookup::Ranges), [`Poptrie`](crate::ip::lookup::Poptrie)) divide the addresses into
//! slots of equal size. Each slot is built from its own ranges only.

use super::hops::HopId;
use super::rib::Rib;
use crate::ip::lookup::routes::route::Prefix;

/// A range of addresses with the same hop. It ends where the next range starts, or at the end of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first address, relative to the start of the slot.
    pub(super) start: u32,
    pub(super) hop: HopId,
}

/// Calls `each` for every slot from `first` to `last`, in order, with the numbers of the first and the last slot that
/// have the same ranges, and with these ranges. Consecutive slots with a single common hop may be combined into one
/// call. There are `2^bits` slots in all. The first range of a slot starts at 0; neighbouring ranges have different
/// hops.
pub(super) fn sweep(
    rib: &Rib,
    bits: u8,
    (first, last): (u32, u32),
    each: impl FnMut((u32, u32), &[Range]),
) {
    let shift = 32 - u32::from(bits);
    let start = Prefix::new(first << shift, bits);
    let end = Prefix::new(last << shift, bits).last();
    let mut sweeper = Sweeper {
        shift,
        slot: first,
        ranges: Vec::new(),
        hop: HopId::NONE,
        open: Vec::new(),
        each,
    };
    for (prefix, entry) in rib.around(start) {
        sweeper.open(prefix, entry.hop);
    }
    sweeper.start(start.first(), sweeper.hop);
    for (prefix, entry) in rib.from(start).take_while(|(prefix, _)| prefix.first() <= end) {
        sweeper.close_before(prefix.first());
        sweeper.start(prefix.first(), entry.hop);
        sweeper.open(prefix, entry.hop);
    }
    sweeper.close_before(end);
    sweeper.reach(last);
    sweeper.finish_slot();
}

struct Sweeper<F> {
    shift: u32,
    /// The current slot, and its ranges so far.
    slot: u32,
    ranges: Vec<Range>,
    /// The hop at the current address.
    hop: HopId,
    /// The networks that contain the current address, the smallest last.
    open: Vec<(Prefix, HopId)>,
    each: F,
}

impl<F: FnMut((u32, u32), &[Range])> Sweeper<F> {
    fn open(&mut self, prefix: Prefix, hop: HopId) {
        self.open.push((prefix, hop));
        self.hop = hop;
    }

    /// Ends the networks that end before an address. The addresses after each one belong to the network around it.
    fn close_before(&mut self, address: u32) {
        while let Some(&(prefix, _)) = self.open.last()
            && prefix.last() < address
        {
            self.open.pop();
            let around = self.open.last().map_or(HopId::NONE, |(_, hop)| *hop);
            self.start(prefix.last() + 1, around);
        }
    }

    /// Starts a range.
    fn start(&mut self, address: u32, hop: HopId) {
        self.reach(address >> self.shift);
        self.hop = hop;
        let start = address & ((1 << self.shift) - 1);
        // A smaller network starts where a larger one starts, or where another ends.
        self.ranges.pop_if(|last| last.start == start);
        if self.ranges.last().is_none_or(|last| last.hop != hop) {
            self.ranges.push(Range { start, hop });
        }
    }

    /// Ends the slots before this one.
    fn reach(&mut self, slot: u32) {
        if self.slot < slot {
            self.finish_slot();
            let whole = Range { start: 0, hop: self.hop };
            let (first, last) = (self.slot + 1, slot - 1);
            if first <= last {
                (self.each)((first, last), &[whole]);
            }
            self.slot = slot;
            self.ranges.push(whole);
        }
    }

    fn finish_slot(&mut self) {
        (self.each)((self.slot, self.slot), &self.ranges);
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::lookup::Order;

    #[test]
    fn slots_have_the_ranges_of_their_addresses() {
        let mut rib = Rib::new(Order::Address);
        for (bits, length, hop) in [
            (0x0000_0000, 0, 1),
            (0x0a00_0000, 8, 2),
            (0x0a00_0000, 10, 1),
            (0x0a40_0000, 10, 2),
            (0x0a80_0000, 32, 3),
            (0x0bff_ffff, 32, 4),
        ] {
            rib.set(Prefix::new(bits, length), HopId(hop));
        }
        let ranges = |run| {
            let mut slots = Vec::new();
            sweep(&rib, 8, run, |(first, last), ranges| {
                let ranges: Vec<_> =
                    ranges.iter().map(|range| (range.start, range.hop.0)).collect();
                slots.extend((first..=last).map(|slot| (slot, ranges.clone())));
            });
            slots
        };
        let ten = (0x0a, vec![(0, 1), (0x40_0000, 2), (0x80_0000, 3), (0x80_0001, 2)]);
        let eleven = (0x0b, vec![(0, 1), (0xff_ffff, 4)]);
        assert_eq!(ranges((9, 12)), [(9, vec![(0, 1)]), ten.clone(), eleven, (12, vec![(0, 1)])]);
        assert_eq!(ranges((10, 10)), [ten]);
        assert_eq!(ranges((255, 255)), [(255, vec![(0, 1)])]);
        assert_eq!(ranges((0, 255)).len(), 256);
    }
}

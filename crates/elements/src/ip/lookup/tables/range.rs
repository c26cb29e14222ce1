//! Sorted arrays of address ranges with one hop each, small enough for the cache.
//!
//! Source: M. Zec's RangeIPLookup in Click, and M. Zec, L. Rizzo, M. Mikuc, "DXR: Towards a Billion Routing Lookups Per
//! Second in Software", ACM CCR 42(5), 2012. The first bits of an address select an entry of the directory. The entry
//! holds either a hop, or the place of a block of ranges. A binary search in the block, by the remaining bits, finds
//! the address's range. Neighbouring ranges with the same hop are merged, so a table with few hops is much smaller than
//! its routes.
//!
//! A block holds the number of its ranges minus one, the start of every range except the first, and the hops. So a
//! search among few ranges reads one cache line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};

use millrace_core::isa;

use super::blocks::Blocks;
use super::entry::Entry;
use super::fib::{Fib, Part};
use super::hops::HopId;
use super::memory::zeroed;
use super::slotted::{PART, SlotWriter, Slotted};
use super::sweep::Range;
use crate::ip::lookup::routes::error::Error;

/// The number of address bits that index the directory.
const BITS: u8 = 18;

/// A mask of the remaining bits.
const LOW: u32 = u32::MAX >> BITS;

/// The ranges.
#[derive(Clone, Debug)]
pub struct Ranges(Arc<Width>);

/// The arrays, with cells as wide as necessary.
#[derive(Debug)]
enum Width {
    Narrow(Arrays<AtomicU16>),
    Wide(Arrays<AtomicU32>),
}

#[derive(Debug)]
struct Arrays<E> {
    directory: Box<[AtomicU32]>,
    cells: Box<[E]>,
}

impl<E: Entry> Arrays<E> {
    fn new(cells: usize) -> Result<Self, Error> {
        Ok(Self { directory: zeroed(1 << BITS)?, cells: zeroed(cells)? })
    }

    #[inline(always)]
    fn directory(&self, address: u32) -> u32 {
        self.directory.get((address >> (32 - BITS)) as usize).map_or(0, Entry::load)
    }

    /// The value of a cell; 0 outside all blocks.
    #[inline(always)]
    fn cell(&self, at: u32) -> u32 {
        self.cells.get(at as usize).map_or(0, Entry::load)
    }

    /// The hop of an address within a block.
    #[inline(always)]
    fn search(&self, block: Part, address: u32) -> HopId {
        let low = address & LOW;
        let count = self.cell(block);
        // The range is one of the `left` ranges starting with `range`.
        let (mut range, mut left) = (0, count + 1);
        while left > 1 {
            let half = left / 2;
            // The start of range n is in cell n.
            let above = self.cell(block + range + half) <= low;
            range += if above { half } else { 0 };
            left -= half;
        }
        HopId(self.cell(block + 1 + count + range))
    }

    #[inline(always)]
    fn lookup(&self, address: u32) -> HopId {
        let entry = self.directory(address);
        // The block of an entry was written before the entry.
        fence(Ordering::Acquire);
        match entry & PART {
            0 => HopId(entry),
            _ => self.search(entry & !PART, address),
        }
    }

    #[inline(always)]
    fn lookup_batch(&self, addresses: &[u32], hops: &mut [HopId]) {
        for (hop, &address) in hops.iter_mut().zip(addresses) {
            hop.0 = self.directory(address);
        }
        // The block of an entry was written before the entry.
        fence(Ordering::Acquire);
        for (hop, &address) in hops.iter_mut().zip(addresses) {
            if hop.0 & PART != 0 {
                *hop = self.search(hop.0 & !PART, address);
            }
        }
    }

    fn write(&self, block: Part, values: impl Iterator<Item = u32>) {
        let cells = self.cells.get(block as usize..).unwrap_or_default();
        for (cell, value) in cells.iter().zip(values) {
            cell.store(value);
        }
    }
}

impl Fib for Ranges {
    #[inline]
    fn lookup(&self, address: u32) -> HopId {
        match &*self.0 {
            Width::Narrow(arrays) => arrays.lookup(address),
            Width::Wide(arrays) => arrays.lookup(address),
        }
    }

    #[inline]
    fn lookup_batch(&self, addresses: &[u32], hops: &mut [HopId]) {
        isa::run(
            #[inline(always)]
            || match &*self.0 {
                Width::Narrow(arrays) => arrays.lookup_batch(addresses, hops),
                Width::Wide(arrays) => arrays.lookup_batch(addresses, hops),
            },
        );
    }
}

/// The writer of [`Ranges`].
pub type RangesWriter = SlotWriter<Notes>;

/// The writer's notes on the arrays.
#[derive(Debug)]
pub struct Notes {
    arrays: Arc<Width>,
    blocks: Blocks,
}

impl Slotted for Notes {
    type Fib = Ranges;

    const SLOT_BITS: u8 = BITS;

    fn with_room(routes: usize, hop_limit: u32) -> Result<Self, Error> {
        // A route starts a range, and perhaps another after it; a range needs two cells.
        let cells = routes.saturating_mul(8);
        let arrays = match hop_limit <= AtomicU16::MARK {
            true => Width::Narrow(Arrays::new(cells)?),
            false => Width::Wide(Arrays::new(cells)?),
        };
        Ok(Self { arrays: Arc::new(arrays), blocks: Blocks::new(cells.min(PART as usize)) })
    }

    fn fits(&self, hop_limit: u32) -> bool {
        match *self.arrays {
            Width::Narrow(_) => hop_limit <= AtomicU16::MARK,
            Width::Wide(_) => true,
        }
    }

    fn directory(&self) -> &[AtomicU32] {
        match &*self.arrays {
            Width::Narrow(arrays) => &arrays.directory,
            Width::Wide(arrays) => &arrays.directory,
        }
    }

    fn make(&mut self, ranges: &[Range]) -> Option<Part> {
        let block = self.blocks.take(2 * ranges.len())?;
        let count = ranges.len() as u32 - 1;
        let starts = ranges.iter().skip(1).map(|range| range.start);
        let values = std::iter::once(count).chain(starts).chain(ranges.iter().map(|r| r.hop.0));
        match &*self.arrays {
            Width::Narrow(arrays) => arrays.write(block, values),
            Width::Wide(arrays) => arrays.write(block, values),
        }
        Some(block)
    }

    fn free(&mut self, block: Part) {
        let count = match &*self.arrays {
            Width::Narrow(arrays) => arrays.cell(block),
            Width::Wide(arrays) => arrays.cell(block),
        };
        self.blocks.give_back(block, 2 * (count as usize + 1));
    }

    fn fib(&self) -> Ranges {
        Ranges(self.arrays.clone())
    }

    fn memory(&self) -> usize {
        let cell = match *self.arrays {
            Width::Narrow(_) => size_of::<AtomicU16>(),
            Width::Wide(_) => size_of::<AtomicU32>(),
        };
        (size_of::<AtomicU32>() << BITS) + self.blocks.used() * cell + self.blocks.memory()
    }
}

//! Ranges of addresses with one hop each, in a sorted array that a cache can hold.
//!
//! Source: M. Zec's RangeIPLookup in Click, and M. Zec, L. Rizzo, M. Mikuc, "DXR: Towards a Billion
//! Routing Lookups Per Second in Software", ACM CCR 42(5), 2012. The first 16 bits of an address
//! choose a chunk of the array by a directory, a binary search over the last 16 bits finds its
//! range. Neighbours with the same hop make one range, so that a table with few hops is far smaller
//! than its routes.
//!
//! A change makes new arrays beside the old ones: the chunks that it touches are worked out from the
//! routes, the others copied.

use std::sync::Arc;

use super::error::Error;
use super::fib::{Change, Fib, FibWriter, Readers, Routes};
use super::hops::HopId;
use super::rib::Rib;
use super::route::Prefix;

/// Bits of an address that choose its chunk.
const CHUNK_BITS: u8 = 16;

/// Chunks of addresses.
const CHUNKS: usize = 1 << CHUNK_BITS;

/// The ranges.
#[derive(Clone, Debug)]
pub struct Ranges(Arc<Arrays>);

#[derive(Debug, Default)]
struct Arrays {
    /// For each chunk the place of its first range, and the end of them all. Empty when there are
    /// no routes.
    directory: Vec<u32>,
    /// The last bits of the address that each range starts with: 0 for the first of a chunk.
    starts: Vec<u16>,
    /// The hop of each range.
    hops: Vec<HopId>,
}

impl Fib for Ranges {
    #[inline]
    fn lookup(&self, address: u32) -> HopId {
        let arrays = &*self.0;
        let chunk = (address >> (32 - CHUNK_BITS)) as usize;
        let Some(&[start, end]) = arrays.directory.get(chunk..chunk + 2) else {
            return HopId::NONE;
        };
        let starts = arrays.starts.get(start as usize..end as usize).unwrap_or_default();
        let low = address as u16;
        let after = starts.partition_point(|&start| start <= low);
        let range = start as usize + after.saturating_sub(1);
        arrays.hops.get(range).copied().unwrap_or_default()
    }
}

/// The writer of [`Ranges`].
#[derive(Debug)]
pub struct RangesWriter {
    ranges: Ranges,
}

impl FibWriter for RangesWriter {
    type Fib = Ranges;

    fn new() -> Result<Self, Error> {
        Ok(Self { ranges: Ranges(Arc::default()) })
    }

    fn fib(&self) -> Ranges {
        self.ranges.clone()
    }

    fn rebuild(&mut self, routes: Routes<'_>) -> Result<(), Error> {
        let arrays = Arrays::follow(&Arrays::default(), &[(0, CHUNKS - 1)], routes.rib);
        self.ranges = Ranges(Arc::new(arrays));
        Ok(())
    }

    fn update(
        &mut self,
        routes: Routes<'_>,
        changes: &[Change],
        readers: &mut dyn Readers<Ranges>,
    ) -> Result<(), Error> {
        let old = &*self.ranges.0;
        if old.directory.is_empty() {
            self.rebuild(routes)?;
        } else {
            let arrays = Arrays::follow(old, &touched(changes), routes.rib);
            self.ranges = Ranges(Arc::new(arrays));
        }
        readers.publish(self.fib());
        Ok(())
    }

    fn memory(&self) -> usize {
        let arrays = &*self.ranges.0;
        arrays.directory.capacity() * size_of::<u32>()
            + arrays.starts.capacity() * size_of::<u16>()
            + arrays.hops.capacity() * size_of::<HopId>()
    }
}

/// The runs of chunks that changes touch, each by its first and last chunk, in order.
fn touched(changes: &[Change]) -> Vec<(usize, usize)> {
    let chunk = |address: u32| (address >> 16) as usize;
    let run = |change: &Change| (chunk(change.prefix.first()), chunk(change.prefix.last()));
    let mut all: Vec<_> = changes.iter().map(run).collect();
    all.sort_unstable();
    let mut runs: Vec<(usize, usize)> = Vec::with_capacity(all.len());
    for (first, last) in all {
        match runs.last_mut() {
            Some(run) if first <= run.1 + 1 => run.1 = run.1.max(last),
            _ => runs.push((first, last)),
        }
    }
    runs
}

impl Arrays {
    /// The arrays for the routes, when only these runs of chunks differ from `old`.
    fn follow(old: &Arrays, runs: &[(usize, usize)], rib: &Rib) -> Arrays {
        let mut arrays = Arrays {
            directory: Vec::with_capacity(CHUNKS + 1),
            starts: Vec::with_capacity(old.starts.len()),
            hops: Vec::with_capacity(old.hops.len()),
        };
        let mut next = 0;
        for &(first, last) in runs {
            arrays.copy(old, next..first);
            arrays.paint(first, last, rib);
            next = last + 1;
        }
        arrays.copy(old, next..CHUNKS);
        arrays.directory.push(arrays.starts.len() as u32);
        arrays
    }

    /// Adds chunks as they were.
    fn copy(&mut self, old: &Arrays, chunks: std::ops::Range<usize>) {
        let Some(directory @ [start, .., end]) = old.directory.get(chunks.start..=chunks.end)
        else {
            return;
        };
        let here = self.starts.len() as u32;
        let places = directory.iter().take(chunks.len()).map(|place| place - start + here);
        self.directory.extend(places);
        let ranges = *start as usize..*end as usize;
        self.starts.extend_from_slice(old.starts.get(ranges.clone()).unwrap_or_default());
        self.hops.extend_from_slice(old.hops.get(ranges).unwrap_or_default());
    }

    /// Adds a run of chunks as the routes have them.
    fn paint(&mut self, first: usize, last: usize, rib: &Rib) {
        let start = Prefix::new((first as u32) << 16, CHUNK_BITS);
        let end = (last as u32) << 16 | 0xffff;
        let mut painter =
            Painter { arrays: self, chunk: first as u32, end, hop: HopId::NONE, open: Vec::new() };
        for (prefix, entry) in rib.around(start) {
            painter.open(prefix, entry.hop);
        }
        for (prefix, entry) in rib.from(start).take_while(|(prefix, _)| prefix.first() <= end) {
            painter.close_before(prefix.first());
            painter.start(prefix.first(), entry.hop);
            painter.open(prefix, entry.hop);
        }
        painter.close_before(end);
        painter.reach(end);
    }
}

/// Lays out the ranges of a run of chunks, from networks in order.
struct Painter<'a> {
    arrays: &'a mut Arrays,
    /// The next chunk to be started.
    chunk: u32,
    /// The last address of the run.
    end: u32,
    /// The hop at the place that was reached.
    hop: HopId,
    /// The networks around that place, the smallest last.
    open: Vec<(Prefix, HopId)>,
}

impl Painter<'_> {
    fn open(&mut self, prefix: Prefix, hop: HopId) {
        self.open.push((prefix, hop));
        self.hop = hop;
    }

    /// Ends the networks that end before an address. What is behind each belongs to the one around
    /// it.
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
        self.reach(address);
        self.hop = hop;
        let Arrays { directory, starts, hops } = &mut *self.arrays;
        let low = address as u16;
        if starts.last() == Some(&low) {
            // A smaller network starts where a larger one did, or where one ended.
            starts.pop();
            hops.pop();
        }
        let chunk = directory.last().map_or(0, |&place| place as usize);
        if starts.len() == chunk || hops.last() != Some(&hop) {
            starts.push(low);
            hops.push(hop);
        }
    }

    /// Starts the chunks up to the one that an address lies in.
    fn reach(&mut self, address: u32) {
        while self.chunk <= address.min(self.end) >> 16 {
            self.arrays.directory.push(self.arrays.starts.len() as u32);
            self.arrays.starts.push(0);
            self.arrays.hops.push(self.hop);
            self.chunk += 1;
        }
    }
}

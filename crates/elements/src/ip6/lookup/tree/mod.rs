//! A B+-tree in arrays over ranges of addresses.
//!
//! Source: "PlanB" (NSDI '26). It flattens the prefixes of a table to elementary intervals of the upper 64 bits,
//! which cover nearly all of an Internet routing table, and stores a B+-tree over the intervals level by level
//! without pointers. A lookup touches the same few cache lines whatever the prefix lengths are. The lookups of a
//! batch descend in parallel, so that one waits for memory while others search.
//!
//! A node has 16 keys, each the last address of a child or range; a child's index follows from the node's.
//! 4,096 ranges need three levels, 65,536 need four. Where prefixes are longer than 64 bits, an interval
//! points to a list of the ranges of the lower 64 bits: a *tail*, which is searched by bisection.
//!
//! A change copies the ranges that stay, and builds a new tree while readers use the old one.

mod ranges;

use std::hint::select_unpredictable;
use std::net::Ipv6Addr;
use std::sync::Arc;

use crate::ip::lookup::{Change, Error, Fib, FibWriter, HopId, Readers, Routes};
use ranges::Ranges;

/// The tree in which the addresses of packets are looked up.
#[derive(Clone, Debug)]
pub struct Tree(Arc<Levels>);

#[derive(Debug, Default)]
struct Levels {
    /// The nodes of each level, the root's first. The last level's keys are the intervals' ends.
    levels: Vec<Box<[Node]>>,
    /// The targets of the intervals, at the same indices as their ends.
    targets: Box<[Targets]>,
    tails: Tails,
}

/// Number of keys in a node.
const KEYS: usize = 16;

/// Keys in order. The last node of a level is padded with the highest number.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Node([u64; KEYS]);

impl Node {
    /// The index of the first key that is not less than `key`. There always is one, or the parent node would have
    /// led elsewhere. The search takes four steps without a branch. Comparing with all keys takes twice the time,
    /// even with vector instructions.
    #[inline(always)]
    fn search(&self, key: u64) -> usize {
        let mut place = 0;
        for step in [8, 4, 2, 1] {
            let is_behind = self.0[(place + step - 1) % KEYS] < key;
            place = select_unpredictable(is_behind, place + step, place);
        }
        place
    }
}

/// The targets of intervals: each the number of a hop or of a tail.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Targets([u32; KEYS]);

/// The bit that marks a target as the number of a tail. The numbers of hops are smaller.
const TAIL: u32 = 1 << 31;

/// Number of lookups that descend the tree in parallel: enough to hide the latency of dependent steps, and few
/// enough that their positions stay in registers. A lookup in four cached levels takes 10.8 ns with 8 lanes,
/// 12.3 ns with 16, and 13.4 ns with 4.
const LANES: usize = 8;

impl Fib<Ipv6Addr> for Tree {
    #[inline]
    fn lookup(&self, address: u128) -> HopId {
        let mut hop = [HopId::NONE];
        self.0.lookup_lanes(&[address], &mut hop);
        hop[0]
    }

    #[inline(always)]
    fn lookup_batch(&self, addresses: &[u128], hops: &mut [HopId]) {
        let count = addresses.len().min(hops.len());
        let (addresses, hops) = (&addresses[..count], &mut hops[..count]);
        let (groups, rest) = addresses.as_chunks::<LANES>();
        let (group_hops, rest_hops) = hops.as_chunks_mut::<LANES>();
        for (addresses, hops) in groups.iter().zip(group_hops.iter_mut()) {
            self.0.lookup_lanes(addresses, hops);
        }
        match rest.len() {
            0 => {}
            1..=4 => self.0.lookup_few::<4>(rest, rest_hops),
            _ => self.0.lookup_few::<LANES>(rest, rest_hops),
        }
    }
}

impl Levels {
    /// Looks up at most `N` addresses, padded to `N`: this is faster than one at a time.
    #[inline(always)]
    fn lookup_few<const N: usize>(&self, addresses: &[u128], hops: &mut [HopId]) {
        let mut padded = [0; N];
        padded.iter_mut().zip(addresses).for_each(|(place, address)| *place = *address);
        let mut found = [HopId::NONE; N];
        self.lookup_lanes(&padded, &mut found);
        hops.iter_mut().zip(found).for_each(|(place, hop)| *place = hop);
    }

    /// Looks up addresses in parallel: all descend one level before any descends the next.
    #[inline(always)]
    fn lookup_lanes<const N: usize>(&self, addresses: &[u128; N], hops: &mut [HopId; N]) {
        let mut places = [0usize; N];
        for level in &self.levels {
            for (place, address) in places.iter_mut().zip(addresses) {
                let key = (address >> 64) as u64;
                if let Some(node) = level.get(*place) {
                    *place = *place * KEYS + node.search(key);
                }
            }
        }
        for ((hop, place), &address) in hops.iter_mut().zip(places).zip(addresses) {
            *hop = self.hop(place, address);
        }
    }

    /// The hop of an address in the interval at index `place`.
    #[inline(always)]
    fn hop(&self, place: usize, address: u128) -> HopId {
        let Some(targets) = self.targets.get(place / KEYS) else { return HopId::NONE };
        match targets.0[place % KEYS] {
            hop if hop & TAIL == 0 => HopId(hop),
            tail => self.tails.hop(tail & !TAIL, address as u64),
        }
    }
}

/// The ranges of the lower 64 bits, for each interval that covers a single value of the upper bits and has several.
#[derive(Debug, Default)]
struct Tails {
    /// The index of each tail's first range, and the end of the last tail.
    bounds: Vec<u32>,
    /// The lower bits at which each range starts: 0 for the first range of a tail.
    starts: Vec<u64>,
    hops: Vec<HopId>,
}

impl Tails {
    #[cold]
    fn hop(&self, tail: u32, lower: u64) -> HopId {
        let tail = tail as usize;
        let Some(&[first, end]) = self.bounds.get(tail..tail + 2) else { return HopId::NONE };
        let starts = self.starts.get(first as usize..end as usize).unwrap_or_default();
        let after = starts.partition_point(|&start| start <= lower);
        let range = first as usize + after.saturating_sub(1);
        self.hops.get(range).copied().unwrap_or_default()
    }

    /// Adds a range to the last tail.
    fn push(&mut self, start: u64, hop: HopId) {
        self.starts.push(start);
        self.hops.push(hop);
    }
}

/// Builds trees.
impl Levels {
    fn of(ranges: &Ranges) -> Levels {
        let (intervals, tails) = intervals(ranges);
        // An interval ends where the next one starts.
        let behind = intervals.iter().skip(1).map(|(start, _)| start - 1);
        let ends: Vec<u64> = behind.chain([u64::MAX]).collect();
        let fill = |targets: &[(u64, u32)]| {
            let mut filled = Targets([0; KEYS]);
            filled.0.iter_mut().zip(targets).for_each(|(place, (_, target))| *place = *target);
            filled
        };
        let targets = intervals.chunks(KEYS).map(fill).collect();
        Levels { levels: levels(&ends), targets, tails }
    }

    fn memory(&self) -> usize {
        let Tails { bounds, starts, hops } = &self.tails;
        self.levels.iter().map(|level| size_of_val(&**level)).sum::<usize>()
            + size_of_val(&*self.targets)
            + bounds.capacity() * size_of::<u32>()
            + starts.capacity() * size_of::<u64>()
            + hops.capacity() * size_of::<HopId>()
    }
}

/// The start and the target of each interval of the upper 64 bits, and the tails.
fn intervals(ranges: &Ranges) -> (Vec<(u64, u32)>, Tails) {
    let mut intervals: Vec<(u64, u32)> = Vec::with_capacity(ranges.len());
    let mut tails = Tails { bounds: vec![0], ..Tails::default() };
    // The hop of the last address so far, and the upper bits of the interval whose tail is being written.
    let mut last = HopId::NONE;
    let mut open: Option<u64> = None;
    for (start, hop) in ranges.iter() {
        let (upper, lower) = ((start >> 64) as u64, start as u64);
        if let Some(tail) = open
            && tail != upper
        {
            tails.bounds.push(tails.starts.len() as u32);
            open = None;
            // The interval after the tail, unless another range starts right there.
            if (u128::from(tail) + 1) << 64 != start {
                intervals.push((tail + 1, last.0));
            }
        }
        match (open, lower) {
            (Some(_), _) => tails.push(lower, hop),
            (None, 0) => intervals.push((upper, hop.0)),
            (None, _) => {
                let number = tails.bounds.len() as u32 - 1;
                match intervals.last_mut() {
                    // The interval begins with a range of its own, or continues the range before.
                    Some(interval) if interval.0 == upper => interval.1 = TAIL | number,
                    _ => intervals.push((upper, TAIL | number)),
                }
                tails.push(0, last);
                tails.push(lower, hop);
                open = Some(upper);
            }
        }
        last = hop;
    }
    if let Some(tail) = open {
        tails.bounds.push(tails.starts.len() as u32);
        if let Some(behind) = tail.checked_add(1) {
            intervals.push((behind, last.0));
        }
    }
    (intervals, tails)
}

/// The levels of a tree over these interval ends, the last of which is the highest number.
fn levels(ends: &[u64]) -> Vec<Box<[Node]>> {
    let mut levels = Vec::new();
    let mut keys = ends.to_vec();
    loop {
        let node = |keys: &[u64]| {
            let mut node = Node([u64::MAX; KEYS]);
            node.0.iter_mut().zip(keys).for_each(|(place, key)| *place = *key);
            node
        };
        let level: Box<[Node]> = keys.chunks(KEYS).map(node).collect();
        keys = level.iter().map(|node| node.0[KEYS - 1]).collect();
        levels.push(level);
        if keys.len() <= 1 {
            break;
        }
    }
    levels.reverse();
    levels
}

/// The writer of [`Tree`].
#[derive(Debug)]
pub struct TreeWriter {
    ranges: Ranges,
    tree: Tree,
}

impl TreeWriter {
    fn lay_out(ranges: Ranges) -> Self {
        let tree = Tree(Arc::new(Levels::of(&ranges)));
        Self { ranges, tree }
    }
}

impl FibWriter<Ipv6Addr> for TreeWriter {
    type Fib = Tree;

    fn new() -> Result<Self, Error<Ipv6Addr>> {
        Ok(Self::lay_out(Ranges::new()))
    }

    fn fib(&self) -> Tree {
        self.tree.clone()
    }

    fn rebuild(&mut self, routes: Routes<'_, Ipv6Addr>) -> Result<(), Error<Ipv6Addr>> {
        *self = Self::lay_out(Ranges::of(routes.rib));
        Ok(())
    }

    fn update(
        &mut self,
        routes: Routes<'_, Ipv6Addr>,
        changes: &[Change<Ipv6Addr>],
        readers: &mut dyn Readers<Tree>,
    ) -> Result<(), Error<Ipv6Addr>> {
        *self = Self::lay_out(self.ranges.after(changes, routes.rib));
        readers.publish(self.fib());
        Ok(())
    }

    fn memory(&self) -> usize {
        self.ranges.memory() + self.tree.0.memory()
    }
}

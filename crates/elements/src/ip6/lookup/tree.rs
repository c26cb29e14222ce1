//! A B+-tree in arrays over ranges of addresses.
//!
//! Source: "PlanB" (NSDI '26), whose idea is to flatten the prefixes of a table to elementary intervals of
//! the upper 64 bits, which hold nearly all of an Internet routing table, and to lay a B+-tree over them out
//! level by level without pointers. A lookup then costs the same few cache lines whatever the prefix lengths
//! are, and lookups of a batch go down side by side, so that one waits for memory while others search.
//!
//! A node is 16 keys, each the last address of a child or range; the child's place follows from the node's.
//! 4,096 ranges are three levels, 65,536 are four. Where prefixes are longer than 64 bits, an interval
//! leads to a list of the ranges of the lower 64 bits: a *tail*, which a binary search goes through.
//!
//! A change copies the ranges that stay and lays the tree out anew beside the one that readers have.

use std::hint::select_unpredictable;
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::ranges::Ranges;
use crate::ip::lookup::{Change, Error, Fib, FibWriter, HopId, Readers, Routes};

/// The tree that packets' addresses are looked up in.
#[derive(Clone, Debug)]
pub struct Tree(Arc<Levels>);

#[derive(Debug, Default)]
struct Levels {
    /// The nodes of each level, the root's first. The last level's keys are the intervals' ends.
    levels: Vec<Box<[Node]>>,
    /// What the intervals lead to, in the places of their ends.
    targets: Box<[Targets]>,
    tails: Tails,
}

/// Keys of a node.
const KEYS: usize = 16;

/// Keys in order, the rest of the last node of a level filled up with the highest number.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Node([u64; KEYS]);

impl Node {
    /// The first key that is not less; there is one, or the node above would have led elsewhere. Four steps
    /// without a jump: comparing with all keys takes twice the time, with vectors too.
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

/// What intervals lead to: the number of a hop, or of a tail.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Targets([u32; KEYS]);

/// The bit that makes a target the number of a tail. Numbers of hops are smaller.
const TAIL: u32 = 1 << 31;

/// Lookups that go down the tree side by side: enough to hide that each step waits for the one before it, and
/// few enough that their places stay in registers. A lookup in four levels that are near takes 10.8 ns with 8,
/// 12.3 with 16, 13.4 with 4 of them.
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
    /// Looks up to `N` addresses up as if they were so many: that takes less time than one after the other.
    #[inline(always)]
    fn lookup_few<const N: usize>(&self, addresses: &[u128], hops: &mut [HopId]) {
        let mut padded = [0; N];
        padded.iter_mut().zip(addresses).for_each(|(place, address)| *place = *address);
        let mut found = [HopId::NONE; N];
        self.lookup_lanes(&padded, &mut found);
        hops.iter_mut().zip(found).for_each(|(place, hop)| *place = hop);
    }

    /// Looks addresses up side by side: all go down a level before any goes down the next one.
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

    /// The hop of an address in the interval at a place.
    #[inline(always)]
    fn hop(&self, place: usize, address: u128) -> HopId {
        let Some(targets) = self.targets.get(place / KEYS) else { return HopId::NONE };
        match targets.0[place % KEYS] {
            hop if hop & TAIL == 0 => HopId(hop),
            tail => self.tails.hop(tail & !TAIL, address as u64),
        }
    }
}

/// The ranges of the lower 64 bits in each interval, of one address of the upper bits, that has several.
#[derive(Debug, Default)]
struct Tails {
    /// The place of each tail's first range, and the end of them all.
    bounds: Vec<u32>,
    /// The lower bits that each range starts with: 0 for the first of a tail.
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

/// Lays trees out.
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

/// The intervals of the upper 64 bits, each by its start and what it leads to, and the tails.
fn intervals(ranges: &Ranges) -> (Vec<(u64, u32)>, Tails) {
    let mut intervals: Vec<(u64, u32)> = Vec::with_capacity(ranges.len());
    let mut tails = Tails { bounds: vec![0], ..Tails::default() };
    // The hop of the last address so far, and the upper bits of an interval whose tail is being written.
    let mut last = HopId::NONE;
    let mut open: Option<u64> = None;
    for (start, hop) in ranges.iter() {
        let (upper, lower) = ((start >> 64) as u64, start as u64);
        if let Some(tail) = open
            && tail != upper
        {
            tails.bounds.push(tails.starts.len() as u32);
            open = None;
            // What is behind the tail, unless another range starts right there.
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
                    // The interval begins with a range of its own, or with what was before.
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

/// The levels above and with these ends of intervals, of which the last is the highest number.
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

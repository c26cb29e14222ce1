//! Poptrie: a trie with 64 branches per node. A node is mostly two bit vectors, so the trie fits in a small cache.
//!
//! Source: H. Asai, Y. Ohara, "Poptrie: A Compressed Trie with Population Count for Fast and Scalable Software IP
//! Routing Table Lookup", ACM SIGCOMM 2015. The first 18 bits of an address select an entry of the directory ("direct
//! pointing"), which holds a hop or leads to a node. Each node consumes six more bits. A node's first vector marks
//! those of its 64 branches that lead to another node. These nodes are adjacent, so the number of bits set up to a
//! branch gives the position of its node. The other branches are leaves. Neighbouring leaves with the same hop share
//! one; the second vector marks where the hop changes ("leaf compression").

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

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

/// The number of address bits that a node consumes.
const STEP: u32 = 6;

/// The shift for each level of nodes, after four zero bits are appended to an address: the 14 bits that the directory
/// leaves are four less than three nodes consume.
const SHIFTS: [u32; 3] = [12, 6, 0];

/// The number of zero bits appended.
const PADDING: u32 = 4;

/// The trie.
#[derive(Clone, Debug)]
pub struct Poptrie(Arc<Width>);

/// The trie, with leaves as wide as necessary.
#[derive(Debug)]
enum Width {
    Narrow(Trie<AtomicU16>),
    Wide(Trie<AtomicU32>),
}

#[derive(Debug)]
struct Trie<E> {
    directory: Box<[AtomicU32]>,
    nodes: Box<[[AtomicU64; 3]]>,
    leaves: Box<[E]>,
}

/// A node, as loaded from the array.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// A bit for each branch that leads to another node.
    inner: u64,
    /// A bit for each leaf whose hop differs from that of the leaf before it.
    changes: u64,
    /// The index of the first child node.
    first_node: u32,
    /// The index of the first leaf.
    first_leaf: u32,
}

impl Node {
    #[inline(always)]
    fn load([inner, changes, firsts]: &[AtomicU64; 3]) -> Node {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let firsts = load(firsts);
        Node {
            inner: load(inner),
            changes: load(changes),
            first_node: (firsts >> 32) as u32,
            first_leaf: firsts as u32,
        }
    }

    fn store(self, [inner, changes, firsts]: &[AtomicU64; 3]) {
        inner.store(self.inner, Ordering::Relaxed);
        changes.store(self.changes, Ordering::Relaxed);
        let both = u64::from(self.first_node) << 32 | u64::from(self.first_leaf);
        firsts.store(both, Ordering::Relaxed);
    }

    /// Where a branch leads: to a node ([`PART`]), or to a leaf.
    #[inline(always)]
    fn branch(self, index: u32) -> u32 {
        let index = index % 64;
        let up_to_here = (2u64 << index).wrapping_sub(1);
        let is_inner = self.inner >> index & 1 != 0;
        let (bits, first) = match is_inner {
            true => (self.inner, self.first_node | PART),
            false => (self.changes, self.first_leaf),
        };
        first.wrapping_add((bits & up_to_here).count_ones()).wrapping_sub(1)
    }
}

/// The number of lookups that descend together, so that their cache misses overlap.
const LANES: usize = 16;

impl<E: Entry> Trie<E> {
    fn new(nodes: usize, leaves: usize) -> Result<Self, Error> {
        Ok(Self { directory: zeroed(1 << BITS)?, nodes: zeroed(nodes)?, leaves: zeroed(leaves)? })
    }

    #[inline(always)]
    fn directory(&self, address: u32) -> u32 {
        self.directory.get((address >> (32 - BITS)) as usize).map_or(0, Entry::load)
    }

    #[inline(always)]
    fn node(&self, at: u32) -> Node {
        self.nodes.get(at as usize).map_or_else(Node::default, Node::load)
    }

    #[inline(always)]
    fn leaf(&self, at: u32) -> u32 {
        self.leaves.get(at as usize).map_or(0, Entry::load)
    }

    fn write_leaves<'a>(&self, first: u32, hops: impl Iterator<Item = &'a HopId>) {
        let leaves = self.leaves.get(first as usize..).unwrap_or_default();
        leaves.iter().zip(hops).for_each(|(leaf, hop)| leaf.store(hop.0));
    }

    #[inline(always)]
    fn lookup(&self, address: u32) -> HopId {
        let mut entry = self.directory(address);
        if entry & PART == 0 {
            return HopId(entry);
        }
        // The node of an entry was written before the entry.
        fence(Ordering::Acquire);
        for shift in SHIFTS {
            let index = (u64::from(address) << PADDING >> shift) as u32;
            entry = self.node(entry & !PART).branch(index);
            if entry & PART == 0 {
                break;
            }
        }
        HopId(self.leaf(entry))
    }

    #[inline(always)]
    fn lookup_batch(&self, addresses: &[u32], hops: &mut [HopId]) {
        for (hop, &address) in hops.iter_mut().zip(addresses) {
            hop.0 = self.directory(address);
        }
        fence(Ordering::Acquire);
        for (addresses, hops) in addresses.chunks(LANES).zip(hops.chunks_mut(LANES)) {
            for shift in SHIFTS {
                if hops.iter().fold(0, |any, hop| any | hop.0) & PART == 0 {
                    break;
                }
                for (hop, &address) in hops.iter_mut().zip(addresses) {
                    let index = (u64::from(address) << PADDING >> shift) as u32;
                    // A finished lane continues with node 0 and leaf 0, and discards the result.
                    let entry = hop.0;
                    let goes_on = entry & PART != 0;
                    let next = self.node(if goes_on { entry & !PART } else { 0 }).branch(index);
                    let is_leaf = next & PART == 0;
                    let leaf = self.leaf(if goes_on && is_leaf { next } else { 0 });
                    let next = if is_leaf { leaf } else { next };
                    hop.0 = if goes_on { next } else { entry };
                }
            }
        }
    }
}

impl Fib for Poptrie {
    #[inline]
    fn lookup(&self, address: u32) -> HopId {
        match &*self.0 {
            Width::Narrow(trie) => trie.lookup(address),
            Width::Wide(trie) => trie.lookup(address),
        }
    }

    #[inline]
    fn lookup_batch(&self, addresses: &[u32], hops: &mut [HopId]) {
        isa::run(
            #[inline(always)]
            || match &*self.0 {
                Width::Narrow(trie) => trie.lookup_batch(addresses, hops),
                Width::Wide(trie) => trie.lookup_batch(addresses, hops),
            },
        );
    }
}

/// The writer of [`Poptrie`].
pub type PoptrieWriter = SlotWriter<Notes>;

/// The writer's notes on the nodes and leaves.
#[derive(Debug)]
pub struct Notes {
    trie: Arc<Width>,
    nodes: Blocks,
    leaves: Blocks,
}

impl Notes {
    /// Fills a node and builds everything below it, from the ranges that begin in the node or contain its first
    /// address. `start` is that address, relative to the slot and with the padding; `shift` selects the bits that the
    /// node consumes. `None` when there is no room.
    fn fill(&mut self, at: u32, ranges: &[Range], start: u32, shift: u32) -> Option<()> {
        let mut node = Node::default();
        let mut hops = [HopId::NONE; 64];
        let mut leaves = 0;
        let mut below: [&[Range]; 64] = [&[]; 64];
        let mut nodes = 0;
        let mut rest = ranges;
        for branch in 0..64 {
            let end = start + ((branch + 1) << shift);
            // The range that contains the start of the branch, and those that begin within the branch.
            let inside = rest.iter().skip(1).take_while(|range| range.start << PADDING < end);
            let count = 1 + inside.count();
            let first = rest.first()?;
            let here = rest.get(..count)?;
            let first_start = start + (branch << shift);
            let open = match here.get(1) {
                Some(second) if second.start << PADDING == first_start => second,
                _ => first,
            };
            let is_leaf = here.last().is_some_and(|last| std::ptr::eq(last, open));
            if is_leaf {
                let place = hops.get_mut(leaves)?;
                *place = open.hop;
                // Branches to nodes may lie in between; they do not end a run of leaves.
                if leaves == 0 || hops.get(leaves - 1).is_none_or(|last| *last != open.hop) {
                    node.changes |= 1 << branch;
                    leaves += 1;
                }
            } else {
                node.inner |= 1 << branch;
                *below.get_mut(nodes)? = here;
                nodes += 1;
            }
            rest = rest.get(count - 1..)?;
        }
        if leaves > 0 {
            node.first_leaf = self.leaves.take(leaves)?;
            let hops = hops.iter().take(leaves);
            match &*self.trie {
                Width::Narrow(trie) => trie.write_leaves(node.first_leaf, hops),
                Width::Wide(trie) => trie.write_leaves(node.first_leaf, hops),
            }
        }
        if nodes > 0 {
            node.first_node = self.nodes.take(nodes)?;
            let mut inner = node.inner;
            for (at, ranges) in (node.first_node..).zip(below.iter().take(nodes)) {
                let branch = inner.trailing_zeros();
                inner &= inner - 1;
                self.fill(at, ranges, start + (branch << shift), shift.checked_sub(STEP)?)?;
            }
        }
        node.store(self.cells().get(at as usize)?);
        Some(())
    }

    fn free_below(&mut self, at: u32) {
        let Some(node) = self.cells().get(at as usize).map(Node::load) else { return };
        let (nodes, leaves) = (node.inner.count_ones(), node.changes.count_ones());
        if leaves > 0 {
            self.leaves.give_back(node.first_leaf, leaves as usize);
        }
        if nodes > 0 {
            for below in node.first_node..node.first_node + nodes {
                self.free_below(below);
            }
            self.nodes.give_back(node.first_node, nodes as usize);
        }
    }

    fn cells(&self) -> &[[AtomicU64; 3]] {
        match &*self.trie {
            Width::Narrow(trie) => &trie.nodes,
            Width::Wide(trie) => &trie.nodes,
        }
    }
}

impl Slotted for Notes {
    type Fib = Poptrie;

    const SLOT_BITS: u8 = BITS;

    fn with_room(routes: usize, hop_limit: u32) -> Result<Self, Error> {
        let nodes = routes.saturating_add(64);
        let leaves = routes.saturating_mul(4);
        let trie = match hop_limit <= AtomicU16::MARK {
            true => Width::Narrow(Trie::new(nodes, leaves)?),
            false => Width::Wide(Trie::new(nodes, leaves)?),
        };
        let limit = PART as usize;
        let (nodes, leaves) = (Blocks::new(nodes.min(limit)), Blocks::new(leaves.min(limit)));
        Ok(Self { trie: Arc::new(trie), nodes, leaves })
    }

    fn fits(&self, hop_limit: u32) -> bool {
        match *self.trie {
            Width::Narrow(_) => hop_limit <= AtomicU16::MARK,
            Width::Wide(_) => true,
        }
    }

    fn directory(&self) -> &[AtomicU32] {
        match &*self.trie {
            Width::Narrow(trie) => &trie.directory,
            Width::Wide(trie) => &trie.directory,
        }
    }

    fn make(&mut self, ranges: &[Range]) -> Option<Part> {
        let root = self.nodes.take(1)?;
        self.fill(root, ranges, 0, SHIFTS[0])?;
        Some(root)
    }

    fn free(&mut self, root: Part) {
        self.free_below(root);
        self.nodes.give_back(root, 1);
    }

    fn fib(&self) -> Poptrie {
        Poptrie(self.trie.clone())
    }

    fn memory(&self) -> usize {
        let leaf = match *self.trie {
            Width::Narrow(_) => size_of::<AtomicU16>(),
            Width::Wide(_) => size_of::<AtomicU32>(),
        };
        (size_of::<AtomicU32>() << BITS)
            + self.nodes.used() * size_of::<[AtomicU64; 3]>()
            + self.leaves.used() * leaf
            + self.nodes.memory()
            + self.leaves.memory()
    }
}

//! Routes of IPv6 for the kernel `lpm6`: a trie of bytes in which sparse paths and equal neighbours take little room.
//!
//! # Layout
//! | word | | |
//! |---|---|---|
//! | 0 | magic | `0x364d_504c`, "LPM6" |
//! | 1 | `words` | words in the table |
//! | 2 | `root` | offset of the root, 65,536 entries |
//! | 3 | `nodes` | offset of the nodes, 32 words each |
//! | 4 | `hops` | how many there are |
//! | 5 | `miss` | decision where there is no route |
//! | 6 | `paths` | offset of the paths, 4 words each |
//! | 7 | `outputs` | offset of the hops' decisions, a word each |
//! | 8 | `leaves` | offset of the leaves, an entry each |
//!
//! Nodes and paths begin at multiples of 4 words: each step of a lookup is one load of 16 bytes. An **entry** is
//! 0 (no route), hop + 1, bit 31 and a node's number, or bits 31 and 30 and a path's number. A lookup begins with the entry of the
//! root for the first 16 bits of the address.
//!
//! A **node** treats a byte of the address. It has 8 cells of 4 words, the upper 3 bits of the byte say which one, the lower 5 the
//! bit `i` (after poptrie: Asai and Ohara, SIGCOMM'15):
//!
//! | word | |
//! |---|---|
//! | 0 | `children`: bit i, there is a node for this byte |
//! | 1 | `runs`: bit i, there is no node for this byte, and its entry is another than that of the byte before without one |
//! | 2 | number of the node of the lowest bit in `children`; those of the others follow |
//! | 3 | number of the leaf of the lowest bit in `runs`; those of the others follow |
//!
//! A **path** treats one to four bytes, where all other addresses have the same entry:
//!
//! | word | |
//! |---|---|
//! | 0 | the bytes, the first one on top |
//! | 1 | a mask of the bits that they take |
//! | 2 | the entry of addresses that have other bytes there |
//! | 3 | the entry of those that have these |

use std::sync::Arc;

use super::{Decisions, HEADER, MORE, NO_ROUTE, Route, TableError, check_route, check_size};

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"LPM6");
/// The number of bytes of the address that the root handles, and its number of entries.
const ROOT_BYTES: usize = 2;
pub(super) const ROOT: usize = 1 << 16;
/// The number of words of a node, of a cell, and of a path.
pub(super) const NODE: usize = 32;
pub(super) const CELL: usize = 4;
pub(super) const PATH: usize = 4;
/// Maximum number of bytes of a path.
const PATH_BYTES: usize = 4;
/// Bits of an entry that leads to a path instead of a node.
pub(super) const TO_PATH: u32 = MORE | 1 << 30;

/// A table of IPv6 routes. It is always built as a whole, which takes some 10 ms for the Internet's routes.
#[derive(Clone, Debug)]
pub struct Lpm6 {
    words: Arc<Vec<u32>>,
    routes: usize,
}

impl Lpm6 {
    /// Builds a table. It takes at most some 250 bytes per route, plus 256 KiB.
    ///
    /// # Errors
    /// A prefix is longer than 128 bits, a hop is not in the list, or the table is too large.
    pub fn build(
        routes: impl IntoIterator<Item = Route<u128>>,
        decisions: Decisions<'_>,
    ) -> Result<Self, TableError> {
        let mut sorted = Vec::new();
        for mut route in routes {
            check_route(&route, 128, decisions.hops.len())?;
            route.prefix &= mask(route.length);
            sorted.push(route);
        }
        // A route comes before all routes inside it. The sort is stable, so the last of equal routes stays last.
        sorted.sort_by_key(|route| (route.prefix, route.length));
        sorted.reverse();
        sorted.dedup_by_key(|route| (route.prefix, route.length));
        sorted.reverse();
        let mut trie = Trie::default();
        let root = trie.root(&sorted)?;
        Ok(Self { words: Arc::new(trie.join(&root, decisions)?), routes: sorted.len() })
    }

    /// The table, for the device.
    pub fn words(&self) -> &Arc<Vec<u32>> {
        &self.words
    }

    /// The number of routes.
    pub fn routes(&self) -> usize {
        self.routes
    }
}

/// The parts of the table after the root.
#[derive(Default)]
struct Trie {
    nodes: Vec<u32>,
    paths: Vec<u32>,
    leaves: Vec<u32>,
}

/// Routes that share their first bytes and are longer than these; sorted.
type Routes<'a> = &'a [Route<u128>];

impl Trie {
    fn root(&mut self, routes: Routes<'_>) -> Result<Vec<u32>, TableError> {
        let mut entries = vec![NO_ROUTE; ROOT];
        let index = |route: &Route<u128>| (route.prefix >> 112) as usize;
        for inside in routes.chunk_by(|one, other| index(one) == index(other)) {
            let short = inside.partition_point(|route| route.length <= 16);
            let (short, long) = inside.split_at(short);
            for route in short {
                let count = 1 << (16 - route.length);
                entries[index(route)..][..count].fill(route.hop + 1);
            }
            if let Some(route) = long.first() {
                let at = index(route);
                entries[at] = self.entry(long, ROOT_BYTES, entries[at])?;
            }
        }
        Ok(entries)
    }

    /// The entry for addresses with the same first `depth` bytes. `around` is the entry for addresses without a
    /// route.
    fn entry(&mut self, routes: Routes<'_>, depth: usize, around: u32) -> Result<u32, TableError> {
        if routes.is_empty() {
            return Ok(around);
        }
        if is_path(routes, depth) {
            return self.path(routes, depth, around);
        }
        let node = self.make_nodes(1)?;
        self.fill_node(node, routes, depth, around)?;
        Ok(MORE | node as u32)
    }

    fn path(&mut self, routes: Routes<'_>, depth: usize, around: u32) -> Result<u32, TableError> {
        let (mut rest, mut inside) = (routes, around);
        let (mut bytes, mut count) = (0, 0);
        while count < PATH_BYTES && is_path(rest, depth + count) && inside == around {
            bytes |= u32::from(byte(&rest[0], depth + count)) << (24 - 8 * count);
            count += 1;
            // It comes before the routes inside it.
            if usize::from(rest[0].length) == 8 * (depth + count) {
                inside = rest[0].hop + 1;
                rest = &rest[1..];
            }
        }
        let next = self.entry(rest, depth + count, inside)?;
        let number = self.paths.len() / PATH;
        self.paths.extend([bytes, u32::MAX << (32 - 8 * count), around, next]);
        Ok(TO_PATH | number as u32)
    }

    /// Makes room for nodes; returns the number of the first.
    fn make_nodes(&mut self, count: usize) -> Result<usize, TableError> {
        let first = self.nodes.len() / NODE;
        check_size(self.nodes.len() + count * NODE)?;
        self.nodes.resize(self.nodes.len() + count * NODE, 0);
        Ok(first)
    }

    fn fill_node(
        &mut self,
        node: usize,
        routes: Routes<'_>,
        depth: usize,
        around: u32,
    ) -> Result<(), TableError> {
        let mut painted = [around; 256];
        let mut inside: [Routes<'_>; 256] = [&[]; 256];
        for same in routes.chunk_by(|one, other| byte(one, depth) == byte(other, depth)) {
            let at = usize::from(byte(&same[0], depth));
            let short = same.partition_point(|route| usize::from(route.length) <= 8 * (depth + 1));
            for route in &same[..short] {
                let count = 1 << (8 * (depth + 1) - usize::from(route.length));
                painted[at..][..count].fill(route.hop + 1);
            }
            inside[at] = &same[short..];
        }
        for cell in 0..8 {
            self.fill_cell(node * NODE + cell * CELL, depth + 1, &painted, &inside, cell * 32)?;
        }
        Ok(())
    }

    /// Fills the cell at a word of `nodes` with the entries of the 32 bytes from `from` on.
    fn fill_cell(
        &mut self,
        at: usize,
        depth: usize,
        painted: &[u32; 256],
        inside: &[Routes<'_>; 256],
        from: usize,
    ) -> Result<(), TableError> {
        let is_child =
            |index: &usize| !inside[*index].is_empty() && !is_path(inside[*index], depth);
        let range = || from..from + 32;
        let first = self.make_nodes(range().filter(is_child).count())?;
        let (mut children, mut runs, mut entries) = (0_u32, 0_u32, Vec::new());
        for index in range() {
            if is_child(&index) {
                let node = first + children.count_ones() as usize;
                children |= 1 << (index - from);
                self.fill_node(node, inside[index], depth, painted[index])?;
                continue;
            }
            let entry = self.entry(inside[index], depth, painted[index])?;
            if entries.last() != Some(&entry) {
                runs |= 1 << (index - from);
                entries.push(entry);
            }
        }
        let leaf = self.leaves.len();
        self.leaves.extend(entries);
        self.nodes[at..at + CELL].copy_from_slice(&[children, runs, first as u32, leaf as u32]);
        Ok(())
    }

    fn join(self, root: &[u32], decisions: Decisions<'_>) -> Result<Vec<u32>, TableError> {
        let outputs = HEADER;
        let at_root = (outputs + decisions.hops.len()).next_multiple_of(NODE);
        let nodes = at_root + root.len();
        let paths = nodes + self.nodes.len();
        let leaves = paths + self.paths.len();
        let words = leaves + self.leaves.len();
        check_size(words)?;
        let mut table = vec![0; at_root];
        let header = [words, at_root, nodes, decisions.hops.len()].map(|word| word as u32);
        table[0] = MAGIC;
        table[1..5].copy_from_slice(&header);
        table[5] = decisions.miss;
        table[6..9].copy_from_slice(&[paths, outputs, leaves].map(|word| word as u32));
        table[outputs..][..decisions.hops.len()].copy_from_slice(decisions.hops);
        table.reserve_exact(words - at_root);
        for part in [root, &self.nodes, &self.paths, &self.leaves] {
            table.extend_from_slice(part);
        }
        Ok(table)
    }
}

/// True if all routes share all bits of byte number `depth`, so that all other bytes have the same entry.
fn is_path(routes: Routes<'_>, depth: usize) -> bool {
    let Some((first, last)) = routes.first().zip(routes.last()) else { return false };
    // The routes are sorted. What the first and the last share, all share. A shorter route has zeros after its end,
    // and comes first.
    byte(first, depth) == byte(last, depth) && usize::from(first.length) >= 8 * (depth + 1)
}

/// Byte number `depth` of a route's prefix.
fn byte(route: &Route<u128>, depth: usize) -> u8 {
    route.prefix.to_be_bytes()[depth]
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

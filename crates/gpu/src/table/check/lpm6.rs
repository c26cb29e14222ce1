//! Checks tables of the kernel `lpm6`. Their layout is described in [`lpm6`](crate::table).

use super::words::{Fault, Words, below};
use crate::table::MORE;
use crate::table::lpm6::{CELL, NODE, PATH, ROOT, TO_PATH};

/// Maximum number of nodes and paths to a hop: the kernel's limit, because each handles at least one of 14 bytes.
const MOST_STEPS: u8 = 14;

/// The height of a node or path that is not known yet. The height is the number of steps to the deepest entry below.
const NEW: u8 = 0;

struct Trie<'a> {
    hops: usize,
    nodes: &'a [u32],
    paths: &'a [u32],
    leaves: &'a [u32],
    node_heights: Vec<u8>,
    path_heights: Vec<u8>,
}

pub(super) fn check(table: Words<'_>) -> Result<(), Fault> {
    let hops = table.header(4)? as usize;
    table.part("decisions", table.header(7)?, hops)?;
    let root = table.part("the root", table.header(2)?, ROOT)?;
    let nodes = table.quads("nodes", table.header(3)?)?;
    let paths = table.quads("paths", table.header(6)?)?;
    let leaves = table.header(8)?;
    let leaves = table.part("leaves", leaves, table.0.len().saturating_sub(leaves as usize))?;
    let mut trie = Trie {
        hops,
        nodes,
        paths,
        leaves,
        node_heights: vec![NEW; nodes.len() / NODE],
        path_heights: vec![NEW; paths.len() / PATH],
    };
    for &entry in root {
        trie.height(entry, MOST_STEPS)?;
    }
    Ok(())
}

impl Trie<'_> {
    /// The maximum number of nodes and paths below an entry. At most `left` are allowed, so that cycles are found.
    fn height(&mut self, entry: u32, left: u8) -> Result<u8, Fault> {
        let number = entry & !TO_PATH;
        if entry & MORE == 0 {
            return self.hop(entry).map(|()| 0);
        }
        let is_path = entry & TO_PATH == TO_PATH;
        if is_path {
            let at = below("a path", number, self.path_heights.len())?;
            self.below(left, self.path_heights[at], |trie, left| trie.path(at, left))
        } else {
            let at = below("a node", number, self.node_heights.len())?;
            self.below(left, self.node_heights[at], |trie, left| trie.node(at, left))
        }
    }

    /// The height of a node or path, which is computed once.
    fn below(
        &mut self,
        left: u8,
        known: u8,
        height: impl FnOnce(&mut Self, u8) -> Result<u8, Fault>,
    ) -> Result<u8, Fault> {
        let deep = |height: u8| Fault::Wrong { what: "steps to a hop", number: height.into() };
        let left = left.checked_sub(1).ok_or_else(|| deep(MOST_STEPS + 1))?;
        let height = if known == NEW { height(self, left)? } else { known };
        if height > left + 1 { Err(deep(height)) } else { Ok(height) }
    }

    fn path(&mut self, at: usize, left: u8) -> Result<u8, Fault> {
        let words = &self.paths[at * PATH..][..PATH];
        let (mask, other, entry) = (words[1], words[2], words[3]);
        // One to four bytes, from the top.
        if !matches!(mask, 0xff00_0000 | 0xffff_0000 | 0xffff_ff00 | 0xffff_ffff) {
            return Err(Fault::Wrong { what: "the mask of a path", number: mask });
        }
        // It ends the search.
        self.hop(other)?;
        let height = self.height(entry, left)? + 1;
        self.path_heights[at] = height;
        Ok(height)
    }

    fn node(&mut self, at: usize, left: u8) -> Result<u8, Fault> {
        let mut most = 0;
        for cell in 0..NODE / CELL {
            let words = &self.nodes[at * NODE + cell * CELL..][..CELL];
            let (children, runs, node, leaf) = (words[0], words[1], words[2], words[3]);
            for child in 0..children.count_ones() {
                let number = node.checked_add(child).filter(|number| number & TO_PATH == 0);
                let fault = Fault::Wrong { what: "the first child of a node", number: node };
                most = most.max(self.height(MORE | number.ok_or(fault)?, left)?);
            }
            // A byte without a child takes the entry of the last run that began before it, so there must be one.
            if (!children).trailing_zeros() < runs.trailing_zeros() {
                return Err(Fault::Wrong {
                    what: "a byte before all runs of a node",
                    number: runs,
                });
            }
            // Runs of bytes with a child are counted, too.
            for run in 0..runs.count_ones() {
                let index = leaf.saturating_add(run);
                let entry = self.leaves[below("a leaf", index, self.leaves.len())?];
                most = most.max(self.height(entry, left)?);
            }
        }
        self.node_heights[at] = most + 1;
        Ok(most + 1)
    }

    /// Checks an entry that ends the search.
    fn hop(&self, entry: u32) -> Result<(), Fault> {
        below("an entry", entry, self.hops + 1).map(drop)
    }
}

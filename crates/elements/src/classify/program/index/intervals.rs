//! From the value of a field to what is known of it.
//!
//! What rules say divides the values of a field into intervals. Finding the one that a value lies in is
//! most of what a packet costs, so that it has as few steps as can be, none of which depends on the packet:
//! of fields of one byte a table of all values, of two bytes one of pages, equal ones of which are kept
//! once, and of four bytes a tree, whose nodes are compared with the value as a whole.

use std::collections::HashMap;

/// Numbers of a node of a tree.
const NODE: usize = 16;

/// Most levels of a tree: enough for 2^32 numbers.
const LEVELS: usize = 8;

/// The numbers of the intervals' rows.
#[derive(Clone, Debug)]
pub(super) enum Intervals {
    /// For each value the row.
    Byte(Box<[u16; 256]>),
    /// For each upper byte a page, and for each lower byte the row.
    Half { pages: Box<[u16; 256]>, rows: Box<[[u16; 256]]> },
    /// See [`Tree`].
    Word(Tree),
}

/// The last values of intervals, and numbers of those at which a node begins above them.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// From the root down. Numbers have the highest bit turned, so that they compare as signed ones, for
    /// which all instruction sets have instructions.
    nodes: Box<[[i32; NODE]]>,
    /// The first node of each level.
    levels: [u32; LEVELS],
    depth: usize,
    /// The row of each interval.
    rows: Box<[u32]>,
}

impl Intervals {
    /// `starts` are the first values of the intervals of a field with so many bits, in order, from 0 on; `rows`
    /// are their rows.
    pub(super) fn new(bits: u32, starts: &[u32], rows: &[u32]) -> Self {
        match bits {
            8 => {
                let mut table = Box::new([0; 256]);
                fill(&mut table[..], starts, rows);
                Self::Byte(table)
            }
            16 => {
                let mut table = vec![0; 1 << 16];
                fill(&mut table, starts, rows);
                let mut known: HashMap<[u16; 256], u16> = HashMap::new();
                let mut different = Vec::new();
                let mut pages = Box::new([0; 256]);
                for (number, page) in pages.iter_mut().zip(table.as_chunks::<256>().0) {
                    *number = *known.entry(*page).or_insert_with(|| {
                        different.push(*page);
                        different.len() as u16 - 1
                    });
                }
                Self::Half { pages, rows: different.into() }
            }
            _ => Self::Word(Tree::new(starts, rows)),
        }
    }

    /// Bytes that are taken.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Byte(rows) => size_of_val(&**rows),
            Self::Half { pages, rows } => size_of_val(&**pages) + size_of_val(&**rows),
            Self::Word(tree) => size_of_val(&*tree.nodes) + size_of_val(&*tree.rows),
        }
    }
}

/// Writes the row of each value. There are no more rows than values.
fn fill(table: &mut [u16], starts: &[u32], rows: &[u32]) {
    let ends = starts.iter().skip(1).map(|&end| end as usize).chain([table.len()]);
    for ((&start, end), &row) in starts.iter().zip(ends.collect::<Vec<_>>()).zip(rows) {
        if let Some(values) = table.get_mut(start as usize..end) {
            values.fill(row as u16);
        }
    }
}

impl Tree {
    fn new(starts: &[u32], rows: &[u32]) -> Self {
        let mut level: Vec<u32> = starts.iter().skip(1).map(|start| start - 1).collect();
        let mut levels = Vec::new();
        loop {
            let (nodes, rest) = level.as_chunks::<NODE>();
            let mut nodes = nodes.to_vec();
            if !rest.is_empty() || nodes.is_empty() {
                // No value is greater.
                let mut last = [u32::MAX; NODE];
                last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                nodes.push(last);
            }
            level = nodes.iter().skip(1).map(|node| node[0]).collect();
            levels.push(nodes);
            if level.is_empty() {
                break;
            }
        }
        let depth = levels.len();
        let (mut nodes, mut firsts) = (Vec::new(), [0; LEVELS]);
        for (first, level) in firsts.iter_mut().zip(levels.iter().rev()) {
            *first = nodes.len() as u32;
            nodes.extend(level.iter().map(|node| node.map(signed)));
        }
        Self { nodes: nodes.into(), levels: firsts, depth, rows: rows.into() }
    }

    /// The row of a value.
    #[inline(always)]
    pub(super) fn find(&self, value: u32) -> u32 {
        let value = signed(value);
        let mut at = 0;
        for &first in self.levels.iter().take(self.depth) {
            let Some(node) = self.nodes.get(first as usize + at) else { return 0 };
            // In four sums: so there are instructions for it.
            let mut less = [0; 4];
            for (nth, &number) in node.iter().enumerate() {
                less[nth % 4] += i32::from(number < value);
            }
            at = at * NODE + less.iter().sum::<i32>() as usize;
        }
        self.rows.get(at).copied().unwrap_or(0)
    }
}

/// Orders as `value` where numbers are signed.
#[inline(always)]
fn signed(value: u32) -> i32 {
    (value ^ 1 << 31) as i32
}

//! Builds a tree.
//!
//! The node with the most rules is split first, until each has at most [`LEAF`], or there are too many copies of
//! rules. It is split where the fewest pairs of rules stay together. For masks with gaps, which no range of values
//! separates, nodes also test single bits.
//!
//! Rules after one that holds for all packets of a node cannot be reached there. They do not count, but they stay in
//! the leaf, because the rule before them may be removed while packets flow.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::area::{Areas, Bounds, Cut, DIMENSIONS, EVERYTHING, Sides};
use super::{Forest, Node, Tree};

/// The intended maximum number of rules in a leaf.
const LEAF: usize = 2;

/// Copies of rules in the leaves of a tree, per rule.
const COPIES: usize = 4;

/// The limits of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// No such tree is built for more rules than this.
    pub(super) most_rules: usize,
    /// The total number of copies that is always allowed.
    copies: usize,
    /// The percentage of pairs that may stay together after a split.
    pairs: usize,
}

/// If there are [`COPIES`] per rule on average, a tree is not split further, and leaves stay longer.
pub(super) const SPARINGLY: Growth = Growth { most_rules: usize::MAX, copies: 0, pairs: 98 };

/// As long as the tree and the packets fit the second-level cache, another copy is better than a comparison. A split
/// may even increase the number of pairs: one side may keep all rules if the other has few.
pub(super) const FREELY: Growth = Growth { most_rules: 3000, copies: 12_000, pairs: 110 };

/// From this depth on, trees grow with the stricter limits.
const DEEP: u32 = 32;

impl Forest {
    /// Adds a tree of these rules.
    pub(super) fn grow(&mut self, rules: Vec<u32>, areas: &Areas, growth: Growth) {
        let Some(&first_rule) = rules.first() else { return };
        let mut left = growth.copies.max(rules.len() * COPIES) - rules.len();
        let root = self.nodes.len();
        self.nodes.push(Node::Leaf { first: 0, count: 0 });
        self.trees.push(Tree { root, first_rule });
        let everything = [EVERYTHING; DIMENSIONS.len()];
        let mut open = BinaryHeap::new();
        let mut scratch = Scratch::default();
        open.push(Open::new(rules, root, 0, everything, areas));
        while let Some(node) = open.pop() {
            let pairs = if node.depth < DEEP { growth.pairs } else { SPARINGLY.pairs };
            let split = match node.reachable {
                0..=LEAF => None,
                _ => scratch.best_split(&node, areas, pairs),
            };
            let split = split.map(|cut| (cut, node.sides(cut, areas)));
            let fits =
                |sides: &[Vec<u32>; 2]| sides[0].len() + sides[1].len() <= node.rules.len() + left;
            let Reverse(at) = node.at;
            let Some((cut, sides)) = split.filter(|(_, sides)| fits(sides)) else {
                let first = self.rules.len();
                self.nodes[at] = Node::Leaf { first, count: node.rules.len() };
                self.rules.extend(node.rules);
                continue;
            };
            left -= sides[0].len() + sides[1].len() - node.rules.len();
            let children = self.nodes.len();
            let (word, shift, threshold) = cut.question();
            self.nodes[at] = Node::Split { word, shift, threshold, children };
            for (side, rules) in sides.into_iter().enumerate() {
                self.nodes.push(Node::Leaf { first: 0, count: 0 });
                let mut bounds = node.bounds;
                match (cut, side) {
                    (Cut::Value(dimension, threshold), 0) => bounds[dimension].1 = threshold - 1,
                    (Cut::Value(dimension, threshold), _) => bounds[dimension].0 = threshold,
                    (Cut::Bit(..), _) => {}
                }
                open.push(Open::new(rules, children + side, node.depth + 1, bounds, areas));
            }
        }
    }
}

/// A node that may be split. The one with the most reachable rules comes first, then the one that was made first.
struct Open {
    rules: Vec<u32>,
    /// The number of its rules, from the first on, that packets may match.
    reachable: usize,
    at: Reverse<usize>,
    depth: u32,
    bounds: Bounds,
}

impl Open {
    fn new(rules: Vec<u32>, at: usize, depth: u32, bounds: Bounds, areas: &Areas) -> Self {
        let reachable = areas.reachable(&rules, &bounds);
        Self { rules, reachable, at: Reverse(at), depth, bounds }
    }

    /// The rules on either side.
    fn sides(&self, cut: Cut, areas: &Areas) -> [Vec<u32>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for &rule in &self.rules {
            for (side, lies) in sides.iter_mut().zip(areas.lies(rule, cut)) {
                if lies {
                    side.push(rule);
                }
            }
        }
        sides
    }

    fn rank(&self) -> (usize, Reverse<usize>) {
        (self.reachable, self.at)
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Open {}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Memory for the search.
#[derive(Default)]
struct Scratch {
    starts: Vec<u32>,
    ends: Vec<u32>,
}

impl Scratch {
    /// The split after which the fewest pairs of reachable rules stay together; `None` if more than this percentage
    /// would.
    fn best_split(&mut self, node: &Open, areas: &Areas, pairs: usize) -> Option<Cut> {
        let rules = &node.rules[..node.reachable];
        let mut best: Option<(usize, Cut)> = None;
        let mut consider = |cut, Sides { below, above }: Sides| {
            let score = below * below + above * above;
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, cut));
            }
        };
        for (dimension, bounds) in areas.dimensions() {
            let bounds = rules.iter().map(|rule| bounds[*rule as usize]);
            self.each_value(dimension, node.bounds[dimension], bounds, &mut consider);
        }
        areas.bits(rules, &mut consider);
        let (score, cut) = best?;
        (score < rules.len() * rules.len() * pairs / 100).then_some(cut)
    }

    /// What each value in a dimension leaves on either side.
    fn each_value(
        &mut self,
        dimension: usize,
        (first, last): (u32, u32),
        bounds: impl ExactSizeIterator<Item = (u32, u32)>,
        each: &mut impl FnMut(Cut, Sides),
    ) {
        let count = bounds.len();
        self.starts.clear();
        self.ends.clear();
        for (from, to) in bounds {
            if from > first {
                self.starts.push(from);
            }
            if to < last {
                self.ends.push(to + 1);
            }
        }
        self.starts.sort_unstable();
        self.ends.sort_unstable();
        let (mut started, mut ended) = (0, 0);
        loop {
            let next = [self.starts.get(started), self.ends.get(ended)];
            let Some(&threshold) = next.into_iter().flatten().min() else { break };
            // Rules that begin in front of the threshold, and those that do not end there.
            let below = count - (self.starts.len() - started);
            while self.ends.get(ended) == Some(&threshold) {
                ended += 1;
            }
            let above = count - ended;
            each(Cut::Value(dimension, threshold), Sides { below, above });
            while self.starts.get(started) == Some(&threshold) {
                started += 1;
            }
        }
    }
}

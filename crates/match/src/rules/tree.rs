//! Decision trees over rules: which of them a packet need be compared with.
//!
//! A rule is a box: for each of ten [`DIMENSIONS`] of the key the values that it takes. A node asks whether one
//! dimension of the packet is at least some value, and the rules on each side of it go into two children; a rule on
//! both sides goes into both (HyperSplit: Qi et al., INFOCOM 2009). Where and on what to split is what
//! leaves the fewest pairs of rules together.
//!
//! What makes such trees large is rules that are narrow in one dimension beside others that are narrow in
//! another: each cuts the other into pieces. Sorted by the addresses that they narrow, each kind in a tree of its
//! own, rules overlap little (EffiCuts: Vamanan, Voskuilen and Vijaykumar, SIGCOMM 2010; CutSplit: Li et al.,
//! INFOCOM 2018); but every tree must be walked, and where few rules are wide one tree with copies of these is faster.
//! So several [`SORTINGS`] are tried, and the one is taken by which a lookup costs least. With [`COPIES`] for each rule
//! on average a tree is not split further: leaves stay longer instead.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::rule::{Masked, Ports, Rule};

/// A part of the key that nodes ask for: the bits of `word` from `shift` on, at the top of a word. What is below
/// them is other fields, and does not count in a comparison with a value that has zeros there.
pub(super) struct Dimension {
    pub(super) word: u8,
    pub(super) shift: u8,
}

/// The parts of the key.
pub(super) const DIMENSIONS: [Dimension; 10] = [
    Dimension { word: 4, shift: 0 },  // IPv4 source
    Dimension { word: 5, shift: 0 },  // IPv4 destination
    Dimension { word: 6, shift: 16 }, // destination port
    Dimension { word: 6, shift: 0 },  // source port
    Dimension { word: 3, shift: 16 }, // protocol
    Dimension { word: 3, shift: 0 },  // EtherType
    Dimension { word: 0, shift: 0 },  // Ethernet destination, first four bytes
    Dimension { word: 1, shift: 0 },  // Ethernet destination, last two bytes
    Dimension { word: 1, shift: 16 }, // Ethernet source, first two bytes
    Dimension { word: 2, shift: 0 },  // Ethernet source, last four bytes
];

/// First and last value in each dimension.
type Bounds = [(u32, u32); DIMENSIONS.len()];

/// Most trees.
pub(super) const MOST_TREES: usize = 8;

/// Rules that a leaf should have at most.
pub(super) const LEAF: usize = 2;

/// Copies of rules in the leaves of a tree, for each rule.
pub(super) const COPIES: usize = 4;

/// What all rules' trees have together.
#[derive(Default)]
pub(super) struct Forest {
    /// Nodes of all trees; children stand side by side.
    pub(super) nodes: Vec<Node>,
    /// The trees, by the first rule of each.
    pub(super) trees: Vec<Tree>,
    /// The rules of the leaves, each leaf's in ascending order, one leaf after the other.
    pub(super) rules: Vec<u32>,
}

/// A tree.
pub(super) struct Tree {
    pub(super) root: usize,
    pub(super) first_rule: u32,
}

/// A node.
#[derive(Clone, Copy)]
pub(super) enum Node {
    /// Values from `threshold` on go to the second child, all others to the first one, at `children`.
    Split { dimension: usize, threshold: u32, children: usize },
    /// `count` rules, from `first` on.
    Leaf { first: usize, count: usize },
}

/// Ways to sort rules into trees: which addresses count (see [`kind`]), and whether only the first one that a rule
/// narrows does.
const SORTINGS: [(u8, bool); 5] = [(0, false), (1, false), (2, false), (0xf, true), (0xf, false)];

impl Forest {
    /// Makes trees of rules.
    pub(super) fn new(rules: &[Rule]) -> Self {
        let bounds: Vec<Bounds> = rules.iter().map(bounds).collect();
        let mut sortings: Vec<Vec<Vec<u32>>> = Vec::new();
        for (addresses, first_alone) in SORTINGS {
            let groups = groups(&bounds, addresses, first_alone);
            if !sortings.contains(&groups) {
                sortings.push(groups);
            }
        }
        let forests = sortings.into_iter().map(|groups| Self::of_groups(groups, &bounds));
        forests.min_by_key(|forest| forest.cost(rules.len())).unwrap_or_default()
    }

    /// Makes one tree of all rules.
    pub(super) fn of_one_tree(rules: &[Rule]) -> Self {
        let bounds: Vec<Bounds> = rules.iter().map(bounds).collect();
        Self::of_groups(vec![(0..rules.len() as u32).collect()], &bounds)
    }

    fn of_groups(groups: Vec<Vec<u32>>, bounds: &[Bounds]) -> Self {
        let mut forest = Self::default();
        for group in groups {
            forest.grow(group, bounds);
        }
        forest.trees.sort_by_key(|tree| tree.first_rule);
        forest
    }

    /// What a lookup costs, in picoseconds or so, for packets that satisfy each rule equally often: what was measured
    /// for trees, nodes and entries of leaves.
    fn cost(&self, rules: usize) -> u64 {
        const TREE: u64 = 13_000;
        const NODE: u64 = 1800;
        const ENTRY: u64 = 3500;
        let mut copies = vec![0_u64; rules];
        self.rules.iter().for_each(|rule| copies[*rule as usize] += 1);
        let mut cost = 0;
        for tree in &self.trees {
            let (mut of_tree, mut weights) = (0, 0);
            let mut open = vec![(tree.root, 0)];
            while let Some((at, depth)) = open.pop() {
                match self.nodes[at] {
                    Node::Split { children, .. } => {
                        open.extend([(children, depth + 1), (children + 1, depth + 1)]);
                    }
                    Node::Leaf { first, count } => {
                        let of_leaf = self.rules[first..first + count].iter();
                        let weight: u64 =
                            of_leaf.map(|rule| 1000 / copies[*rule as usize].max(1)).sum();
                        of_tree += weight * (NODE * depth + ENTRY * count as u64);
                        weights += weight;
                    }
                }
            }
            cost += TREE + of_tree / weights.max(1);
        }
        cost
    }

    /// Adds a tree of these rules: the node with the most rules is split first, until each has few or there are
    /// too many copies.
    fn grow(&mut self, rules: Vec<u32>, bounds: &[Bounds]) {
        let Some(&first_rule) = rules.first() else { return };
        let mut left = rules.len() * (COPIES - 1);
        let root = self.nodes.len();
        self.nodes.push(Node::Leaf { first: 0, count: 0 });
        self.trees.push(Tree { root, first_rule });
        let everything = [(0, u32::MAX); DIMENSIONS.len()];
        let mut open = BinaryHeap::new();
        let mut scratch = Scratch::default();
        open.push(Open { rules, at: Reverse(root), bounds: everything });
        while let Some(node) = open.pop() {
            let split = match node.rules.len() {
                0..=LEAF => None,
                _ => scratch.best_split(&node, bounds),
            };
            let split = split.filter(|split| split.copies <= left);
            let Reverse(at) = node.at;
            let Some(Split { dimension, threshold, copies, .. }) = split else {
                let first = self.rules.len();
                self.nodes[at] = Node::Leaf { first, count: node.rules.len() };
                self.rules.extend(node.rules);
                continue;
            };
            left -= copies;
            let children = self.nodes.len();
            self.nodes[at] = Node::Split { dimension, threshold, children };
            for side in 0..2 {
                self.nodes.push(Node::Leaf { first: 0, count: 0 });
                let mut of_child = node.bounds;
                let of_dimension = &mut of_child[dimension];
                match side {
                    0 => of_dimension.1 = threshold - 1,
                    _ => of_dimension.0 = threshold,
                }
                let (first, last) = *of_dimension;
                let lies = |rule: &u32| {
                    let (from, to) = bounds[*rule as usize][dimension];
                    from <= last && to >= first
                };
                let rules = node.rules.iter().copied().filter(lies).collect();
                open.push(Open { rules, at: Reverse(children + side), bounds: of_child });
            }
        }
    }
}

/// A node that may be split. The one with the most rules comes first, then the one that was made first.
#[derive(PartialEq, Eq)]
struct Open {
    rules: Vec<u32>,
    at: Reverse<usize>,
    bounds: Bounds,
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.rules.len(), self.at).cmp(&(other.rules.len(), other.at))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Where to split a node.
#[derive(Clone, Copy)]
struct Split {
    dimension: usize,
    threshold: u32,
    /// Rules that lie on both sides.
    copies: usize,
    score: usize,
}

/// Memory for the search.
#[derive(Default)]
struct Scratch {
    starts: Vec<u32>,
    ends: Vec<u32>,
}

impl Scratch {
    /// The split that leaves the fewest pairs of rules together; none where it would be hardly fewer.
    fn best_split(&mut self, node: &Open, bounds: &[Bounds]) -> Option<Split> {
        let count = node.rules.len();
        let mut best: Option<Split> = None;
        for (dimension, &(first, last)) in node.bounds.iter().enumerate() {
            self.starts.clear();
            self.ends.clear();
            for &rule in &node.rules {
                let (from, to) = bounds[rule as usize][dimension];
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
                let score = below * below + above * above;
                if best.is_none_or(|best| score < best.score) {
                    let copies = below + above - count;
                    best = Some(Split { dimension, threshold, copies, score });
                }
                while self.starts.get(started) == Some(&threshold) {
                    started += 1;
                }
            }
        }
        best.filter(|best| best.score < count * count * 49 / 50)
    }
}

/// Sorts rules into groups, each for a tree, by the addresses that they narrow.
fn groups(bounds: &[Bounds], addresses: u8, first_alone: bool) -> Vec<Vec<u32>> {
    /// Fewer than this are no group.
    const FEW: usize = 8;
    let mut groups: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
    for (rule, bounds) in (0..).zip(bounds) {
        let kind = kind(bounds) & addresses;
        let kind = if first_alone { kind & kind.wrapping_neg() } else { kind };
        groups.entry(kind).or_default().push(rule);
    }
    let mut rest = groups.remove(&0).unwrap_or_default();
    let mut groups: Vec<Vec<u32>> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.len()));
    while groups.last().is_some_and(|group| group.len() < FEW || groups.len() >= MOST_TREES) {
        rest.extend(groups.pop().unwrap_or_default());
    }
    rest.sort_unstable();
    groups.push(rest);
    groups
}

/// Which addresses a rule narrows to a 256th or less, a bit for each.
fn kind(bounds: &Bounds) -> u8 {
    let is_narrow = |dimension: usize| {
        let (first, last) = bounds[dimension];
        last - first < 1 << 24
    };
    [is_narrow(0), is_narrow(1), is_narrow(6) || is_narrow(7), is_narrow(8) || is_narrow(9)]
        .into_iter()
        .enumerate()
        .fold(0, |kind, (bit, narrow)| kind | u8::from(narrow) << bit)
}

/// The least box around a rule. What a mask with gaps leaves out of it is asked in the leaf.
fn bounds(rule: &Rule) -> Bounds {
    let word = |value: u32, mask: u32| (value, value | !mask);
    let half = |value: u64, mask: u64| word((value as u32) << 16, (mask as u32) << 16);
    let ports =
        |ports: &Ports| (u32::from(ports.first()) << 16, u32::from(ports.last()) << 16 | 0xffff);
    let net = |net: &Masked<u32>| word(net.value(), net.mask());
    let (to, from) = (&rule.ether_destination, &rule.ether_source);
    let (protocol, ether_type) = (&rule.protocol, &rule.ether_type);
    [
        net(&rule.source),
        net(&rule.destination),
        ports(&rule.destination_ports),
        ports(&rule.source_ports),
        word(u32::from(protocol.value()) << 24, u32::from(protocol.mask()) << 24),
        half(ether_type.value().into(), ether_type.mask().into()),
        word((to.value() >> 16) as u32, (to.mask() >> 16) as u32),
        half(to.value() & 0xffff, to.mask() & 0xffff),
        half(from.value() >> 32, from.mask() >> 32),
        word(from.value() as u32, from.mask() as u32),
    ]
}

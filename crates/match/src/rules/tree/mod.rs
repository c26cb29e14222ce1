//! Decision trees over rules: which of them a packet need be compared with.
//!
//! A rule is a box: for each of ten [`DIMENSIONS`](area::DIMENSIONS) of the key the values that it takes. A node asks whether one
//! dimension of the packet is at least some value, and the rules on each side of it go into two children; a rule on
//! both sides goes into both (HyperSplit: Qi et al., INFOCOM 2009). Where and on what to split is told in [`grow`].
//!
//! What makes such trees large is rules that are narrow in one dimension beside others that are narrow in
//! another: each cuts the other into pieces. Sorted by the addresses and ports that they narrow, each kind in a tree of its
//! own, rules overlap little (EffiCuts: Vamanan, Voskuilen and Vijaykumar, SIGCOMM 2010; CutSplit: Li et al.,
//! INFOCOM 2018); but every tree must be walked, and where few rules are wide, or rules are few, one tree with copies of
//! these is faster. So several [`SORTINGS`] are tried, and the one is taken by which a lookup [costs](Forest::cost) least.

mod area;
mod grow;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use self::area::Areas;
use self::grow::{FREELY, Growth, SPARINGLY};
use super::rule::Rule;

/// Maximum number of trees.
pub(super) const MOST_TREES: usize = 8;

/// All trees of a set of rules.
#[derive(Default)]
pub(super) struct Forest {
    /// Nodes of all trees. The two children of a node are adjacent.
    pub(super) nodes: Vec<Node>,
    /// The trees, sorted by their first rules.
    pub(super) trees: Vec<Tree>,
    /// The rules of the leaves: those of each leaf in ascending order, one leaf after the other.
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
    /// Keys in which `word`, shifted to the left by `shift`, is at least `threshold` go to the second child, and all
    /// others to the first one, at `children`.
    Split { word: u8, shift: u8, threshold: u32, children: usize },
    /// `count` rules, from `first` on.
    Leaf { first: usize, count: usize },
}

/// How rules are distributed over trees, and how these grow.
#[derive(Clone, Copy)]
struct Sorting {
    /// The fields that count, as bits of [`kinds`](Areas::kinds).
    fields: u8,
    /// True if only the first field that a rule limits counts.
    first_alone: bool,
    growth: Growth,
}

const SORTINGS: [Sorting; 7] = [
    Sorting { fields: 0, first_alone: false, growth: SPARINGLY },
    Sorting { fields: 1, first_alone: false, growth: SPARINGLY },
    Sorting { fields: 2, first_alone: false, growth: SPARINGLY },
    Sorting { fields: 0xf, first_alone: true, growth: SPARINGLY },
    Sorting { fields: 0xf, first_alone: false, growth: SPARINGLY },
    Sorting { fields: 0x7f, first_alone: true, growth: SPARINGLY },
    Sorting { fields: 0, first_alone: false, growth: FREELY },
];

/// If there are more rules than this, a [`SAMPLE`] decides how they are distributed.
const MANY: usize = 16_384;

/// Minimum number of rules of a sample.
const SAMPLE: usize = 6000;

impl Forest {
    /// Builds the trees with the cheapest lookup.
    pub(super) fn new(rules: &[Rule]) -> Self {
        let sortings = match rules.len() {
            0..=MANY => SORTINGS.to_vec(),
            // Overlaps grow faster than the number of rules, so the best distribution of a sample need not be the
            // best of all rules.
            count => {
                let sample: Vec<Rule> = rules.iter().step_by(count / SAMPLE).copied().collect();
                let best = Self::each(&sample, &SORTINGS).into_iter().take(2);
                best.map(|(_, sorting, _)| sorting).collect()
            }
        };
        let best = Self::each(rules, &sortings).into_iter().next();
        best.map_or_else(Self::default, |(_, _, forest)| forest)
    }

    /// Builds one tree of all rules.
    pub(super) fn of_one_tree(rules: &[Rule]) -> Self {
        let areas = Areas::new(rules);
        Self::of_groups(vec![(0..rules.len() as u32).collect()], &areas, SPARINGLY)
    }

    /// The cost of a lookup with each distribution, in ascending order, and the trees.
    fn each(rules: &[Rule], sortings: &[Sorting]) -> Vec<(f64, Sorting, Self)> {
        let areas = Areas::new(rules);
        let mut tried: Vec<(Vec<Vec<u32>>, Growth)> = Vec::new();
        let mut forests = Vec::new();
        for &sorting in sortings {
            let way = (groups(&areas, sorting), sorting.growth);
            if rules.len() > sorting.growth.most_rules || tried.contains(&way) {
                continue;
            }
            let forest = Self::of_groups(way.0.clone(), &areas, sorting.growth);
            forests.push((forest.cost(rules.len()), sorting, forest));
            tried.push(way);
        }
        forests.sort_by(|one, other| one.0.total_cmp(&other.0));
        forests
    }

    fn of_groups(groups: Vec<Vec<u32>>, areas: &Areas, growth: Growth) -> Self {
        let mut forest = Self::default();
        for group in groups {
            forest.grow(group, areas, growth);
        }
        forest.trees.sort_by_key(|tree| tree.first_rule);
        forest
    }

    /// The approximate cost of a lookup in nanoseconds, if packets match each rule equally often. It is computed from
    /// measured costs of trees, nodes and entries of leaves, and from the caches that they fill.
    fn cost(&self, rules: usize) -> f64 {
        const TREE: f64 = 2.0;
        const NODE: f64 = 1.2;
        const ENTRY: f64 = 4.0;
        const MEGABYTE: f64 = 4.0;
        let mut copies = vec![0_u32; rules];
        self.rules.iter().for_each(|rule| copies[*rule as usize] += 1);
        let bytes = 8 * self.nodes.len() + 36 * self.rules.len();
        let mut cost = MEGABYTE * bytes as f64 / 1e6;
        for tree in &self.trees {
            // For packets whose rule is in this tree, and for others, which are compared with whole leaves.
            let (mut own, mut own_cost, mut other_cost) = (0.0, 0.0, 0.0);
            let mut open = vec![(tree.root, 0)];
            while let Some((at, depth)) = open.pop() {
                match self.nodes[at] {
                    Node::Split { children, .. } => {
                        open.extend([(children, depth + 1), (children + 1, depth + 1)]);
                    }
                    Node::Leaf { first, count } => {
                        let walk = NODE * f64::from(depth);
                        for (compared, rule) in (1..).zip(&self.rules[first..first + count]) {
                            let weight = 1.0 / f64::from(copies[*rule as usize]);
                            own += weight;
                            own_cost += weight * (walk + ENTRY * f64::from(compared));
                            other_cost += weight * (walk + ENTRY * count as f64);
                        }
                    }
                }
            }
            // Packets that match a rule before all rules of the tree skip the tree.
            let all = rules as f64 - f64::from(tree.first_rule);
            let others = (all - own).max(0.0) / own.max(1.0);
            cost += (all * TREE + own_cost + others * other_cost) / rules as f64;
        }
        cost
    }
}

/// Sorts rules into groups, one per tree.
fn groups(areas: &Areas, sorting: Sorting) -> Vec<Vec<u32>> {
    /// Smaller groups are not made.
    const FEW: usize = 8;
    let mut groups: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
    for (rule, kind) in (0..).zip(areas.kinds()) {
        let kind = kind & sorting.fields;
        let kind = if sorting.first_alone { kind & kind.wrapping_neg() } else { kind };
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

//! Rules over seven fields of a packet, and the classifier that finds the first one that holds.
//!
//! [`Rule`] says what a rule asks, [`RuleSet::parse`] how it is written, [`Key::of_frame`] how a packet is read.
//! A [`Classifier`] searches many rules: it is made once and does not change. [`LiveRules`] are a classifier and what
//! has changed since; a [`FlowCache`] in front of it has the rules of flows that came not long ago.
//!
//! # How it is searched
//! Rules are the leaves of a few binary decision trees ([`image`] says what they are like in memory). Up to 256
//! packets are classified together, tree by tree, 16 side by side, so that the processor has 16 loads on their way at any
//! time. A tree all of whose rules stand behind the rule that a packet has already is not walked. There is nothing in
//! it that depends on instruction sets; callers may still compile it for wider ones, as it is inlined.
//!
//! # Memory and time to build
//! A rule is in at most 4 leaves of its tree on average; each copy takes 36 bytes, and a node 8, of which there are
//! fewer than two a copy. So the trees of 10,000 rules take at most 2.1 MB, 32 bytes a rule more if any asks for Ethernet
//! addresses; what is kept for changes takes some 90 bytes a rule besides. Five ways to sort rules into trees are tried,
//! each in about n log² n steps. A split takes at least one rule in a hundred off each side, so that no rules make a tree
//! deeper than 100 ln n. Where rules cannot be told apart by ranges, because they are the same, or masks with gaps
//! are all that differs, leaves are long and are searched one rule after the other.
//!
//! # Figures
//! A core of an AMD EPYC (Zen 5, second cache 1 MB), one of two that eight busy programs shared (load 8), so that they are
//! too high if anything; rule sets of `millrace_testkit` by ClassBench's statistics, 65,536 different packets of which
//! each satisfies a rule drawn by lot, 5% none; the best of 15 passes of
//! `cargo run --release -p millrace-match --example classify`. *Sorted*: the more special rules stand in front, as in real
//! sets; *mixed*: in no order.
//!
//! | rules | kind | sorted, ns | mixed, ns | build, ms | bytes | trees |
//! |---|---|---|---|---|---|---|
//! | 1000 | acl1 | 26 | 27 | 5 | 56,320 | 1 |
//! | 1000 | fw1 | 53 | 74 | 10 | 48,552 | 3 |
//! | 1000 | ipc1 | 66 | 57 | 7 | 64,396 | 2 |
//! | 10,000 | acl1 | 33 | 34 | 71 | 819,188 | 1 |
//! | 10,000 | fw1 | 65 | 91 | 61 | 493,576 | 3 |
//! | 10,000 | ipc1 | 67 | 93 | 67 | 696,640 | 3 |
//! | 100,000 | acl1 | 74 | 87 | 1425 | 5,524,912 | 2 |
//! | 100,000 | fw1 | 260 | 413 | 1831 | 5,434,184 | 3 |
//! | 100,000 | ipc1 | 95 | 225 | 1852 | 7,384,840 | 3 |
//!
//! At load 4 to 10, 10,000 rules: a change of one of them with its list of actions, as SDNClassifier makes it, took 18 to
//! 22 µs, the median of 63, and 47 to 56 µs at most (of 100,000 rules 138 µs); series in which the thread was interrupted had one
//! of 4 to 25 ms. A lookup among acl1's took 10 to 17 ns more after 63 changes than before. A hit took 9 ns (acl1) to 19 ns (ipc1) in a cache of
//! 4096 flows, and 40 to 60 ns in one of 32 MB, with one in 20 a miss. A miss took 7 to 13 ns more than no cache.
//!
//! What was tried beside, 10,000 rules, mixed, ns for acl1, fw1 and ipc1: rules by all kinds of addresses that they
//! narrow, a tree each, as CutSplit has it: 73, 114, 119; by the first one: 63, 110, 111; one tree for all: 40, 450,
//! 101. The choice among them by what they cost takes the best for each. Leaves of 8 rules instead of 2 cost 2 to 10 ns
//! more.

mod cache;
mod classifier;
pub mod image;
mod key;
mod live;
mod parse;
mod rule;
pub mod table;
#[cfg(test)]
mod tests;
mod tree;

pub use cache::FlowCache;
pub use classifier::{Classifier, NONE};
pub use image::Image;
pub use key::Key;
pub use live::{LiveRules, NoSuchRule};
pub use parse::RuleError;
pub use rule::{Action, Masked, Ports, Rule, RuleSet};
pub use table::DROP;

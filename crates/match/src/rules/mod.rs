//! Rules over seven fields of a packet, and the classifier that finds the first one that holds.
//!
//! [`Rule`] says what a rule asks, [`RuleSet::parse`] how it is written, [`Key::of_frame`] how a packet is read.
//! A [`Classifier`] searches many rules: it is made once and does not change. [`LiveRules`] are a classifier and what
//! has changed since; a [`FlowCache`] in front of it has the rules of flows that came not long ago.
//!
//! # How it is searched
//! Rules are the leaves of a few binary decision trees ([`image`] says what they are like in memory, the module `tree` how
//! they are made). Up to 256 packets are classified together, tree by tree, 16 side by side, so that the processor has 16
//! loads on their way at any time. A tree all of whose rules stand behind the rule that a packet has already is not
//! walked. Then packets are compared with the rules of their leaves in turns, a rule each, and those that are done leave
//! the list: nothing branches on which rule holds, which cannot be foretold. There is nothing in it that depends on
//! instruction sets; callers may still compile it for wider ones, as it is inlined.
//!
//! # Memory and time to build
//! A rule is in at most 4 leaves of its tree on average, or, in sets of up to 3,000 rules, in so many that there are 12,000
//! copies; each copy takes 36 bytes, and a node 8, of which there are about two a copy. So the trees of 10,000 rules
//! take at most 2.1 MB, those of few at most 0.65 MB, and 32 bytes a rule more if any asks for Ethernet addresses; what is
//! kept for changes takes some 90 bytes a rule besides. Seven ways to sort rules into trees are tried, each in about
//! n log² n steps; of more than 16,384 rules, those two that are best for a sample of 6,000 or more. A split takes at least
//! one rule in a hundred off each side, or lies in the upper 32 levels, so that no rules make a tree deeper than
//! 32 + 100 ln n.
//!
//! In masks with gaps, which no range of values tells apart, nodes ask for single bits. Leaves are long only where rules
//! cannot be told apart at all, or not within the copies that are allowed: rules that are the same, for one.
//!
//! # Figures
//! A core of an AMD EPYC (Zen 5, second cache 1 MB), virtual, at a load of 1 to 2 on two cores; `cargo xtask bench match --only
//! classifier`: 16,384 packets of the rule sets of `millrace_testkit` by ClassBench's statistics, of which each satisfies a
//! rule drawn by lot, 5% none; processor time, in turns with DPDK 22.11, medians of 7 rounds, after the results of all have
//! been compared with a naive search.
//!
//! | rules | kind | ns | rte_acl | with AVX-512 | build, ms | bytes | trees |
//! |---|---|---|---|---|---|---|---|
//! | 100 | acl1 | 11 | 19 | 17 | 0.3 | 6,000 | 1 |
//! | 100 | fw1 | 14 | 19 | 16 | 0.5 | 8,000 | 1 |
//! | 100 | ipc1 | 14 | 16 | 14 | 0.5 | 10,000 | 1 |
//! | 1000 | acl1 | 15 | 22 | 18 | 6 | 60,000 | 1 |
//! | 1000 | fw1 | 28 | 32 | 25 | 8 | 50,000 | 3 |
//! | 1000 | ipc1 | 19 | 18 | 14 | 11 | 420,000 | 1 |
//! | 10,000 | acl1 | 20 | 38 | 26 | 80 | 820,000 | 1 |
//! | 10,000 | fw1 | 34 | 79 | 46 | 66 | 490,000 | 3 |
//! | 10,000 | ipc1 | 35 | 57 | 41 | 76 | 700,000 | 3 |
//!
//! At load 8 to 10 rte_acl took 150, 250 and 220 ns for 10,000 rules, and we 25, 39 and 45: its tables are 17 to 49 MB and
//! suffer from others in the last cache.
//! 100,000 rules: 0.6 to 0.75 s of processor time to build, 5.4 to 7.4 MB, 56 to 210 ns.
//!
//! Rules that differ in three masks with gaps alone: 1000 of them 18 ns, 10,000 of them 130 ns (leaves of 14 on average);
//! 460 and 4400 ns before, one rule after the other. A change of one rule in 10,000 with its list of actions, as SDNClassifier
//! makes it: 19 µs, the median of 63, and 38 to 210 µs at most.
//!
//! The version before, at load 4 to 10: a lookup among acl1's 10,000 took 10 to 17 ns more after 63 changes than before. A hit
//! took 9 ns (acl1) to 19 ns (ipc1) in a cache of 4096 flows, and 40 to 60 ns in one of 32 MB, with one in 20 a miss. A miss
//! took 7 to 13 ns more than no cache. (`cargo run --profile dist -p millrace-match --example classify`)
//!
//! What was tried beside: to ask only after two steps whether all 16 packets have arrived (slower by a fifth, for most
//! walks get longer by more than the question costs), and one tree for fw1 (30 to 35 ns for 1,000 rules, but 0.6 to 2.4 MB).

mod cache;
mod classifier;
mod cursor;
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
pub use cursor::RuleError;
pub use image::Image;
pub use key::Key;
pub use live::{LiveRules, NoSuchRule};
pub use rule::{Action, Masked, Ports, Rule, RuleSet};
pub use table::DROP;

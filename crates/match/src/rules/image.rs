//! The image: decision trees and rules as one array of words.
//!
//! All numbers are in words of 32 bits and count from the start of the image, which may lie anywhere that is
//! aligned to 32 bytes.
//!
//! | word | |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 1 | [`VERSION`] of the layout |
//! | 2 | words of the image |
//! | 3 | rules |
//! | 4 | trees, at most 8 |
//! | 5, 6 | where the nodes begin; how many there are |
//! | 7, 8 | where the entries begin, a multiple of 8; how many there are |
//! | 9 | where the rule numbers of the entries begin |
//! | 10 | where the rules' Ethernet addresses begin, a multiple of 8; 0 when no rule asks for one |
//! | 11-15 | 0 |
//! | 16-31 | for each tree its root's number and the number of its first rule; by the latter in ascending order |
//!
//! A **node** is two words, *step* and *value*. Step: the number of the first child in the bits from 8 on, the word of
//! the [`Key`] in bits 7-5, a shift in bits 4-0. The next node is the first child, or the one
//! behind it if `key[word] << shift >= value`, unsigned. A leaf is a node that leads to itself: it asks for word 7
//! of the key, which is 0, and its value is the number of its first entry, which is not 0.
//!
//! An **entry** is a rule in a leaf, eight words:
//!
//! | word | |
//! |---|---|
//! | 0, 1 | value and mask of the IPv4 source |
//! | 2, 3 | value and mask of the IPv4 destination |
//! | 4, 5 | source port, destination port: the first one in bits 31-16, how many more in bits 15-0 |
//! | 6, 7 | value and mask of the key's word 3: EtherType, protocol, and which fields there must be |
//!
//! It holds if `(key ^ value) & mask` is 0 for words 4, 5 and 3 of the key, and both ports less the first one, modulo
//! 2^32, are at most how many more there are. With [`ETHER`] in word 6 the rule has Ethernet addresses besides.
//!
//! The **rule number** of an entry has [`LAST`] set on the last entry of a leaf. Within a leaf numbers ascend, so
//! that the first entry that holds decides, and one that is not less than a rule found before ends the search.
//!
//! The **Ethernet addresses** of a rule are eight words: value and mask of words 0, 1 and 2 of the key, and two zeros.

use super::key::Key;
use super::rule::Rule;
use super::tree::{Forest, MOST_TREES, Node};

/// The first word: "MRCL".
pub const MAGIC: u32 = 0x4c43_524d;

/// The version of the layout.
pub const VERSION: u32 = 1;

/// The bit of a rule number in a leaf's last entry.
pub const LAST: u32 = 1 << 31;

/// The bit of an entry's word 6 that says that the rule has Ethernet addresses. No key has it, and no mask.
pub const ETHER: u32 = 0x80;

/// A bit that no key has: an entry that requires it never matches.
const NEVER: u32 = 0x40;

/// The number of words before the nodes.
const HEADER: usize = 16 + 2 * MOST_TREES;

/// An entry, or a rule's Ethernet addresses.
pub(super) type Row = [u32; 8];

/// The image of a set of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    words: Vec<u32>,
}

/// The parts of an image.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) trees: &'a [[u32; 2]],
    pub(super) nodes: &'a [[u32; 2]],
    pub(super) entries: &'a [Row],
    pub(super) numbers: &'a [u32],
    pub(super) ether: &'a [Row],
}

impl Image {
    /// Builds the trees of rules.
    pub(super) fn new(rules: &[Rule]) -> Self {
        Self::of_forest(rules, &Forest::new(rules))
    }

    /// Builds one tree of rules, which takes less time.
    pub(super) fn of_few(rules: &[Rule]) -> Self {
        Self::of_forest(rules, &Forest::of_one_tree(rules))
    }

    fn of_forest(rules: &[Rule], forest: &Forest) -> Self {
        let mut nodes: Vec<[u32; 2]> = Vec::with_capacity(forest.nodes.len());
        // The first entry is never used, because a leaf's value is not 0. Empty leaves use the second one.
        let never = [0, 0, 0, 0, 0, 0, NEVER, NEVER];
        let mut entries = vec![never; 2];
        let mut numbers = vec![LAST; 2];
        for (at, node) in forest.nodes.iter().enumerate() {
            nodes.push(match *node {
                Node::Split { word, shift, threshold, children } => {
                    [step(children, word, shift), threshold]
                }
                Node::Leaf { count: 0, .. } => [step(at, 7, 0), 1],
                Node::Leaf { first, count } => {
                    let start = entries.len();
                    let of_leaf = &forest.rules[first..first + count];
                    entries.extend(of_leaf.iter().map(|rule| entry(&rules[*rule as usize])));
                    numbers.extend(of_leaf);
                    if let Some(last) = numbers.last_mut() {
                        *last |= LAST;
                    }
                    [step(at, 7, 0), start as u32]
                }
            });
        }
        let mut words = vec![0; HEADER];
        let mut put = |rows: &[u32]| {
            let at = words.len().next_multiple_of(8);
            words.resize(at, 0);
            words.extend_from_slice(rows);
            at as u32
        };
        let nodes_at = put(nodes.as_flattened());
        let entries_at = put(entries.as_flattened());
        let numbers_at = put(&numbers);
        let ether: Vec<Row> = match rules.iter().any(asks_for_addresses) {
            true => rules.iter().map(ether).collect(),
            false => Vec::new(),
        };
        let ether_at = if ether.is_empty() { 0 } else { put(ether.as_flattened()) };
        let header = [
            MAGIC,
            VERSION,
            words.len() as u32,
            rules.len() as u32,
            forest.trees.len() as u32,
            nodes_at,
            nodes.len() as u32,
            entries_at,
            entries.len() as u32,
            numbers_at,
            ether_at,
        ];
        words[..header.len()].copy_from_slice(&header);
        let (trees, _) = words[16..HEADER].as_chunks_mut::<2>();
        for (place, tree) in trees.iter_mut().zip(&forest.trees) {
            *place = [tree.root as u32, tree.first_rule];
        }
        Self { words }
    }

    /// The words; the module's documentation describes them.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The number of rules.
    pub fn rules(&self) -> usize {
        self.word(3) as usize
    }

    /// The parts.
    #[inline]
    pub(super) fn parts(&self) -> Parts<'_> {
        let rules = self.rules();
        let rows = |at: u32, count: usize| self.part(at, count * 8).as_chunks::<8>().0;
        let (entries, ether) = (self.word(8) as usize, self.word(10));
        Parts {
            trees: self.part(16, 2 * self.word(4) as usize).as_chunks().0,
            nodes: self.part(self.word(5), 2 * self.word(6) as usize).as_chunks().0,
            entries: rows(self.word(7), entries),
            numbers: self.part(self.word(9), entries),
            ether: if ether == 0 { &[] } else { rows(ether, rules) },
        }
    }

    fn word(&self, at: usize) -> u32 {
        self.words.get(at).copied().unwrap_or(0)
    }

    fn part(&self, at: u32, len: usize) -> &[u32] {
        self.words.get(at as usize..).and_then(|from| from.get(..len)).unwrap_or_default()
    }
}

fn step(child: usize, word: u8, shift: u8) -> u32 {
    (child as u32) << 8 | u32::from(word) << 5 | u32::from(shift)
}

fn asks_for_addresses(rule: &Rule) -> bool {
    !rule.ether_source.is_any() || !rule.ether_destination.is_any()
}

fn entry(rule: &Rule) -> Row {
    let ports = |first: u16, last: u16| u32::from(first) << 16 | u32::from(last - first);
    let (ether_type, protocol) = (&rule.ether_type, &rule.protocol);
    let fields = rule.needs();
    let rest = |ether_type: u16, protocol: u8| {
        u32::from(ether_type) << 16 | u32::from(protocol) << 8 | fields
    };
    let ether = if asks_for_addresses(rule) { ETHER } else { 0 };
    [
        rule.source.value(),
        rule.source.mask(),
        rule.destination.value(),
        rule.destination.mask(),
        ports(rule.source_ports.first(), rule.source_ports.last()),
        ports(rule.destination_ports.first(), rule.destination_ports.last()),
        rest(ether_type.value(), protocol.value()) | ether,
        rest(ether_type.mask(), protocol.mask()),
    ]
}

fn ether(rule: &Rule) -> Row {
    let (to, from) = (&rule.ether_destination, &rule.ether_source);
    let words = |to: u64, from: u64| {
        [(to >> 16) as u32, (to << 16) as u32 | (from >> 32) as u32 & 0xffff, from as u32]
    };
    let [v0, v1, v2] = words(to.value(), from.value());
    let [m0, m1, m2] = words(to.mask(), from.mask());
    [v0, m0, v1, m1, v2, m2, 0, 0]
}

/// True if a packet matches the rule of an entry, apart from its Ethernet addresses.
#[inline(always)]
pub(super) fn holds(entry: &Row, key: &Key) -> bool {
    let key = key.words();
    let odd = (key[4] ^ entry[0]) & entry[1]
        | (key[5] ^ entry[2]) & entry[3]
        | (key[3] ^ entry[6]) & entry[7];
    let within = |port: u32, ports: u32| port.wrapping_sub(ports >> 16) <= ports & 0xffff;
    (odd == 0) & within(key[6] >> 16, entry[4]) & within(key[6] & 0xffff, entry[5])
}

/// True if a packet has the Ethernet addresses of a rule.
#[inline(always)]
pub(super) fn holds_ether(ether: &Row, key: &Key) -> bool {
    let key = key.words();
    (key[0] ^ ether[0]) & ether[1] | (key[1] ^ ether[2]) & ether[3] | (key[2] ^ ether[4]) & ether[5]
        == 0
}

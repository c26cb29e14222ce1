//! The engine for the CPU.

use std::sync::Arc;

use super::image::{ETHER, Image, LAST, Parts, Row, holds, holds_ether};
use super::key::Key;
use super::rule::{Rule, RuleSet};

/// No rule.
pub const NONE: u32 = u32::MAX;

/// The number of packets that walk down a tree side by side.
const LANES: usize = 16;

/// The number of keys that are processed at once.
pub(super) const BLOCK: usize = 256;

/// A set of rules, prepared for searching.
#[derive(Clone, Debug)]
pub struct Classifier {
    image: Arc<Image>,
}

impl Classifier {
    /// Builds the trees of rules.
    pub fn new(rules: &RuleSet) -> Self {
        Self { image: Arc::new(Image::new(&rules.rules)) }
    }

    /// Builds one tree, quickly, for few rules.
    pub(super) fn of_few(rules: &[Rule]) -> Self {
        Self { image: Arc::new(Image::of_few(rules)) }
    }

    /// The trees.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.image.words())
    }

    /// For each key, finds the number of the first rule that matches it, or [`NONE`].
    #[inline(always)]
    pub fn classify(&self, keys: &[Key], found: &mut [u32]) {
        self.classify_but(&[], keys, found);
    }

    /// As [`classify`](Self::classify), without the rules whose bit in `removed` is set.
    #[inline(always)]
    pub(super) fn classify_but(&self, removed: &[u32], keys: &[Key], found: &mut [u32]) {
        let parts = self.image.parts();
        for (keys, found) in keys.chunks(BLOCK).zip(found.chunks_mut(BLOCK)) {
            Search { parts: &parts, removed, keys }.run(found);
        }
    }
}

/// The word that leaves ask for, as it is encoded in nodes.
const LEAF_STEP: u32 = 7 << 5;

/// A search for up to [`BLOCK`] packets.
struct Search<'a> {
    parts: &'a Parts<'a>,
    removed: &'a [u32],
    keys: &'a [Key],
}

/// Packets that are in a leaf, and the entry of the leaf that each is compared with next.
struct Waiting {
    packets: [u8; BLOCK],
    entries: [u32; BLOCK],
}

impl Search<'_> {
    /// Searches tree by tree. A packet skips a tree if the packet has a rule that comes before all rules of the tree.
    #[inline(always)]
    fn run(&self, found: &mut [u32]) {
        found.fill(NONE);
        let mut waiting = Waiting { packets: [0; BLOCK], entries: [0; BLOCK] };
        for &[root, first_rule] in self.parts.trees {
            let mut count = 0;
            for (at, best) in found.iter().enumerate().take(self.keys.len()) {
                waiting.packets[count % BLOCK] = at as u8;
                count += usize::from(first_rule < *best);
            }
            let packets = waiting.packets[..count].chunks(LANES);
            for (packets, entries) in packets.zip(waiting.entries.chunks_mut(LANES)) {
                self.walk(root, packets, entries);
            }
            self.compare(&mut waiting, count, found);
        }
    }

    /// Walks down a tree with several packets at a time: while the node of one packet is loaded, the others take
    /// their step. Stores the first entries of their leaves.
    #[inline(always)]
    fn walk(&self, root: u32, packets: &[u8], entries: &mut [u32]) {
        let nodes = self.parts.nodes;
        let mut keys = [Key::from_words([0; Key::WORDS]); LANES];
        for (lane, &packet) in keys.iter_mut().zip(packets) {
            if let Some(key) = self.keys.get(usize::from(packet)) {
                *lane = *key;
            }
        }
        let mut at = [root; LANES];
        loop {
            // The bitwise AND of the words that nodes asked for: 7 if all packets are in leaves.
            let mut asked = LEAF_STEP;
            for (at, keys) in at.as_chunks_mut::<4>().0.iter_mut().zip(keys.as_chunks::<4>().0) {
                for (at, key) in at.iter_mut().zip(keys) {
                    let Some(&[step, value]) = nodes.get(*at as usize) else { return };
                    let field = key.words()[(step >> 5 & 7) as usize] << (step & 31);
                    asked &= step;
                    *at = (step >> 8) + u32::from(field >= value);
                }
            }
            if asked == LEAF_STEP {
                break;
            }
        }
        for (entry, at) in entries.iter_mut().zip(at) {
            *entry = nodes.get(at as usize).map_or(0, |node| node[1]);
        }
    }

    /// Lowers `found` to the first matching rules of the packets' leaves.
    ///
    /// Which rule of a leaf matches cannot be predicted, so there is no branch on it. Packets take turns, one entry
    /// each, and those that are not finished stay in the list.
    #[inline(always)]
    fn compare(&self, waiting: &mut Waiting, mut count: usize, found: &mut [u32]) {
        let Parts { entries, numbers, .. } = *self.parts;
        let asks_removed = if self.removed.is_empty() { 0 } else { ETHER };
        while count > 0 {
            let mut left = 0;
            for turn in 0..count.min(BLOCK) {
                let packet = waiting.packets[turn];
                let at = waiting.entries[turn];
                let (Some(entry), Some(&number), Some(key), Some(best)) = (
                    entries.get(at as usize),
                    numbers.get(at as usize),
                    self.keys.get(usize::from(packet)),
                    found.get_mut(usize::from(packet)),
                ) else {
                    return;
                };
                let rule = number & !LAST;
                let mut holds = holds(entry, key);
                if (entry[6] | asks_removed) & ETHER != 0 {
                    holds &= self.holds_besides(entry, rule, key);
                }
                let is_in_front = rule < *best;
                *best = if holds & is_in_front { rule } else { *best };
                waiting.packets[left % BLOCK] = packet;
                waiting.entries[left % BLOCK] = at + 1;
                left += usize::from(!holds & is_in_front & (number & LAST == 0));
            }
            count = left;
        }
    }

    /// Checks what an entry does not contain: the rule's Ethernet addresses, and that the rule still exists.
    #[inline(never)]
    fn holds_besides(&self, entry: &Row, rule: u32, key: &Key) -> bool {
        (entry[6] & ETHER == 0 || self.holds_ether(rule, key)) & !self.is_removed(rule)
    }

    #[inline(always)]
    fn holds_ether(&self, rule: u32, key: &Key) -> bool {
        self.parts.ether.get(rule as usize).is_some_and(|ether| holds_ether(ether, key))
    }

    #[inline(always)]
    fn is_removed(&self, rule: u32) -> bool {
        self.removed.get(rule as usize / 32).is_some_and(|word| word >> (rule % 32) & 1 == 1)
    }
}

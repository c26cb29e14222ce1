//! The engine of the CPU.

use std::sync::Arc;

use super::image::{ETHER, Image, LAST, Parts, Row, holds, holds_ether};
use super::key::Key;
use super::rule::{Rule, RuleSet};

/// No rule.
pub const NONE: u32 = u32::MAX;

/// Packets that walk down a tree side by side.
const LANES: usize = 16;

/// Keys that are treated at once.
pub(super) const BLOCK: usize = 256;

/// A set of rules, ready to be searched.
#[derive(Clone, Debug)]
pub struct Classifier {
    image: Arc<Image>,
}

impl Classifier {
    /// Makes the trees of rules.
    pub fn new(rules: &RuleSet) -> Self {
        Self { image: Arc::new(Image::new(&rules.rules)) }
    }

    /// Makes one tree, at once, of rules that are few.
    pub(super) fn of_few(rules: &[Rule]) -> Self {
        Self { image: Arc::new(Image::of_few(rules)) }
    }

    /// The trees.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Bytes that the classifier takes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.image.words())
    }

    /// For each key the number of the first rule that it satisfies, or [`NONE`].
    #[inline(always)]
    pub fn classify(&self, keys: &[Key], found: &mut [u32]) {
        self.classify_but(&[], keys, found);
    }

    /// [`classify`](Self::classify) without the rules whose bit in `removed` is set.
    #[inline(always)]
    pub(super) fn classify_but(&self, removed: &[u32], keys: &[Key], found: &mut [u32]) {
        let parts = self.image.parts();
        for (keys, found) in keys.chunks(BLOCK).zip(found.chunks_mut(BLOCK)) {
            Search { parts: &parts, removed, keys }.run(found);
        }
    }
}

/// The word that leaves ask for, as nodes have it.
const LEAF_STEP: u32 = 7 << 5;

/// A search for up to [`BLOCK`] packets.
struct Search<'a> {
    parts: &'a Parts<'a>,
    removed: &'a [u32],
    keys: &'a [Key],
}

/// Packets that are in a leaf, and the entry of it that each is compared with next.
struct Waiting {
    packets: [u8; BLOCK],
    entries: [u32; BLOCK],
}

impl Search<'_> {
    /// Tree by tree; packets that have a rule in front of all those of a tree need not see it.
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

    /// Walks down a tree with several packets at once: while one's node is on its way from memory, the others take
    /// their step. Gives the first entries of their leaves.
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
            // All words that were asked for: 7 if all are in leaves.
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

    /// Lowers `found` to the first rules of their leaves that packets satisfy.
    ///
    /// Which rule of a leaf holds cannot be foretold; so there is no branch on it. Packets take turns, one entry each, and
    /// those that are not done stay in the list.
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

    /// What is not in an entry: the rule's Ethernet addresses, and that it is still there.
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

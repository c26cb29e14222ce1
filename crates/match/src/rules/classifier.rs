//! The engine of the CPU.

use std::sync::Arc;

use super::image::{ETHER, Image, LAST, Parts, holds, holds_ether};
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

/// A search for up to [`BLOCK`] packets.
struct Search<'a> {
    parts: &'a Parts<'a>,
    removed: &'a [u32],
    keys: &'a [Key],
}

impl Search<'_> {
    /// Tree by tree; packets that have a rule in front of all those of a tree need not see it.
    #[inline(always)]
    fn run(&self, found: &mut [u32]) {
        found.fill(NONE);
        let mut lanes = [0_u8; BLOCK];
        for &[root, first_rule] in self.parts.trees {
            let mut count = 0;
            for (at, best) in found.iter().enumerate().take(self.keys.len()) {
                lanes[count % BLOCK] = at as u8;
                count += usize::from(first_rule < *best);
            }
            for lanes in lanes[..count].chunks(LANES) {
                self.walk(root, lanes, found);
            }
        }
    }

    /// Walks down a tree with several packets at once: while one's node is on its way from memory, the others take
    /// their step.
    #[inline(always)]
    fn walk(&self, root: u32, lanes: &[u8], found: &mut [u32]) {
        const LEADS_NOWHERE: [u32; 2] = [7 << 5, 1];
        const NO_KEY: Key = Key::from_words([0; Key::WORDS]);
        let mut keys = [&NO_KEY; LANES];
        for (key, &lane) in keys.iter_mut().zip(lanes) {
            *key = self.keys.get(usize::from(lane)).unwrap_or(&NO_KEY);
        }
        let mut at = [root; LANES];
        let mut first = [0; LANES];
        loop {
            let mut moved = 0;
            for lane in 0..LANES {
                let node = self.parts.nodes.get(at[lane] as usize).unwrap_or(&LEADS_NOWHERE);
                let [step, value] = *node;
                let field = keys[lane].words()[(step >> 5 & 7) as usize] << (step & 31);
                let next = (step >> 8) + u32::from(field >= value);
                moved |= next ^ at[lane];
                at[lane] = next;
                first[lane] = value;
            }
            if moved == 0 {
                break;
            }
        }
        for (lane, &packet) in lanes.iter().enumerate() {
            let best = &mut found[usize::from(packet)];
            *best = self.first_in_leaf(first[lane % LANES], keys[lane % LANES], *best);
        }
    }

    /// The first rule of a leaf that a packet satisfies, or `best` if that is in front of it.
    #[inline(always)]
    fn first_in_leaf(&self, first: u32, key: &Key, best: u32) -> u32 {
        let mut at = first as usize;
        while let (Some(entry), Some(&number)) =
            (self.parts.entries.get(at), self.parts.numbers.get(at))
        {
            let rule = number & !LAST;
            if rule >= best {
                break;
            }
            if holds(entry, key)
                && (entry[6] & ETHER == 0 || self.holds_ether(rule, key))
                && !self.is_removed(rule)
            {
                return rule;
            }
            if number & LAST != 0 {
                break;
            }
            at += 1;
        }
        best
    }

    fn holds_ether(&self, rule: u32, key: &Key) -> bool {
        self.parts.ether.get(rule as usize).is_some_and(|ether| holds_ether(ether, key))
    }

    #[inline(always)]
    fn is_removed(&self, rule: u32) -> bool {
        self.removed.get(rule as usize / 32).is_some_and(|word| word >> (rule % 32) & 1 == 1)
    }
}

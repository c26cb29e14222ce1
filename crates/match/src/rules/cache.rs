//! The rules of packets that came not long ago.

use super::classifier::{BLOCK, NONE};
use super::key::Key;
use super::live::LiveRules;

/// A thread's table from keys to the rules that were found for them.
///
/// Each key has one place, which the last one that was found there keeps. Bits that no rule looks at do not count,
/// so that with rules for destinations alone all packets to one of them share a place. A hit costs 10 to 20 ns, a
/// miss 5 ns on top of the search: with thousands of rules the cache pays as soon as a fifth of the packets are of
/// flows that it has, with few it hardly ever does.
#[derive(Clone, Debug)]
pub struct FlowCache {
    /// Words 0 to 6 of a key and the rule; none where word 3 is [`EMPTY`].
    places: Box<[[u32; Key::WORDS]]>,
    epoch: u64,
    hits: u64,
    misses: u64,
}

/// Word 3 of a place without a key; no key has this flag.
const EMPTY: u32 = 0x40;

impl FlowCache {
    /// A cache of so many places, rounded up to a power of two; without places it does nothing.
    pub fn new(places: usize) -> Self {
        let places = if places == 0 { 0 } else { places.next_power_of_two() };
        let mut empty = [0; Key::WORDS];
        empty[3] = EMPTY;
        Self { places: vec![empty; places].into(), epoch: 0, hits: 0, misses: 0 }
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The hits and the misses since this was asked last.
    pub fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.hits), std::mem::take(&mut self.misses))
    }

    /// [`LiveRules::classify`]. Another `epoch` than the last time says that the rules are others.
    #[inline(always)]
    pub fn classify(&mut self, rules: &LiveRules, epoch: u64, keys: &[Key], found: &mut [u32]) {
        if self.is_empty() {
            return rules.classify(keys, found);
        }
        if self.epoch != epoch {
            self.epoch = epoch;
            self.places.iter_mut().for_each(|place| place[3] = EMPTY);
        }
        for (keys, found) in keys.chunks(BLOCK).zip(found.chunks_mut(BLOCK)) {
            self.classify_block(rules, keys, found);
        }
    }

    #[inline(always)]
    fn classify_block(&mut self, rules: &LiveRules, keys: &[Key], found: &mut [u32]) {
        let mask = rules.mask();
        let last = self.places.len().wrapping_sub(1);
        let mut missed = [Key::default(); BLOCK];
        let mut lanes = [(0_u8, 0_u32); BLOCK];
        let mut count = 0;
        for (lane, (key, found)) in keys.iter().zip(&mut *found).enumerate() {
            let key = key.masked(mask);
            let at = hash(&key) as usize & last;
            let Some(place) = self.places.get(at) else { continue };
            let words = key.words();
            let odd = (0..7).fold(0, |odd, word| odd | (place[word] ^ words[word]));
            *found = place[7];
            missed[count % BLOCK] = key;
            lanes[count % BLOCK] = (lane as u8, at as u32);
            count += usize::from(odd != 0);
        }
        self.hits += (keys.len() - count) as u64;
        self.misses += count as u64;
        let mut rules_of = [NONE; BLOCK];
        rules.classify(&missed[..count], &mut rules_of[..count]);
        for ((key, rule), (lane, at)) in missed[..count].iter().zip(rules_of).zip(lanes) {
            found[usize::from(lane)] = rule;
            if let Some(place) = self.places.get_mut(at as usize) {
                *place = *key.words();
                place[7] = rule;
            }
        }
    }
}

/// Two multiplications, each folded (as in wyhash).
#[inline(always)]
fn hash(key: &Key) -> u64 {
    let words = key.words().map(u64::from);
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let flow = fold(
        (words[4] << 32 | words[5]) ^ 0x9e37_79b9_7f4a_7c15,
        (words[6] << 32 | words[3]) ^ 0xbf58_476d_1ce4_e5b9,
    );
    fold(flow ^ words[2], (words[0] << 32 | words[1]) ^ 0x94d0_49bb_1331_11eb)
}

//! The rules of packets that came not long ago.

use super::classifier::{BLOCK, NONE};
use super::key::Key;
use super::live::LiveRules;

/// A thread's table from keys to the rules that were found for them.
///
/// Each key has one place, which the last one that was found there keeps. Bits that no rule looks at do not count,
/// so that with rules for destinations alone all packets to one of them share a place. A hit costs 10 to 20 ns in a
/// cache of thousands of flows, more where it lies far from the processor, and a miss some 10 ns on top of the search
/// ([figures](super#figures)): with few rules the cache hardly ever pays.
#[derive(Clone, Debug)]
pub struct FlowCache {
    /// Words 0 to 6 of a key and the rule. Bits 7-4 of word 3, which are 0 in a masked key, say in which
    /// generation it was found; in none where they are 0.
    places: Box<[[u32; Key::WORDS]]>,
    epoch: u64,
    /// 1 to [`GENERATIONS`]; another one for each epoch that comes.
    generation: u32,
    hits: u64,
    misses: u64,
}

/// After so many epochs a generation's number is used again. Until then every place has been swept once, a part at
/// each epoch: no packet waits until a large cache is cleared.
const GENERATIONS: u32 = 15;

impl FlowCache {
    /// A cache of so many places, rounded up to a power of two; without places it does nothing.
    pub fn new(places: usize) -> Self {
        let places = if places == 0 { 0 } else { places.next_power_of_two() };
        let places = vec![[0; Key::WORDS]; places].into();
        Self { places, epoch: 0, generation: 1, hits: 0, misses: 0 }
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
            self.forget();
        }
        for (keys, found) in keys.chunks(BLOCK).zip(found.chunks_mut(BLOCK)) {
            self.classify_block(rules, keys, found);
        }
    }

    /// Begins another generation, and sweeps its part of the places.
    #[cold]
    fn forget(&mut self) {
        self.generation = self.generation % GENERATIONS + 1;
        let border = |part: u32| self.places.len() * part as usize / GENERATIONS as usize;
        let part = border(self.generation - 1)..border(self.generation);
        self.places[part].iter_mut().for_each(|place| place[3] = 0);
    }

    #[inline(always)]
    fn classify_block(&mut self, rules: &LiveRules, keys: &[Key], found: &mut [u32]) {
        let mask = rules.mask();
        let generation = self.generation << 4;
        let last = self.places.len().wrapping_sub(1);
        let mut missed = [Key::default(); BLOCK];
        let mut lanes = [(0_u8, 0_u32); BLOCK];
        let mut count = 0;
        for (lane, (key, found)) in keys.iter().zip(&mut *found).enumerate() {
            let key = key.masked(mask);
            let at = hash(&key) as usize & last;
            let Some(place) = self.places.get(at) else { continue };
            let mut words = *key.words();
            words[3] |= generation;
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
                place[3] |= generation;
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

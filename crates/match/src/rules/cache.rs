//! A cache of the rules of recent packets.

use super::classifier::{BLOCK, NONE};
use super::key::Key;
use super::live::LiveRules;

/// A thread's table from keys to the rules that were found for them.
///
/// Each key has one place in the table, which contains the last key that was stored there. Bits that no rule examines
/// are ignored. So if rules concern only destinations, all packets to one destination share a place. A hit takes 10
/// to 20 ns in a cache of thousands of flows, and more if the cache does not fit the processor's caches. A miss takes
/// some 10 ns in addition to the search ([figures](super#figures)). So with few rules the cache is hardly ever
/// faster.
#[derive(Clone, Debug)]
pub struct FlowCache {
    /// Words 0 to 6 of a key, and the rule. Bits 7-4 of word 3, which are 0 in a masked key, contain the generation
    /// in which it was stored; 0 means an empty place.
    places: Box<[[u32; Key::WORDS]]>,
    epoch: u64,
    /// 1 to [`GENERATIONS`]; it changes with each epoch.
    generation: u32,
    hits: u64,
    misses: u64,
}

/// After this number of epochs, the number of a generation is reused. Until then every place has been cleared once, a
/// part of them at each epoch, so no packet waits until a large cache is cleared.
const GENERATIONS: u32 = 15;

impl FlowCache {
    /// A cache of this number of places, rounded up to a power of two. With 0 places it does nothing.
    pub fn new(places: usize) -> Self {
        let places = if places == 0 { 0 } else { places.next_power_of_two() };
        let places = vec![[0; Key::WORDS]; places].into();
        Self { places, epoch: 0, generation: 1, hits: 0, misses: 0 }
    }

    /// The number of places.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there are no places.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The numbers of hits and of misses since the last call.
    pub fn take_counts(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.hits), std::mem::take(&mut self.misses))
    }

    /// As [`LiveRules::classify`]. If `epoch` differs from the last call's, the rules have changed.
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

    /// Begins another generation, and clears its part of the places.
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

/// Two folded multiplications (as in wyhash).
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

//! Random numbers as Click draws them: those of the C library's `random()`, so that the same seed
//! gives the same ports as there.

use crate::Lock;

/// The random numbers that a router's elements and handlers share. Threads have others for what they
/// decide for each packet ([`Context::random`](crate::Context::random)).
#[derive(Debug, Default)]
pub struct Random(Lock<LibcRandom>);

impl Random {
    /// The largest number: `RAND_MAX` of the C library.
    pub const MAX: u32 = 0x7fff_ffff;

    /// Starts anew from a seed.
    pub fn seed(&self, seed: u64) {
        *self.0.lock() = LibcRandom::new(seed as u32);
    }

    /// The next number, up to [`MAX`](Self::MAX).
    pub fn draw(&self) -> u32 {
        self.0.lock().draw()
    }

    /// A number from `low` to `high`, drawn as Click does; `low` if `high` is less.
    pub fn between(&self, low: u32, high: u32) -> u32 {
        self.0.lock().between(low, high)
    }
}

/// The random numbers of the C library's `random()`: an additive feedback generator over 31 words (Knuth, The Art
/// of Computer Programming, volume 2, 3.2.2), seeded by a linear congruential generator.
#[derive(Clone, Debug)]
pub struct LibcRandom {
    words: [u32; 31],
    at: usize,
}

impl Default for LibcRandom {
    fn default() -> Self {
        Self::new(1)
    }
}

impl LibcRandom {
    /// The sequence of a seed.
    pub fn new(seed: u32) -> Self {
        let mut words = [0; 31];
        let mut word = i64::from(seed.max(1).cast_signed());
        for place in &mut words {
            *place = word as u32;
            word = word * 16_807 % 2_147_483_647;
            if word < 0 {
                word += 2_147_483_647;
            }
        }
        let mut random = Self { words, at: 3 };
        (0..310).for_each(|_| {
            random.draw();
        });
        random
    }

    /// The next number.
    pub fn draw(&mut self) -> u32 {
        let behind = (self.at + 28) % 31;
        let other = self.words.get(behind).copied().unwrap_or_default();
        let Some(word) = self.words.get_mut(self.at) else { return 0 };
        *word = word.wrapping_add(other);
        let value = *word >> 1;
        self.at = (self.at + 1) % 31;
        value
    }

    fn between(&mut self, low: u32, high: u32) -> u32 {
        let Some(top) = high.checked_sub(low) else { return low };
        if top > Random::MAX {
            loop {
                let number = (self.draw() << 17) ^ (self.draw() >> 14);
                if number <= top {
                    return low + number;
                }
            }
        }
        if top == 1 {
            // The low bits of such generators are the least random.
            return low + ((self.draw() >> 14) & 1);
        }
        let share = (Random::MAX + 1) / (top + 1);
        loop {
            let number = self.draw();
            if number < share * (top + 1) {
                return low + number / share;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_match_the_c_library() {
        let mut random = LibcRandom::new(1);
        let first = [0; 4].map(|_| random.draw());
        assert_eq!(first, [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915]);
        let mut random = LibcRandom::new(42);
        assert_eq!([0; 2].map(|_| random.draw()), [71_876_166, 708_592_740]);
    }

    #[test]
    fn ranges_are_filled_from_the_high_bits() {
        let random = Random::default();
        random.seed(1);
        // 1804289383, 846930886, 1681692777 divided by the 128th part of 2^31.
        assert_eq!([0; 3].map(|_| random.between(100, 227)), [207, 150, 200]);
        random.seed(1);
        assert_eq!(random.between(5, 6), 5 + (1_804_289_383 >> 14 & 1));
        assert_eq!((random.between(7, 7), random.between(9, 3)), (7, 9));
        let whole = random.between(0, u32::MAX);
        random.seed(1);
        assert_ne!(whole, random.draw());
        for _ in 0..1000 {
            assert!((10..=12).contains(&random.between(10, 12)));
        }
    }
}

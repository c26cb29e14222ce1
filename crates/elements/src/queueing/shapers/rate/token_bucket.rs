//! A token bucket with ticks of one millisecond and Click's arithmetic, because users can see in which millisecond a
//! packet leaves.
//!
//! The level of a full bucket is the largest number of a word. One token is that number divided by the capacity; each
//! tick adds the tokens of the rate for a millisecond. Both are rounded down, so a bucket of one token at a rate of 100
//! per second fills in eleven milliseconds, not in ten.

use millrace_core::Timestamp;

/// Tokens that arrive at a rate, up to a capacity.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    /// The level of a full bucket: the largest 32-bit number, as in Click, or the largest 64-bit one for higher rates.
    full: u64,
    /// The level of one token.
    scale: u64,
    /// What a tick adds to the level.
    per_tick: u64,
    /// The current level.
    level: u64,
    /// When tokens were last added, in milliseconds since the epoch; `None` before the first time, which fills the
    /// bucket unless the rate is 0.
    tick: Option<i64>,
}

const TICKS_PER_SECOND: u64 = 1000;

impl TokenBucket {
    /// A bucket for `rate` tokens per second and at most `capacity` tokens.
    pub(crate) fn new(rate: u64, capacity: u64) -> Self {
        let mut bucket = Self { full: 0, scale: 1, per_tick: 0, level: 0, tick: None };
        bucket.assign(rate, capacity);
        bucket
    }

    /// Changes the rate and the capacity; the bucket stays full in the same proportion.
    pub(crate) fn assign(&mut self, rate: u64, capacity: u64) {
        let before = self.full;
        let rate = if capacity == 0 { 0 } else { rate };
        // The tokens of one tick fit into the bucket.
        let least = rate.div_ceil(TICKS_PER_SECOND).max(1);
        let small = u64::from(u32::MAX);
        self.full = if rate.max(capacity) > small { u64::MAX } else { small };
        let capacity = if capacity == 0 { self.full } else { capacity.max(least) };
        self.scale = self.full / capacity;
        let per_tick = u128::from(rate) * u128::from(self.scale) / u128::from(TICKS_PER_SECOND);
        self.per_tick = match rate {
            0 => 0,
            _ => word(per_tick).clamp(1, self.full),
        };
        if before != 0 && before != self.full {
            let level = u128::from(self.level) * u128::from(self.full) / u128::from(before);
            self.level = word(level);
        }
    }

    /// Changes the rate and the capacity to those of another bucket; this one stays full in the same proportion.
    pub(crate) fn assign_as(&mut self, other: &Self) {
        let before = self.full;
        (self.full, self.scale, self.per_tick) = (other.full, other.scale, other.per_tick);
        if before != self.full {
            let level = u128::from(self.level) * u128::from(self.full) / u128::from(before);
            self.level = word(level);
        }
    }

    /// Changes the rate and the capacity; the tokens that fit stay.
    pub(crate) fn assign_adjust(&mut self, rate: u64, capacity: u64) {
        let (scale, level) = (self.scale, self.level);
        self.assign(rate, capacity);
        let level = u128::from(level) * u128::from(self.scale) / u128::from(scale);
        self.level = word(level).min(self.full);
    }

    /// Adds the tokens that have arrived since the last call.
    pub(crate) fn refill(&mut self, now: Timestamp) {
        let now = now.as_millis();
        let Some(then) = self.tick.replace(now) else {
            if self.per_tick != 0 {
                self.level = self.full;
            }
            return;
        };
        let passed = u128::from(now.saturating_sub(then).max(0).unsigned_abs());
        let level = u128::from(self.level) + passed * u128::from(self.per_tick);
        self.level = word(level).min(self.full);
    }

    /// Sets the number of tokens, limited to the capacity.
    pub(crate) fn set(&mut self, tokens: u64) {
        self.level = self.measure(tokens).unwrap_or(self.full);
    }

    /// Whole tokens in the bucket.
    pub(crate) fn tokens(&self) -> u64 {
        self.level / self.scale
    }

    /// Whether there are `n` tokens.
    pub(crate) fn contains(&self, n: u64) -> bool {
        self.measure(n).is_some_and(|n| n <= self.level)
    }

    /// Removes `n` tokens, or all if there are fewer.
    pub(crate) fn remove(&mut self, n: u64) {
        self.level = self.level.saturating_sub(self.measure(n).unwrap_or(self.full));
    }

    /// Removes `n` tokens if there are that many.
    pub(crate) fn take(&mut self, n: u64) -> bool {
        let enough = self.contains(n);
        if enough {
            self.remove(n);
        }
        enough
    }

    /// How long until there are `n` tokens; `None` means never, because the rate is 0 or the capacity is smaller.
    pub(crate) fn time_until(&self, n: u64) -> Option<Timestamp> {
        let missing = self.measure(n)?.saturating_sub(self.level);
        let ticks = match (missing, self.per_tick) {
            (0, _) => 0,
            (_, 0) => return None,
            (missing, per_tick) => missing.div_ceil(per_tick),
        };
        Some(Timestamp::from_millis(i64::try_from(ticks).ok()?))
    }

    /// The rate in tokens per second, as rounded by the arithmetic.
    pub(crate) fn rate(&self) -> u64 {
        let per_tick = u128::from(self.per_tick);
        let rate =
            (per_tick * u128::from(TICKS_PER_SECOND) + per_tick / 2) / u128::from(self.scale);
        word(rate)
    }

    /// The level of `n` tokens; `None` if the capacity is smaller.
    fn measure(&self, n: u64) -> Option<u64> {
        n.checked_mul(self.scale).filter(|n| *n <= self.full)
    }
}

fn word(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The milliseconds at which `n` tokens are taken, each as soon as it arrives.
    fn times(rate: u64, capacity: u64, n: usize) -> Vec<i64> {
        let mut bucket = TokenBucket::new(rate, capacity);
        let mut now = 0;
        let mut times = Vec::new();
        while times.len() < n {
            bucket.refill(Timestamp::from_millis(now));
            if bucket.take(1) {
                times.push(now);
            } else {
                now += bucket.time_until(1).unwrap().as_millis();
            }
        }
        times
    }

    #[test]
    fn tokens_arrive_in_whole_ticks_and_fractions_are_rounded_down() {
        // With a capacity of one, a token is the whole word: it needs eleven ticks of 429496729.
        assert_eq!(times(100, 1, 4), [0, 11, 22, 33]);
        // With a capacity of two, a token is half the word: ten ticks of 214748364 are 7 short of it.
        assert_eq!(times(100, 2, 5), [0, 0, 11, 21, 31]);
        assert_eq!(times(2, 1, 3), [0, 501, 1002]);
    }

    #[test]
    fn a_bucket_without_rate_or_room_never_fills() {
        let mut bucket = TokenBucket::new(0, 5);
        bucket.set(1);
        bucket.refill(Timestamp::from_secs(5));
        bucket.refill(Timestamp::from_secs(50));
        assert!(bucket.take(1) && !bucket.take(1));
        assert_eq!(bucket.time_until(1), None);
        let mut bucket = TokenBucket::new(10, 20);
        bucket.refill(Timestamp::ZERO);
        assert_eq!(bucket.time_until(21), None);
        assert_eq!((bucket.tokens(), bucket.rate()), (20, 10));
    }

    proptest! {
        /// Compared with exact fractions: never more tokens than have arrived, and at most one in 2^16 fewer.
        #[test]
        fn stays_just_below_the_exact_rate(
            rate in 1u64..60_000, capacity in 1u64..60_000, steps in prop::collection::vec(0i64..2000, 1..50)
        ) {
            let mut bucket = TokenBucket::new(rate, capacity);
            let capacity = capacity.max(rate.div_ceil(1000));
            bucket.refill(Timestamp::ZERO);
            bucket.set(0);
            let (mut now, mut taken) = (0, 0);
            for step in steps {
                now += step;
                bucket.refill(Timestamp::from_millis(now));
                let there = bucket.tokens();
                prop_assert!(there <= capacity);
                prop_assert!(bucket.take(there));
                taken += there;
                prop_assert!(u128::from(taken) * 1000 <= u128::from(rate) * u128::from(now.unsigned_abs()) + 1000);
            }
            prop_assert!(bucket.rate().abs_diff(rate) <= 1 + rate / 1000);
        }
    }
}

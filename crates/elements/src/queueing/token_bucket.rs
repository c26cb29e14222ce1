//! A token bucket in ticks of a millisecond, as Click's shapers and rated sources have it.

use millrace_core::Timestamp;

/// Tokens that come at a rate, up to a capacity. Fractions of tokens are kept exactly.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    /// Tokens a second.
    rate: u64,
    capacity: u64,
    /// Thousandths of tokens: what comes in a millisecond at a rate of 1.
    tokens: u128,
    /// When tokens were last added, in milliseconds since the epoch.
    tick: i64,
}

const SCALE: u128 = 1000;

impl TokenBucket {
    /// A bucket that holds `tokens` at time `now`.
    pub(crate) fn new(rate: u64, capacity: u64, tokens: u64, now: Timestamp) -> Self {
        let capacity = capacity.max(1);
        let tokens = u128::from(tokens.min(capacity)) * SCALE;
        Self { rate, capacity, tokens, tick: now.as_millis() }
    }

    /// Changes rate and capacity; keeps the tokens that fit.
    pub(crate) fn change(&mut self, rate: u64, capacity: u64) {
        self.rate = rate;
        self.capacity = capacity.max(1);
        self.tokens = self.tokens.min(u128::from(self.capacity) * SCALE);
    }

    /// Adds what has come since the last time.
    pub(crate) fn refill(&mut self, now: Timestamp) {
        let tick = now.as_millis();
        let passed = tick.saturating_sub(self.tick).max(0).unsigned_abs();
        self.tick = self.tick.max(tick);
        let come = u128::from(passed) * u128::from(self.rate);
        let full = u128::from(self.capacity) * SCALE;
        self.tokens = self.tokens.saturating_add(come).min(full);
    }

    /// Whole tokens in the bucket.
    pub(crate) fn tokens(&self) -> u64 {
        u64::try_from(self.tokens / SCALE).unwrap_or(u64::MAX)
    }

    /// Takes `n` tokens if they are there.
    pub(crate) fn take(&mut self, n: u64) -> bool {
        let n = u128::from(n) * SCALE;
        let enough = self.tokens >= n;
        if enough {
            self.tokens -= n;
        }
        enough
    }

    /// When `n` tokens will be there; never when none come or the bucket does not hold so many.
    pub(crate) fn time_of(&self, n: u64) -> Option<Timestamp> {
        if self.rate == 0 || n > self.capacity {
            return None;
        }
        let missing = (u128::from(n) * SCALE).saturating_sub(self.tokens);
        let ticks = missing.div_ceil(u128::from(self.rate));
        Some(Timestamp::from_millis(self.tick.checked_add(i64::try_from(ticks).ok()?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_at_the_rate_with_exact_fractions() {
        let at = Timestamp::from_millis;
        let mut bucket = TokenBucket::new(3, 10, 0, at(0));
        assert_eq!(bucket.time_of(1), Some(at(334)));
        bucket.refill(at(334));
        assert!(bucket.take(1));
        assert!(!bucket.take(1));
        assert_eq!(bucket.time_of(1), Some(at(667)));
        for millis in (340..=1000).step_by(7) {
            bucket.refill(at(millis));
        }
        bucket.refill(at(1000));
        assert_eq!(bucket.tokens(), 2);
        bucket.refill(at(1_000_000));
        assert_eq!(bucket.tokens(), 10);
        assert_eq!(bucket.time_of(11), None);
        assert_eq!(TokenBucket::new(0, 1, 0, at(0)).time_of(1), None);
    }
}

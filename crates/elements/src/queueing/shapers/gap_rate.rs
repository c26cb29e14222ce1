//! A rate kept by even gaps: in the part of the second that has passed, as many may pass as the rate
//! says, counted in 4096ths of microseconds, with the arithmetic of Click's.

use millrace_core::Timestamp;

/// Counts what passes in each second.
#[derive(Clone, Debug)]
pub(super) struct GapRate {
    rate: u64,
    /// 4096ths of a microsecond between two.
    gap: u64,
    /// What has passed in this second, less what might have passed in the ones before.
    count: i64,
    /// The second; none after a reset.
    second: Option<i64>,
}

const SHIFT: u32 = 12;

/// The greatest rate.
pub(super) const MOST: u64 = 1_000_000 << SHIFT;

impl GapRate {
    /// A rate of at most [`MOST`] a second.
    pub(super) fn new(rate: u64) -> Self {
        let rate = rate.min(MOST);
        let gap = MOST.checked_div(rate).unwrap_or(MOST + 1);
        Self { rate, gap, count: 0, second: None }
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Forgets what has passed.
    pub(super) fn reset(&mut self) {
        self.second = None;
    }

    /// Whether one may pass at `now`.
    pub(super) fn is_due(&mut self, now: Timestamp) -> bool {
        let part = u64::from(now.usec()) << SHIFT;
        let due = i64::try_from(part / self.gap).unwrap_or(i64::MAX);
        match self.second {
            None => {
                // The first one may pass at once when it is nearer to the gap's begin than to its end.
                self.count = due + i64::from(part % self.gap > self.gap / 2);
                self.second = Some(now.sec());
            }
            Some(second) if now.sec() > second => {
                self.second = Some(now.sec());
                if self.count > 0 {
                    self.count = self.count.saturating_sub_unsigned(self.rate);
                }
            }
            Some(_) => {}
        }
        due >= self.count
    }

    /// When to ask again, after it was not yet due at `now`; never, for a rate of 0.
    pub(super) fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        let count = u64::try_from(self.count).ok().filter(|_| self.rate > 0)?;
        let micros = count.saturating_mul(self.gap).div_ceil(1 << SHIFT).min(1_000_000);
        let second = Timestamp::from_secs(now.sec());
        second.checked_add(Timestamp::from_micros(micros as i64))
    }

    /// Counts `n` that have passed.
    pub(super) fn passed(&mut self, n: u64) {
        self.count = self.count.saturating_add_unsigned(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pass_in_a_second_as_the_rate_says() {
        let mut rate = GapRate::new(250);
        let mut passed = Vec::new();
        for micros in (0..3_000_000).step_by(500) {
            if rate.is_due(Timestamp::from_micros(1_000_000_000_000_000 + micros)) {
                rate.passed(1);
                passed.push(micros);
            }
        }
        assert_eq!(passed.len(), 750);
        assert!(passed.windows(2).all(|pair| pair[1] - pair[0] == 4000));
        assert!(!GapRate::new(0).is_due(Timestamp::from_millis(600)));
        assert_eq!(GapRate::new(0).due_at(Timestamp::from_millis(600)), None);
    }

    #[test]
    fn what_is_not_due_is_due_when_it_says() {
        let mut rate = GapRate::new(7);
        let mut now = Timestamp::from_micros(1_000_000_300_000);
        let mut passed = 0;
        while now.sec() < 1_000_010 {
            match rate.is_due(now) {
                true => {
                    rate.passed(1);
                    passed += 1;
                }
                false => {
                    let due = rate.due_at(now).unwrap();
                    assert!(due > now, "{due} at {now}");
                    now = due;
                }
            }
        }
        assert!((67..=70).contains(&passed), "{passed}");
    }
}

//! A rate kept by even gaps: in the elapsed part of a second, no more than the rate's share can pass. Gaps are counted
//! in 4096ths of a microsecond, with Click's arithmetic.

use millrace_core::Timestamp;

/// Counts what passes in each second.
#[derive(Clone, Debug)]
pub(crate) struct GapRate {
    rate: u64,
    /// The gap between two units, in 4096ths of a microsecond.
    gap: u64,
    /// Units passed in this second, minus the unused share of earlier seconds.
    count: i64,
    /// The current second; `None` after a reset.
    second: Option<i64>,
}

const SHIFT: u32 = 12;

/// The highest rate.
pub(crate) const MOST: u64 = 1_000_000 << SHIFT;

impl GapRate {
    /// A rate per second, limited to [`MOST`].
    pub(crate) fn new(rate: u64) -> Self {
        let rate = rate.min(MOST);
        let gap = MOST.checked_div(rate).unwrap_or(MOST + 1);
        Self { rate, gap, count: 0, second: None }
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Forgets the units passed.
    pub(crate) fn reset(&mut self) {
        self.second = None;
    }

    /// Whether a unit can pass at `now`.
    pub(crate) fn is_due(&mut self, now: Timestamp) -> bool {
        let part = u64::from(now.usec()) << SHIFT;
        let due = i64::try_from(part / self.gap).unwrap_or(i64::MAX);
        match self.second {
            None => {
                // The first one can pass at once if `now` is nearer to the start of the gap than to its end.
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

    /// When to try again if nothing was due at `now`; `None` means never, for a rate of 0.
    pub(crate) fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        let count = u64::try_from(self.count).ok().filter(|_| self.rate > 0)?;
        let micros = count.saturating_mul(self.gap).div_ceil(1 << SHIFT).min(1_000_000);
        let second = Timestamp::from_secs(now.sec());
        second.checked_add(Timestamp::from_micros(micros as i64))
    }

    /// Counts `n` units that have passed.
    pub(crate) fn passed(&mut self, n: u64) {
        self.count = self.count.saturating_add_unsigned(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_rate_passes_each_second() {
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
    fn due_at_is_when_the_next_unit_is_due() {
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

//! The drop decisions of Random Early Detection, with Click's arithmetic.

use millrace_core::{Args, Timestamp};

use crate::measure::rate::ewma::Ewma;

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Params {
    pub(super) min_thresh: u32,
    pub(super) max_thresh: u32,
    /// In 65536ths.
    pub(super) max_p: u32,
    pub(super) gentle: bool,
    pub(super) stability: u32,
}

/// A probability of one.
pub(super) const ONE: u32 = 0x10000;

impl Params {
    /// Records an error if the settings are invalid.
    pub(super) fn check(self, args: &mut Args<'_>) {
        let message = if self.max_thresh > 0xffff {
            "MAX_THRESH must be <= 65535"
        } else if self.min_thresh > self.max_thresh {
            "MIN_THRESH must be <= MAX_THRESH"
        } else if self.max_p > ONE {
            "MAX_P must be between 0 and 1"
        } else if self.stability > 16 {
            "STABILITY must be between 0 and 16"
        } else {
            return;
        };
        args.error((), message);
    }

    /// Above this average every packet is dropped.
    fn kill_thresh(self) -> u64 {
        match self.gentle && self.max_p != ONE {
            true => u64::from(self.max_thresh) * 2,
            false => self.max_thresh.into(),
        }
    }

    /// The drop probability for an average, in 65536ths; a negative value means never.
    fn probability(self, average: Ewma<10>) -> i64 {
        let [min, max, max_p] = [self.min_thresh, self.max_thresh, self.max_p].map(i64::from);
        // A line through two points; slope and offset are rounded down.
        let (slope, offset) = if average.rounded() > self.max_thresh.into() {
            ((i64::from(ONE) - max_p).checked_div(max).unwrap_or(0), i64::from(ONE) - 2 * max_p)
        } else if min >= max {
            (0, 1)
        } else {
            (max_p / (max - min), max_p * min / (max - min))
        };
        let scaled = i64::try_from(average.scaled()).unwrap_or(i64::MAX);
        (slope.saturating_mul(scaled) >> 10) - offset
    }
}

/// The state of a RED element.
#[derive(Clone, Debug)]
pub(super) struct RandomEarly {
    pub(super) params: Params,
    /// The average queue length.
    pub(super) average: Ewma<10>,
    /// Packets since the last random drop; `None` while the average is outside the range of random drops.
    count: Option<u32>,
    /// The random number that decides when the next packet is dropped.
    chance: u32,
    /// The tick in which the queues were last seen empty; `None` if they have had packets since.
    empty: Option<i64>,
    pub(super) drops: u64,
}

/// Milliseconds: while the queues are empty, the average decays as if they were sampled this often.
const TICK: i64 = 20;

impl RandomEarly {
    pub(super) fn new(params: Params) -> Self {
        Self { params, average: Ewma::default(), count: None, chance: 0, empty: None, drops: 0 }
    }

    /// Whether to drop the next packet when there are `size` packets in the queues. `random` returns 16-bit numbers.
    pub(super) fn goes(&mut self, size: u64, now: Timestamp, random: impl FnOnce() -> u32) -> bool {
        let length = self.measure(size, now);
        let goes = if length <= self.params.min_thresh.into() {
            self.count = None;
            false
        } else if length > self.params.kill_thresh() {
            self.count = None;
            true
        } else {
            let count = self.count.map_or(0, |count| count.saturating_add(1));
            let due = u32::try_from(self.params.probability(self.average)).ok();
            let due = due.and_then(|probability| self.chance.checked_div(probability));
            let goes = count > 0 && due.is_some_and(|due| count > due);
            let count = if goes { 0 } else { count };
            self.count = Some(count);
            if count == 0 {
                self.chance = random();
            }
            goes
        };
        self.drops += u64::from(goes);
        goes
    }

    /// Adds a sample to the average queue length and returns the average.
    fn measure(&mut self, size: u64, now: Timestamp) -> u64 {
        let stability = self.params.stability;
        if stability == 0 {
            return size;
        }
        if size > 0 {
            self.average = self.average.with(size, stability);
            self.empty = None;
        } else {
            let tick = now.as_millis() / TICK;
            let ticks = self.empty.map_or(1, |last| tick.saturating_sub(last).unsigned_abs());
            self.average = self.average.with_zeros(ticks, stability);
            self.empty = Some(tick);
        }
        self.average.rounded()
    }

    /// Adapts the maximum probability to the average queue length, for AdaptiveRED.
    pub(super) fn adapt(&mut self, size: u64) {
        const HUNDREDTH: u32 = 655;
        const NINE_TENTHS: u64 = 58982;
        let length = if self.params.stability == 0 { size } else { self.average.rounded() };
        let Params { min_thresh, max_thresh, max_p, .. } = self.params;
        let half = max_thresh.saturating_sub(min_thresh) / 2;
        if length < u64::from(min_thresh + half) && max_p > HUNDREDTH {
            let less = (u64::from(max_p) * NINE_TENTHS) >> 16;
            self.params.max_p = u32::try_from(less).unwrap_or(max_p);
        } else if length > u64::from(max_thresh - half) && max_p < ONE / 2 {
            self.params.max_p = max_p + HUNDREDTH.min(max_p / 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// RED as in its paper, in floating point: the average, packets since the last drop, and the random number for the
    /// next one.
    struct Naive {
        average: f64,
        count: f64,
        chance: f64,
    }

    impl Naive {
        /// The drop probability of the next packet at the current average; `Err` if the decision is not random.
        fn probability(&self, params: Params) -> Result<f64, bool> {
            let [min, max] = [params.min_thresh, params.max_thresh].map(f64::from);
            let max_p = f64::from(params.max_p) / 65536.0;
            let length = self.average.round();
            let end = if params.gentle && max_p < 1.0 { 2.0 * max } else { max };
            if length <= min {
                Err(false)
            } else if length > end {
                Err(true)
            } else if length <= max {
                Ok(max_p * (self.average - min) / (max - min))
            } else {
                Ok(max_p + (1.0 - max_p) * (self.average - max) / max)
            }
        }
    }

    #[test]
    fn matches_the_paper() {
        let mut rng = Rng::with_seed(71);
        let mut decided = [0; 2];
        for _ in 0..200 {
            let min = rng.u32(1..30);
            let params = Params {
                min_thresh: min,
                max_thresh: min + rng.u32(1..60),
                max_p: rng.u32(1..=ONE),
                gentle: rng.bool(),
                stability: rng.u32(1..8),
            };
            let mut red = RandomEarly::new(params);
            let mut naive = Naive { average: 0.0, count: -1.0, chance: 0.0 };
            let mut size: u64 = 1;
            for _ in 0..2000 {
                size = (size + rng.u64(0..4)).saturating_sub(rng.u64(0..4)).max(1);
                let chance = rng.u32(0..ONE);
                let goes = red.goes(size, Timestamp::from_secs(1), || chance);
                let weight = 1.0 / f64::from(1u32 << params.stability);
                naive.average += weight * (size as f64 - naive.average);
                let average = red.average.scaled() as f64 / 1024.0;
                assert!((naive.average - average).abs() < 0.2, "{} {average}", naive.average);
                // Rounding errors accumulate in the averages: decide from the element's own.
                naive.average = average;
                let certain = match naive.probability(params) {
                    Err(goes) => {
                        naive.count = -1.0;
                        Some(goes)
                    }
                    Ok(probability) => {
                        naive.count += 1.0;
                        // Uniform between two drops: drop after `chance / probability` other packets.
                        let after = naive.chance / probability;
                        let near = (naive.count - after).abs() < 1.0 + after / 4.0;
                        let first = naive.count == 0.0;
                        let certain = (first || !near).then_some(!first && naive.count > after);
                        if goes || first {
                            naive.count = 0.0;
                            naive.chance = f64::from(chance) / 65536.0;
                        }
                        // The line is rounded down: small probabilities become zero.
                        certain.filter(|_| probability > 0.03)
                    }
                };
                assert!(certain.is_none_or(|certain| certain == goes), "{params:?} {average}");
                decided[usize::from(goes)] += usize::from(certain.is_some());
            }
        }
        assert!(decided.iter().all(|&n| n > 10_000), "{decided:?}");
    }

    #[test]
    fn the_average_decays_while_the_queue_is_empty() {
        let params =
            Params { min_thresh: 1, max_thresh: 5, max_p: ONE, gentle: false, stability: 2 };
        let mut red = RandomEarly::new(params);
        for _ in 0..100 {
            red.goes(40, Timestamp::from_secs(1), || 0);
        }
        assert_eq!(red.average.rounded(), 40);
        assert!(red.goes(0, Timestamp::from_millis(2000), || 0));
        assert_eq!(red.average.rounded(), 30);
        // Ten ticks later it has decayed ten times.
        assert!(!red.goes(0, Timestamp::from_millis(2200), || 0));
        assert_eq!(red.average.rounded(), 2);
        assert_eq!(red.drops, 101);
    }

    #[test]
    fn the_probability_adapts_slowly() {
        let params =
            Params { min_thresh: 10, max_thresh: 30, max_p: 6554, gentle: true, stability: 0 };
        let mut red = RandomEarly::new(params);
        red.adapt(25);
        assert_eq!(red.params.max_p, 6554 + 655);
        red.adapt(20);
        assert_eq!(red.params.max_p, 6554 + 655);
        red.adapt(12);
        assert_eq!(red.params.max_p, 7209 * 9 / 10);
    }
}

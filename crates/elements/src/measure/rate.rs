//! Packet rates as Click measures them: an exponentially weighted moving average over
//! milliseconds, each weighing a sixteenth, in fixed point with ten fractional bits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::{Context, Count, PerThread, Timestamp};

/// A rate that several threads measure together.
#[derive(Default)]
pub(crate) struct Rate {
    threads: PerThread<Meter>,
    /// Grows at each reset; threads start anew when they see it.
    generation: AtomicU64,
}

/// What one thread measures. One writer; readers may see the parts a moment apart.
#[derive(Default)]
struct Meter {
    generation: Count,
    /// The millisecond that `events` counts in.
    tick: Count,
    events: Count,
    /// The average of the milliseconds before, times 1024.
    average: Count,
}

const FRACTION: u32 = 10;
const STABILITY: u32 = 4;
const TICKS_PER_SECOND: u64 = 1000;

impl Rate {
    /// Counts `n` events.
    #[inline]
    pub(crate) fn update(&self, cx: &Context, n: u64) {
        let meter = self.threads.mine(cx);
        let generation = self.generation.load(Relaxed);
        let tick = tick(cx.now());
        if meter.generation.get() != generation {
            meter.generation.set(generation);
            meter.average.set(0);
            meter.events.set(0);
            meter.tick.set(tick);
        }
        if tick != meter.tick.get() {
            meter.average.set(meter.average_at(tick));
            meter.tick.set(tick);
            meter.events.set(0);
        }
        meter.events.add(n);
    }

    /// Events a second.
    pub(crate) fn per_second(&self, now: Timestamp) -> f64 {
        let generation = self.generation.load(Relaxed);
        let current = self.threads.iter().filter(|meter| meter.generation.get() == generation);
        let average: u64 = current.map(|meter| meter.average_at(tick(now))).sum();
        (average * TICKS_PER_SECOND) as f64 / f64::from(1 << FRACTION)
    }

    /// Forgets what was measured.
    pub(crate) fn reset(&self) {
        self.generation.fetch_add(1, Relaxed);
    }
}

impl Meter {
    /// The average at the start of `tick`.
    fn average_at(&self, tick: u64) -> u64 {
        let passed = tick.saturating_sub(self.tick.get());
        if passed == 0 {
            return self.average.get();
        }
        let mut average = weigh(self.average.get(), self.events.get());
        for _ in 1..passed {
            let next = weigh(average, 0);
            if next == average {
                break;
            }
            average = next;
        }
        average
    }
}

/// The average with one millisecond more, in which there were `events`.
fn weigh(average: u64, events: u64) -> u64 {
    let scaled = i128::from(events) << FRACTION;
    let average = i128::from(average);
    let rounding = 1i128 << (STABILITY - 1);
    let next = average + ((scaled - average + rounding) >> STABILITY);
    u64::try_from(next.max(0)).unwrap_or(u64::MAX >> 20)
}

fn tick(time: Timestamp) -> u64 {
    time.as_millis().max(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_is_measured_right() {
        let mut average = 0;
        for _ in 0..1000 {
            average = weigh(average, 5);
        }
        let rate = (average * TICKS_PER_SECOND) as f64 / 1024.0;
        assert!((4990.0..=5010.0).contains(&rate), "{rate}");
    }

    #[test]
    fn silence_brings_the_average_down() {
        let meter = Meter::default();
        meter.average.set(1024 * 1000);
        assert!(meter.average_at(1000) < 20);
        assert!(meter.average_at(u64::MAX) < 20);
    }
}

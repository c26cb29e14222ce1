//! Rates as Click measures them: an exponentially weighted moving average over milliseconds, each with a weight of
//! 1/16, in fixed point.

pub(crate) mod ewma;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::{Context, Count, PerThread, Timestamp};

use ewma::{Ewma, fixed_text};

/// A rate that several threads measure together, with `FRACTION` fractional bits.
#[derive(Default)]
pub(crate) struct Rate<const FRACTION: u32 = 10> {
    threads: PerThread<Meter<FRACTION>>,
    /// Incremented at each reset; threads restart their measurement when they see it.
    generation: AtomicU64,
}

/// What one thread measures. It has one writer; readers can see the fields slightly apart in time.
#[derive(Default)]
struct Meter<const FRACTION: u32> {
    generation: Count,
    /// The millisecond in which `events` counts.
    tick: Count,
    events: Count,
    /// The average of the milliseconds before, times 2^FRACTION.
    average: Count,
}

const STABILITY: u32 = 4;

/// Averages are per millisecond.
pub(crate) const TICKS_PER_SECOND: u64 = 1000;

impl<const FRACTION: u32> Rate<FRACTION> {
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

    /// The average number of events per millisecond, times 2^FRACTION.
    pub(crate) fn scaled_average(&self, now: Timestamp) -> u64 {
        let generation = self.generation.load(Relaxed);
        let current = self.threads.iter().filter(|meter| meter.generation.get() == generation);
        current.map(|meter| meter.average_at(tick(now))).sum()
    }

    /// Events per second, rounded down.
    pub(crate) fn per_second(&self, now: Timestamp) -> u64 {
        self.scaled_average(now).saturating_mul(TICKS_PER_SECOND) >> FRACTION
    }

    /// Events per second, as text for handlers.
    pub(crate) fn text(&self, now: Timestamp) -> String {
        fixed_text::<FRACTION>(self.scaled_average(now).saturating_mul(TICKS_PER_SECOND))
    }

    /// Discards all measurements.
    pub(crate) fn reset(&self) {
        self.generation.fetch_add(1, Relaxed);
    }
}

impl<const FRACTION: u32> Meter<FRACTION> {
    /// The average at the start of `tick`.
    fn average_at(&self, tick: u64) -> u64 {
        let average = Ewma::<FRACTION>::from_scaled(self.average.get());
        match tick.saturating_sub(self.tick.get()) {
            0 => average,
            passed => average.with(self.events.get(), STABILITY).with_zeros(passed - 1, STABILITY),
        }
        .scaled()
    }
}

fn tick(time: Timestamp) -> u64 {
    time.as_millis().max(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_decays_without_events() {
        let meter = Meter::<10>::default();
        meter.average.set(1024 * 1000);
        assert!((1..1024 * 20).contains(&meter.average_at(64)));
        assert_eq!(meter.average_at(101), 0);
        assert_eq!(meter.average_at(u64::MAX), 0);
    }
}

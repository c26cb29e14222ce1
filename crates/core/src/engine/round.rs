//! What a thread checks once per round: the time, and whether to measure this round's cycles.
//!
//! Both are expensive on a path where a packet costs forty cycles: reading the clock takes about ninety
//! cycles, and the time stamp counter, which would be read at each change of element, forty on a virtual
//! machine. So
//!
//! - the time of a round comes from the time stamp counter, which is compared with the clock about every half
//!   millisecond. The time stays within a fraction of a microsecond of the clock, and never goes back;
//! - a thread that has had work round after round measures the cycles of one round in [`STRIDE`], and counts
//!   them that many times. A thread that has been idle measures every round.

use crate::clock::Clock;
use crate::time::Timestamp;

/// The number of rounds with work after which not every round is measured any more.
const EXACT: u32 = 64;

/// Then one round in this many is measured. A prime number, so that events in every second or every eighth
/// round are not always missed.
const STRIDE: u32 = 13;

/// The rounds of one thread.
#[derive(Debug)]
pub(crate) struct Rounds {
    watch: Watch,
    /// Rounds with work in a row.
    busy: u32,
    /// How many times the cycles of this round are counted; 0 when they are not measured.
    weight: u64,
}

impl Rounds {
    pub(crate) fn new() -> Self {
        Self { watch: Watch::new(), busy: 0, weight: 1 }
    }

    /// Begins a round, at `cycle`.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.weight = match self.busy {
            0..EXACT => 1,
            busy if busy.is_multiple_of(STRIDE) => STRIDE.into(),
            _ => 0,
        };
    }

    /// Records that the tasks have run, and whether one did any work.
    #[inline]
    pub(crate) fn note(&mut self, worked: bool) {
        // When the number is used up, rounds are counted exactly for a while.
        self.busy = if worked { self.busy.wrapping_add(1) } else { 0 };
    }

    /// The factor for the cycles of this round; 0 when they are not to be measured.
    #[inline(always)]
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The time at `cycle`, which has just been read.
    #[inline]
    pub(crate) fn time(&mut self, cycle: u64, clock: &Clock) -> Timestamp {
        self.watch.time(cycle, clock)
    }
}

/// Computes the time from the time stamp counter.
#[derive(Debug)]
struct Watch {
    /// When it was compared with the clock: the cycle, and the time in nanoseconds.
    cycle: u64,
    nanos: i64,
    /// Nanoseconds in 2^32 cycles; 0 while unknown.
    rate: u64,
    /// Whether all cycles have the same length.
    steady: bool,
}

/// Cycles after which the counter is compared with the clock again: half a millisecond at 2 GHz.
const COMPARE: u64 = 1 << 20;
/// If comparisons are further apart than this, they give no rate: the thread slept, and the counter may have
/// too.
const APART: u64 = 16 * COMPARE;
/// A comparison that takes longer was interrupted. The time may be off by at most twice this.
const PROMPT: u64 = 1000;

impl Watch {
    fn new() -> Self {
        Self { cycle: 0, nanos: 0, rate: 0, steady: crate::cycles::are_steady() }
    }

    #[inline]
    fn time(&mut self, cycle: u64, clock: &Clock) -> Timestamp {
        let since = cycle.wrapping_sub(self.cycle);
        if since < COMPARE && self.rate != 0 {
            return Timestamp::from_nanos(self.nanos + ((since * self.rate) >> 32) as i64);
        }
        self.compare(clock)
    }

    #[cold]
    fn compare(&mut self, clock: &Clock) -> Timestamp {
        if !self.steady || clock.is_virtual() || clock.is_warped() {
            self.rate = 0;
            return clock.now();
        }
        let before = crate::cycles::now();
        let now = clock.now();
        let after = crate::cycles::now();
        if after.wrapping_sub(before) < PROMPT {
            self.set(after, now.as_nanos());
        }
        now
    }

    /// Computes a rate from this comparison and the previous one.
    fn set(&mut self, cycle: u64, nanos: i64) {
        let cycles = cycle.wrapping_sub(self.cycle);
        let elapsed = u128::try_from(nanos.saturating_sub(self.nanos)).unwrap_or(0);
        if (COMPARE..APART).contains(&cycles) {
            // Of a counter slower than 250 MHz, or one that jumped, nothing is believed.
            let rate = u64::try_from((elapsed << 32) / u128::from(cycles)).unwrap_or(0);
            self.rate = if rate < 4 << 32 { rate } else { 0 };
        } else if self.rate == 0 && cycles < COMPARE {
            // Too early to tell; the older comparison says more.
            return;
        }
        (self.cycle, self.nanos) = (cycle, nanos);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_time_told_is_the_clocks() {
        let (clock, mut watch) = (Clock::real(), Watch::new());
        let patience = Instant::now() + Duration::from_secs(60);
        let mut off = Vec::new();
        while off.len() < 1000 {
            assert!(Instant::now() < patience, "its rate is never known");
            let before = clock.now();
            let time = watch.time(crate::cycles::now(), &clock);
            let after = clock.now();
            if watch.rate != 0 || !watch.steady {
                let (early, late) = (before - time, time - after);
                off.push(early.as_nanos().max(late.as_nanos()));
            }
        }
        assert!(watch.steady || watch.rate == 0);
        // Whoever is interrupted between the counter and the clock is wrong until they are compared again.
        off.sort_unstable();
        assert!(off[0] < 1000 && off[off.len() / 2] < 20_000, "{off:?}");
    }

    #[test]
    fn a_counter_that_jumps_is_not_believed() {
        let mut watch = Watch { cycle: 0, nanos: 0, rate: 0, steady: true };
        watch.set(COMPARE, 500_000);
        assert_eq!(watch.rate, (500_000 << 32) / COMPARE);
        let clock = Clock::real();
        assert_eq!(watch.time(COMPARE + 2048, &clock).as_nanos(), 500_000 + 976);
        // It stood still while the clock went on.
        let stopped = watch.cycle + COMPARE;
        watch.set(stopped, 10_000_000_000);
        assert_eq!(watch.rate, 0);
        // A long sleep says nothing about the rate.
        watch.set(stopped + 100 * APART, 20_000_000_000);
        assert_eq!((watch.rate, watch.nanos), (0, 20_000_000_000));
    }

    #[test]
    fn on_virtual_time_the_clock_alone_is_asked() {
        let (clock, mut watch) = (Clock::virtual_(), Watch::new());
        for step in 1..100 {
            let time = Clock::VIRTUAL_START + Timestamp::from_nanos(step * 1000);
            clock.advance(time);
            assert_eq!(watch.time(crate::cycles::now(), &clock), time);
        }
    }

    #[test]
    fn busy_rounds_are_counted_one_for_many() {
        let mut rounds = Rounds::new();
        let mut counted = 0;
        let total = EXACT + 100 * STRIDE;
        for round in 0..total {
            rounds.begin();
            counted += rounds.weight();
            assert!(round >= EXACT || rounds.weight() == 1);
            rounds.note(true);
        }
        assert!(counted.abs_diff(total.into()) < STRIDE.into(), "{counted} of {total}");
        rounds.note(false);
        rounds.begin();
        assert_eq!(rounds.weight(), 1);
    }
}

//! A router's time.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Instant;

use crate::Lock;
use crate::time::Timestamp;

/// A clock: the machine's, or a virtual one that moves only on request.
#[derive(Debug)]
pub enum Clock {
    /// Wall-clock time at the start plus monotonic time since: it never jumps. After a hot swap it runs on, so that the
    /// new router understands the times in the state that it takes over, though the machine's clock was set meanwhile.
    Real(RealClock),
    /// Virtual time (`--simtime`).
    Virtual {
        /// Nanoseconds since the epoch.
        nanos: AtomicI64,
        /// Nanoseconds that pass each time the clock is read (`--simtick`).
        tick: i64,
    },
}

/// The machine's clock, whose pace can be changed.
#[derive(Debug)]
pub struct RealClock {
    /// The time at the start, in nanoseconds since the epoch: the wall-clock time, or that of the clock before.
    origin: AtomicI64,
    start: Instant,
    /// Whether time runs at another pace than the machine's.
    is_warped: AtomicBool,
    warp: Lock<Warp>,
}

/// How time runs since its pace was changed.
#[derive(Clone, Copy, Debug)]
struct Warp {
    pace: Pace,
    /// The change: nanoseconds since the start by the machine's clock, and by this one.
    machine: i64,
    told: i64,
}

/// How fast the time of a [`Clock`] runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many times as fast as the machine's; greater than 0.
    Speed(f64),
    /// As the machine's, but nobody waits for a timer: when there is no work, time jumps to the next one.
    NoWait,
}

impl Pace {
    fn speed(self) -> f64 {
        match self {
            Self::Speed(speed) => speed,
            Self::NoWait => 1.0,
        }
    }
}

impl Clock {
    /// Where virtual time starts, as in Click: 1,000,000,000 s after the epoch.
    pub const VIRTUAL_START: Timestamp = Timestamp::from_nanos(1_000_000_000_000_000_000);

    /// The machine's clock.
    pub fn real() -> Self {
        Self::Real(RealClock {
            origin: AtomicI64::new(Timestamp::now().as_nanos()),
            start: Instant::now(),
            is_warped: AtomicBool::new(false),
            warp: Lock::new(Warp { pace: Pace::Speed(1.0), machine: 0, told: 0 }),
        })
    }

    /// A virtual clock at its start.
    pub fn virtual_() -> Self {
        Self::virtual_from(Self::VIRTUAL_START, 0)
    }

    /// A virtual clock that starts at this time, and moves on by so many nanoseconds each time it is read.
    pub fn virtual_from(start: Timestamp, tick: i64) -> Self {
        Self::Virtual { nanos: AtomicI64::new(start.as_nanos()), tick }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Real(real) => real.now(),
            Self::Virtual { nanos, tick: 0 } => {
                Timestamp::from_nanos(nanos.load(Ordering::Relaxed))
            }
            Self::Virtual { nanos, tick } => {
                Timestamp::from_nanos(nanos.fetch_add(*tick, Ordering::Relaxed))
            }
        }
    }

    /// True when time is virtual.
    pub fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual { .. })
    }

    /// Moves virtual time forward to `to`, and a clock that waits for nothing, too. Has no effect on other clocks of
    /// the machine.
    pub fn advance(&self, to: Timestamp) {
        match self {
            Self::Virtual { nanos, .. } => {
                nanos.fetch_max(to.as_nanos(), Ordering::Relaxed);
            }
            Self::Real(real) => real.jump(to),
        }
    }

    /// Takes over the time of another clock, whose router this one's replaces, and its pace.
    pub(crate) fn continue_from(&self, old: &Self) {
        match (self, old) {
            (Self::Real(real), Self::Real(before)) if before.is_warped.load(Ordering::Relaxed) => {
                let (pace, now) = (before.pace(), before.now());
                let told = now.as_nanos().saturating_sub(real.origin());
                *real.warp.lock() = Warp { pace, machine: real.machine(), told };
                real.is_warped.store(true, Ordering::Relaxed);
            }
            (Self::Real(real), Self::Real(before)) => {
                let origin = before.now().as_nanos().saturating_sub(real.machine());
                real.origin.store(origin, Ordering::Relaxed);
            }
            _ => self.advance(old.now()),
        }
    }

    /// Whether time may run at another pace than the machine's.
    pub(crate) fn is_warped(&self) -> bool {
        matches!(self, Self::Real(real) if real.is_warped.load(Ordering::Relaxed))
    }

    /// How fast time runs; `None` when it is virtual.
    pub fn pace(&self) -> Option<Pace> {
        match self {
            Self::Real(real) => Some(real.pace()),
            Self::Virtual { .. } => None,
        }
    }

    /// Makes time run at this pace from now on. Has no effect on virtual time.
    pub fn set_pace(&self, pace: Pace) {
        if let Self::Real(real) = self {
            let mut warp = real.warp.lock();
            let machine = real.machine();
            *warp = Warp { pace, machine, told: warp.tell(machine) };
            real.is_warped.store(true, Ordering::Relaxed);
        }
    }

    /// How long the machine takes for so many nanoseconds of this clock.
    pub(crate) fn machine_nanos(&self, nanos: i64) -> i64 {
        match self.pace() {
            Some(Pace::Speed(speed)) if speed != 1.0 => (nanos as f64 / speed) as i64,
            _ => nanos,
        }
    }
}

impl RealClock {
    /// Nanoseconds since the start, by the machine's clock.
    fn machine(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    fn origin(&self) -> i64 {
        self.origin.load(Ordering::Relaxed)
    }

    fn now(&self) -> Timestamp {
        let told = match self.is_warped.load(Ordering::Relaxed) {
            false => self.machine(),
            true => {
                let warp = self.warp.lock();
                warp.tell(self.machine())
            }
        };
        Timestamp::from_nanos(self.origin().saturating_add(told))
    }

    fn pace(&self) -> Pace {
        match self.is_warped.load(Ordering::Relaxed) {
            false => Pace::Speed(1.0),
            true => self.warp.lock().pace,
        }
    }

    fn jump(&self, to: Timestamp) {
        if !self.is_warped.load(Ordering::Relaxed) {
            return;
        }
        let mut warp = self.warp.lock();
        if warp.pace == Pace::NoWait {
            let machine = self.machine();
            let to = to.as_nanos().saturating_sub(self.origin());
            *warp = Warp { machine, told: to.max(warp.tell(machine)), ..*warp };
        }
    }
}

impl Warp {
    /// The time by this clock, in nanoseconds since the start, when it is `machine` by the machine's.
    fn tell(&self, machine: i64) -> i64 {
        let passed = machine.saturating_sub(self.machine);
        let passed = match self.pace.speed() {
            1.0 => passed,
            speed => (passed as f64 * speed) as i64,
        };
        self.told.saturating_add(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_on_from_where_it_is_when_its_pace_changes() {
        let warp = Warp { pace: Pace::Speed(2.0), machine: 100, told: 100 };
        assert_eq!([100, 150, 1100].map(|machine| warp.tell(machine)), [100, 200, 2100]);
        let slow = Warp { pace: Pace::Speed(0.5), machine: 1100, told: warp.tell(1100) };
        assert_eq!(slow.tell(1300), 2200);

        let clock = Clock::real();
        let before = clock.now();
        clock.set_pace(Pace::Speed(1000.0));
        assert_eq!(clock.pace(), Some(Pace::Speed(1000.0)));
        assert_eq!(clock.machine_nanos(5_000), 5);
        let slept = Instant::now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let passed = clock.now() - before;
        assert!(passed >= Timestamp::from_secs(5), "{passed}");
        let most = slept.elapsed().as_millis() as i64 + 1;
        assert!(passed <= Timestamp::from_secs(most + 1000), "{passed}");

        let successor = Clock::real();
        successor.continue_from(&clock);
        assert!(successor.now() >= before + passed);
        assert_eq!(successor.pace(), clock.pace());
    }

    #[test]
    fn the_clock_of_the_next_router_runs_on_though_the_machines_was_set() {
        let ahead = Clock::real();
        let Clock::Real(real) = &ahead else { unreachable!() };
        let years = Timestamp::from_secs(315_360_000);
        for step in [years, Timestamp::from_nanos(-years.as_nanos())] {
            real.origin.fetch_add(step.as_nanos(), Ordering::Relaxed);
            let (next, before) = (Clock::real(), ahead.now());
            next.continue_from(&ahead);
            assert!(next.now() >= before && next.now() - before < Timestamp::from_secs(3600));
            assert!(!next.is_warped());
        }
    }

    #[test]
    fn a_clock_that_waits_for_nothing_jumps_and_others_of_the_machine_do_not() {
        let clock = Clock::real();
        let later = clock.now() + Timestamp::from_secs(3600);
        clock.advance(later);
        assert!(clock.now() < later);
        clock.set_pace(Pace::NoWait);
        clock.advance(later);
        let now = clock.now();
        assert!(now >= later);
        clock.advance(later - Timestamp::from_secs(60));
        assert!(clock.now() >= now, "never back");
    }

    #[test]
    fn virtual_time_moves_on_by_a_tick_each_time_it_is_read() {
        let clock = Clock::virtual_from(Timestamp::from_secs(7), 3);
        let times = [(); 3].map(|()| clock.now().as_nanos() - 7_000_000_000);
        assert_eq!(times, [0, 3, 6]);
        assert_eq!(clock.pace(), None);
    }
}

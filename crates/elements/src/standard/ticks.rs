//! The interval of TimedSource and TimedSink: argument, timer and handler.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use millrace_core::args::Seconds;
use millrace_core::{Context, Handlers, Init, Setup, Timer, Timestamp};

use crate::queueing::interval::{interval_text, span};

/// A timer that expires every INTERVAL, counted from its previous due time.
pub(super) struct Ticks {
    /// In nanoseconds.
    interval: AtomicI64,
    /// When the timer is due, in nanoseconds since the epoch; 0 for immediately.
    due: AtomicI64,
    timer: Timer,
}

/// A timer that is later than this does not catch up, so that it cannot monopolise its thread.
const LATEST: Timestamp = Timestamp::from_millis(100);

impl Ticks {
    /// Reads INTERVAL.
    pub(super) fn configure(setup: &mut Setup<'_>) -> Self {
        let interval: Seconds = setup.args.positional("INTERVAL", Seconds::from_millis(500));
        if interval.is_zero() {
            setup.args.error("INTERVAL", "INTERVAL must be positive");
        }
        let timer = setup.timer();
        Self { interval: span(interval).as_nanos().into(), due: 0.into(), timer }
    }

    /// Schedules the timer one interval from now.
    pub(super) fn start(&self, init: &Init<'_>) {
        self.schedule(init.clock().now() + self.interval());
    }

    /// Schedules the timer immediately, unless it is already scheduled.
    pub(super) fn wake(&self) {
        if self.timer.expiry().is_none() {
            self.schedule(Timestamp::ZERO);
        }
    }

    /// Schedules the timer again after it has expired.
    pub(super) fn again(&self, cx: &Context) {
        let due = Timestamp::from_nanos(self.due.load(Relaxed));
        let now = cx.now();
        let is_late = due + LATEST < now;
        self.schedule(if is_late { now } else { due } + self.interval());
    }

    /// The handler `interval`.
    pub(super) fn handlers<E: 'static>(
        handlers: &mut Handlers<E>,
        ticks: impl Fn(&E) -> &Self + Copy + Send + Sync + 'static,
    ) {
        handlers.read("interval", move |e, _| interval_text(ticks(e).interval()));
        handlers.write("interval", move |e, call| match call.parse::<Seconds>() {
            Ok(interval) if !interval.is_zero() => {
                ticks(e).interval.store(span(interval).as_nanos(), Relaxed);
                Ok(())
            }
            _ => Err("bad interval".into()),
        });
    }

    fn interval(&self) -> Timestamp {
        Timestamp::from_nanos(self.interval.load(Relaxed))
    }

    fn schedule(&self, due: Timestamp) {
        self.due.store(due.as_nanos(), Relaxed);
        self.timer.schedule_at(due);
    }
}

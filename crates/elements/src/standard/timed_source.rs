//! TimedSource - generates a packet at a fixed interval
//!
//! # Synopsis
//! `TimedSource([INTERVAL, DATA, keywords LIMIT, ACTIVE, LENGTH, TIMESTAMP, HEADROOM, STOP, END_CALL])`
//!
//! # Description
//! Pushes a packet with the bytes DATA every INTERVAL; the first one leaves after one INTERVAL. STOP and END_CALL
//! take effect one INTERVAL after the last packet. If the source has stopped sending, a write to `active`, `limit`
//! or `reset` that lets it send again makes it push the next packet immediately.
//!
//! # Arguments
//! - INTERVAL: time between packets, such as `10ms`. Positional, default 0.5 s.
//! - DATA: the packet's bytes. Positional, default a text of 69 bytes.
//! - LIMIT: number of packets to make; negative for no limit. Default -1.
//! - ACTIVE: whether the source sends packets. Default true.
//! - LENGTH (or DATASIZE): the packet's length; DATA is truncated or repeated to fit. Default: the length of DATA.
//! - TIMESTAMP: whether to set the timestamp annotation to the time when the packet is made. Default true.
//! - HEADROOM: headroom of the packets, in bytes. Default 128.
//! - STOP: whether to stop the program after the last packet. Default false.
//! - END_CALL: write handler to call after the last packet.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! - `data`, `length`, `interval`, `limit`, `active`, `headroom` (read, write): the arguments of these names. A
//!   new interval takes effect after the next packet.
//! - `count` (read): packets made so far.
//! - `reset` (write): sets `count` to 0, so that LIMIT more packets are made.
//!
//! # Drops
//! - no buffer: no packet memory was free.
//!
//! # Example
//! ```click
//! TimedSource(10ms, "tick", LIMIT 5, STOP true) -> Discard;
//! ```
//!
//! # See also
//! RatedSource, InfiniteSource

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use millrace_core::args::Seconds;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Refused, Setup, Timer, Timestamp, register,
};

use super::supply::{Given, Supply};
use crate::queueing::interval::{interval_text, span};

/// The element; its manual is at the top of the file.
pub struct TimedSource {
    supply: Supply,
    ticks: Ticks,
}

register!(TimedSource, "timed_source.rs");

impl Element for TimedSource {
    const CLASS: Class = Class::new("TimedSource", "0/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let ticks = Ticks::configure(setup);
        let data = setup.args.optional("DATA");
        let limit = setup.args.optional_keyword("LIMIT");
        let active = setup.args.optional_keyword("ACTIVE");
        let supply = Supply::configure(&mut setup.args, Given { data, limit, active })?;
        Ok(Self { supply, ticks })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.supply.initialize(init)?;
        if self.supply.is_active() {
            self.ticks.start(init);
        }
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        if !self.supply.is_active() {
            return;
        }
        if self.supply.is_exhausted() {
            return self.supply.end(cx);
        }
        let mut batch = cx.take_batch();
        self.supply.fill(cx, 1, &mut batch);
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        self.ticks.again(cx);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        let wake = |source: &Self| {
            if source.supply.is_active() {
                source.ticks.wake();
            }
        };
        Supply::data_handlers(handlers, |source: &Self| &source.supply);
        Supply::headroom_handlers(handlers, |source: &Self| &source.supply);
        Supply::handlers(handlers, |source| &source.supply, wake);
        handlers.write("active", move |source, call| {
            source.supply.set_active(call.parse().map_err(|_| "bad active")?);
            wake(source);
            Ok(())
        });
        Ticks::handlers(handlers, |source| &source.ticks);
    }
}

/// A timer that expires every INTERVAL, counted from its previous due time.
pub(super) struct Ticks {
    /// In nanoseconds.
    interval: AtomicI64,
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
        Self { interval: span(interval).as_nanos().into(), timer }
    }

    /// Schedules the timer one interval from now.
    pub(super) fn start(&self, init: &Init<'_>) {
        self.timer.schedule_at(init.clock().now() + self.interval());
    }

    /// Schedules the timer immediately, unless it is already scheduled.
    pub(super) fn wake(&self) {
        if self.timer.expiry().is_none() {
            self.timer.schedule_at(Timestamp::ZERO);
        }
    }

    /// Schedules the timer again after it has expired.
    pub(super) fn again(&self, cx: &Context) {
        let due = self.timer.expired();
        let now = cx.now();
        let is_late = due + LATEST < now;
        self.timer.schedule_at(if is_late { now } else { due } + self.interval());
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
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn sends_a_packet_each_interval() {
        let mut rig = Rig::new("TimedSource(10ms, tick, LIMIT 3)", 0, 1).unwrap();
        assert_eq!(rig.pass(Timestamp::from_millis(9))[0].len(), 0);
        let out = rig.pass(Timestamp::from_millis(11));
        assert_eq!(out[0].iter().map(|p| p.data()).collect::<Vec<_>>(), [b"tick", b"tick"]);
        assert_eq!(rig.pass(Timestamp::from_secs(1))[0].len(), 1);
        rig.write("reset", "").unwrap();
        assert_eq!(rig.pass(Timestamp::from_secs(1))[0].len(), 3);
        assert!(Rig::new("TimedSource(0)", 0, 1).is_err());
    }
}

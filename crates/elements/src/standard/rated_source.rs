//! RatedSource - generates packets at a given rate or bandwidth
//!
//! # Synopsis
//! `RatedSource([DATA, RATE, LIMIT, ACTIVE, keywords LENGTH, BANDWIDTH, TIMESTAMP, HEADROOM, STOP, END_CALL])`
//!
//! # Description
//! Makes packets with the bytes DATA and pushes RATE of them per second, up to LIMIT in total. The clock ticks
//! once per millisecond, as in Click: above 1000 packets per second, several packets leave in one tick.
//!
//! The source starts with a burst, and a source that falls behind catches up with one. The burst is limited to
//! 10 ms' worth of packets, or to 2 if that is more. Given both BANDWIDTH and LENGTH, the limit is at least
//! 2 * LENGTH packets, as in Click. On a pull output, the source returns the packets that are due.
//!
//! # Arguments
//! - DATA: the packet's bytes. Positional, default a text of 69 bytes.
//! - RATE: packets per second. Positional, default 10.
//! - LIMIT: number of packets to make; negative for no limit. Positional, default -1.
//! - ACTIVE: whether the source sends packets. Positional, default true.
//! - LENGTH (or DATASIZE): the packet's length; DATA is truncated or repeated to fit. Default: the length of DATA.
//! - BANDWIDTH: sets RATE from a bandwidth, such as `10Mbps`, and the packet length.
//! - TIMESTAMP: whether to set the timestamp annotation to the time when the packet is made. Default true.
//! - HEADROOM: headroom of the packets, in bytes. Default 128.
//! - STOP: whether to stop the program after the last packet. Default false.
//! - END_CALL: write handler to call after the last packet.
//!
//! # Ports
//! One agnostic output.
//!
//! # Handlers
//! - `data`, `length`, `rate`, `limit`, `active` (read, write): the arguments of these names.
//! - `config` (read, write): the arguments; all but TIMESTAMP, STOP and END_CALL may change while packets run. Counts
//!   packets from 0 again.
//! - `count` (read): packets made so far.
//! - `reset` (write): sets `count` to 0, so that LIMIT more packets are made.
//! - `scheduled`, `home_thread` (read, write): whether the task is scheduled, and its home thread.
//!
//! # Drops
//! - no buffer: no packet memory was free.
//!
//! # Example
//! ```click
//! RatedSource(RATE 100, LIMIT 50, STOP true) -> Discard;
//! ```
//!
//! # See also
//! InfiniteSource, TimedSource, RatedUnqueue

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::args::Bandwidth;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Refused, Setup, Task, Timer,
    register,
};

use super::supply::{Given, Supply};
use crate::queueing::shapers::rate::token_bucket::TokenBucket;
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct RatedSource {
    supply: Supply,
    /// Locked because handlers access it; only one thread sends.
    bucket: Lock<TokenBucket>,
    task: Task,
    timer: Timer,
    pushes: AtomicBool,
}

register!(RatedSource, "rated_source.rs");

impl Element for RatedSource {
    const CLASS: Class = Class::new("RatedSource", "0/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let data = setup.args.optional("DATA");
        let rate: u32 = setup.args.positional("RATE", 10);
        let limit = setup.args.optional("LIMIT");
        let active = setup.args.optional("ACTIVE");
        let bandwidth: Option<Bandwidth> = setup.args.optional_keyword("BANDWIDTH");
        let supply = Supply::configure(&mut setup.args, Given { data, limit, active })?;
        let rate = match bandwidth {
            Some(bandwidth) => {
                let length = supply.packet_length().max(1) as u64;
                u32::try_from(bandwidth.as_bytes() / length).unwrap_or(u32::MAX)
            }
            None => rate,
        };
        let capacity = match bandwidth.and(supply.given_length()) {
            Some(length) => capacity(rate).max(2 * u64::from(length)),
            None => capacity(rate),
        };
        Ok(Self {
            supply,
            bucket: Lock::new(TokenBucket::new(rate.into(), capacity)),
            task: setup.task(),
            timer: setup.timer(),
            pushes: false.into(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.supply.initialize(init)?;
        self.pushes.store(!init.is_pull_output(0), Relaxed);
        self.wake();
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        if !self.supply.is_active() {
            return;
        }
        if self.supply.is_exhausted() {
            return self.supply.end(cx);
        }
        let now = cx.refresh_now();
        let mut bucket = self.bucket.lock();
        bucket.refill(now);
        let due = usize::try_from(bucket.tokens()).unwrap_or(usize::MAX);
        let made = self.supply.fill(cx, max.min(due), batch);
        bucket.take(made as u64);
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if !self.pushes.load(Relaxed) || !self.supply.is_active() || self.supply.is_exhausted() {
            self.task.rest();
            if self.supply.is_exhausted() {
                self.supply.end(cx);
            }
            return false;
        }
        let now = cx.refresh_now();
        let mut bucket = self.bucket.lock();
        bucket.refill(now);
        if !bucket.take(1) {
            self.task.rest();
            if let Some(time) = bucket.time_until(1).and_then(|wait| now.checked_add(wait)) {
                self.timer.schedule_at(time);
            }
            return false;
        }
        drop(bucket);
        let mut batch = cx.take_batch();
        self.supply.fill(cx, 1, &mut batch);
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        true
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.task.schedule();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|source, new| {
            source.supply.adopt(&new.supply)?;
            source.bucket.lock().assign_as(&new.bucket.lock());
            source.wake();
            Ok(())
        });
        Supply::data_handlers(handlers, |source: &Self| &source.supply);
        Supply::handlers(handlers, |source| &source.supply, Self::wake);
        handlers.read("rate", |source, _| source.bucket.lock().rate());
        handlers.write("rate", |source, call| {
            let rate: u32 = call.parse()?;
            source.bucket.lock().assign_adjust(rate.into(), capacity(rate));
            source.wake();
            Ok(())
        });
        task_handlers(handlers, |source| &source.task);
    }
}

impl RatedSource {
    /// Resumes sending, starting with one packet.
    fn wake(&self) {
        if self.pushes.load(Relaxed) && self.supply.is_active() && !self.task.is_scheduled() {
            self.bucket.lock().set(1);
            self.task.schedule();
        }
    }
}

/// The largest burst: 10 ms' worth of packets, at least 2.
fn capacity(rate: u32) -> u64 {
    u64::from(rate / 100).max(2)
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn packets_leave_at_the_configured_rate() {
        let mut rig = Rig::new("RatedSource(RATE 10, LIMIT 25)", 0, 1).unwrap();
        let out = rig.pass(Timestamp::from_millis(950));
        let start = out[0][0].timestamp();
        let times: Vec<i64> = out[0].iter().map(|p| (p.timestamp() - start).as_millis()).collect();
        // The bucket starts full; the tokens added per millisecond are rounded down.
        assert_eq!(times, [0, 0, 101, 201, 301, 401, 501, 601, 701, 801, 901]);
        assert_eq!(rig.pass(Timestamp::from_secs(10))[0].len(), 14);
    }

    #[test]
    fn high_rates_are_accurate() {
        let mut rig = Rig::new("RatedSource(RATE 12345)", 0, 1).unwrap();
        let n = rig.pass(Timestamp::from_secs(2))[0].len();
        assert!((2 * 12345..=2 * 12345 + 123).contains(&n), "{n}");
        rig.write("rate", "0").unwrap();
        assert!(rig.pass(Timestamp::from_secs(2))[0].len() <= 1);
        rig.write("config", "RATE 100, LIMIT 50").unwrap();
        assert_eq!(rig.pass(Timestamp::from_secs(2))[0].len(), 50);
    }

    #[test]
    fn bandwidth_sets_the_rate() {
        let rig = Rig::new("RatedSource(LENGTH 100, BANDWIDTH 8kbps)", 0, 1).unwrap();
        assert_eq!(rig.read("rate").unwrap(), "10");
    }
}

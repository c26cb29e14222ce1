//! RatedUnqueue - pulls packets at a rate and pushes them on
//!
//! # Synopsis
//! `RatedUnqueue(RATE, keywords BURST_DURATION, BURST_SIZE, ACTIVE)`
//!
//! # Description
//! Pulls one packet at a time, RATE of them a second, and pushes it on. A token bucket holds the
//! right to what was not pulled in time, up to BURST_SIZE packets; it is full at first. Time counts
//! in milliseconds, as in Click.
//!
//! # Arguments
//! - RATE: packets a second. Positional, mandatory.
//! - BURST_DURATION: the bucket holds as many packets as come in this time. Default 20ms.
//! - BURST_SIZE: the bucket holds this many packets. Not together with BURST_DURATION.
//! - ACTIVE: whether it pulls. Default true.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `rate` (read, write), `active` (read, write): as the arguments.
//! - `scheduled`, `home_thread` (read, write): its task, and the thread that runs it.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> RatedUnqueue(1000) -> Discard;
//! ```
//!
//! # See also
//! Unqueue, BandwidthRatedUnqueue, RatedSource, Shaper

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use millrace_core::args::Seconds;
use millrace_core::element::Listening;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Refused, Setup, Task, Timer, Timestamp,
    register,
};

use super::token_bucket::TokenBucket;
use crate::standard::supply::task_handlers;

/// The element; its manual is at the top of the file.
pub struct RatedUnqueue {
    /// Behind a lock for the handlers; only one thread pulls.
    pace: Mutex<Pace>,
    active: AtomicBool,
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
}

struct Pace {
    rate: u32,
    /// Packets that the bucket holds, or nanoseconds' worth of them.
    burst: Burst,
    bucket: TokenBucket,
}

#[derive(Clone, Copy)]
enum Burst {
    Packets(u32),
    Duration(Seconds),
}

register!(RatedUnqueue, "rated_unqueue.rs");

impl Element for RatedUnqueue {
    const CLASS: Class = Class::new("RatedUnqueue", "1/1", "l/h").breaks_batches();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let rate: u32 = setup.args.mandatory("RATE");
        let duration: Option<Seconds> = setup.args.optional_keyword("BURST_DURATION");
        let size: Option<u32> = setup.args.optional_keyword("BURST_SIZE");
        let active = setup.args.keyword("ACTIVE", true);
        if duration.is_some() && size.is_some() {
            setup.args.error("BURST_SIZE", "cannot specify both BURST_DURATION and BURST_SIZE");
        }
        setup.args.complete()?;
        let duration = duration.unwrap_or(Seconds::from_millis(20));
        let burst = size.map_or(Burst::Duration(duration), Burst::Packets);
        Ok(Self {
            pace: Mutex::new(Pace::new(rate, burst, Timestamp::ZERO)),
            active: active.into(),
            task: setup.task(),
            timer: setup.timer(),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.upstream.set(init.listen(0, &self.task));
        let mut pace = self.pace();
        *pace = Pace::new(pace.rate, pace.burst, init.clock().now());
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if !self.active.load(Relaxed) {
            self.task.rest();
            return false;
        }
        let now = cx.refresh_now();
        let mut pace = self.pace();
        pace.bucket.refill(now);
        if pace.bucket.tokens() == 0 {
            self.task.rest();
            if let Some(time) = pace.bucket.time_of(1) {
                self.timer.schedule_at(time);
            }
            return false;
        }
        // Upstream elements may call handlers of this one.
        drop(pace);
        let mut batch = cx.take_batch();
        let n = cx.pull(0, 1, &mut batch);
        self.pace().bucket.take(n as u64);
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        if n == 0
            && let Some(upstream) = self.upstream.get()
        {
            upstream.rest(&self.task, cx.router());
        }
        n > 0
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.task.schedule();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("rate", |unqueue, _| unqueue.pace().rate);
        handlers.write("rate", |unqueue, call| {
            let rate: u32 = call.parse()?;
            let mut pace = unqueue.pace();
            pace.rate = rate;
            let capacity = pace.burst.capacity(rate);
            pace.bucket.change(rate.into(), capacity);
            unqueue.task.schedule();
            Ok(())
        });
        handlers.read("active", |unqueue, _| unqueue.active.load(Relaxed));
        handlers.write("active", |unqueue, call| {
            unqueue.active.store(call.parse()?, Relaxed);
            unqueue.task.schedule();
            Ok(())
        });
        task_handlers(handlers, |unqueue| &unqueue.task);
    }
}

impl RatedUnqueue {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pace {
    /// A pace with a full bucket.
    fn new(rate: u32, burst: Burst, now: Timestamp) -> Self {
        let capacity = burst.capacity(rate);
        Self { rate, burst, bucket: TokenBucket::new(rate.into(), capacity, capacity, now) }
    }
}

impl Burst {
    /// The most tokens, at least 1.
    fn capacity(self, rate: u32) -> u64 {
        let tokens = match self {
            Self::Packets(packets) => packets.into(),
            Self::Duration(time) => {
                let tokens = u128::from(rate) * u128::from(time.as_nanos()) / 1_000_000_000;
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
        };
        tokens.max(1)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn a_burst_then_the_rate() {
        let mut rig = Rig::new("RatedUnqueue(100, BURST_SIZE 5)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["x"; 100])[0].len(), 5);
        assert_eq!(rig.pass(Timestamp::from_millis(100))[0].len(), 10);
        rig.write("rate", "1000").unwrap();
        assert_eq!(rig.pass(Timestamp::from_millis(10))[0].len(), 10);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn refuses_two_sizes_of_burst() {
        let element = "RatedUnqueue(100, BURST_SIZE 5, BURST_DURATION 1s)";
        assert!(Rig::new(element, 1, 1).is_err());
    }
}

//! RatedUnqueue - pulls packets at a limited packet rate and pushes them on
//!
//! # Synopsis
//! `RatedUnqueue(RATE, keywords BURST_DURATION, BURST_SIZE, ACTIVE)`
//!
//! # Description
//! Pulls one packet at a time, up to RATE per second, and pushes it on. A token bucket saves unused credit, up to
//! BURST_SIZE packets; it is full at first. Time counts in milliseconds, as in Click.
//!
//! # Arguments
//! - RATE: packets per second. Positional, mandatory.
//! - BURST_DURATION: size of the bucket, as the time in which RATE fills it. Default 20ms.
//! - BURST_SIZE: size of the bucket in packets. Cannot be combined with BURST_DURATION.
//! - ACTIVE: whether the element pulls. Default true.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `rate` (read, write), `active` (read, write): the RATE and ACTIVE arguments.
//! - `config` (read): the current rate. `config` (write): all arguments, while packets run.
//! - `calls` (read): statistics: task runs, empty runs, pushes, failed pulls and packets.
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
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

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{MutexGuard, OnceLock};

use millrace_core::element::Listening;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Lock, Refused, Setup, Task, Timer, register,
};

use crate::queueing::shapers::rate::pace::{Pace, Unit};
use crate::task_handlers::task_handlers;

/// The class; its manual is at the top of the file.
pub struct RatedUnqueue;

register!(Rated<RatedUnqueue>, "rated_unqueue.rs");

impl RatedClass for RatedUnqueue {
    const CLASS: Class = Class::new("RatedUnqueue", "1/1", "l/h");
    const UNIT: Unit = Unit::Packets;
}

/// A class of elements that push packets at a rate.
pub(super) trait RatedClass: Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;
    /// What the rate counts.
    const UNIT: Unit;
}

/// Pulls a packet when one is due, and pushes it on.
pub(super) struct Rated<C> {
    class: PhantomData<C>,
    /// The lock is for the handlers; only one thread pulls.
    pace: Lock<Pace>,
    active: AtomicBool,
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
    counts: Counts,
}

/// Statistics for the handler `calls`.
#[derive(Default)]
struct Counts {
    runs: AtomicU64,
    empty_runs: AtomicU64,
    failed_pulls: AtomicU64,
    packets: AtomicU64,
}

impl<C: RatedClass> Element for Rated<C> {
    const CLASS: Class = C::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let pace = Pace::configure(&mut setup.args, C::UNIT);
        let active = setup.args.keyword("ACTIVE", true);
        setup.args.complete()?;
        setup.args.advise((), "packets go on one at a time");
        Ok(Self {
            class: PhantomData,
            pace: Lock::new(pace),
            active: active.into(),
            task: setup.task(),
            timer: setup.timer(),
            upstream: OnceLock::new(),
            counts: Counts::default(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.upstream.set(init.listen(0, &self.task));
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.counts.runs.fetch_add(1, Relaxed);
        if !self.active.load(Relaxed) {
            self.task.rest();
            return false;
        }
        let now = cx.refresh_now();
        let mut pace = self.pace();
        if !pace.is_due(now) {
            self.counts.empty_runs.fetch_add(1, Relaxed);
            self.task.rest();
            if let Some(time) = pace.wait().and_then(|wait| now.checked_add(wait)) {
                self.timer.schedule_at(time);
            }
            return false;
        }
        // Upstream elements may call handlers of this one.
        drop(pace);
        let mut batch = cx.take_batch();
        let n = cx.pull(0, 1, &mut batch);
        if let Some(packet) = batch.first() {
            self.pace().spend(packet);
            self.counts.packets.fetch_add(1, Relaxed);
        }
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        if n == 0 {
            self.counts.failed_pulls.fetch_add(1, Relaxed);
            if let Some(upstream) = self.upstream.get() {
                upstream.rest(&self.task, cx.router());
            }
        }
        n > 0
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.task.schedule();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|e, new| {
            e.pace().adopt(&new.pace());
            e.active.store(new.active.load(Relaxed), Relaxed);
            e.task.schedule();
            Ok(())
        });
        handlers.read("calls", |e, _| e.counts.text());
        handlers.read("rate", |e, _| e.pace().rate_text());
        handlers.write("rate", |e, call| {
            e.pace().write_rate(call)?;
            e.task.schedule();
            Ok(())
        });
        handlers.read("active", |e, _| e.active.load(Relaxed));
        handlers.write("active", |e, call| {
            e.active.store(call.parse()?, Relaxed);
            e.task.schedule();
            Ok(())
        });
        handlers.read("config", |e, _| e.pace().rate_text());
        task_handlers(handlers, |e| &e.task);
    }
}

impl<C> Rated<C> {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock()
    }
}

impl Counts {
    fn text(&self) -> String {
        let [runs, empty, failed, packets] =
            [&self.runs, &self.empty_runs, &self.failed_pulls, &self.packets]
                .map(|count| count.load(Relaxed));
        format!(
            "{runs} calls to run_task()\n{empty} empty runs\n{packets} pushes\n{failed} failed pulls\n\
             {packets} packets\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn a_burst_passes_first_then_the_rate_applies() {
        let mut rig = Rig::new("RatedUnqueue(100, BURST_SIZE 5)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["x"; 100])[0].len(), 5);
        assert_eq!(rig.pass(Timestamp::from_millis(101))[0].len(), 10);
        rig.write("rate", "1000").unwrap();
        assert_eq!(rig.pass(Timestamp::from_millis(10))[0].len(), 10);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn refuses_two_burst_sizes() {
        let element = "RatedUnqueue(100, BURST_SIZE 5, BURST_DURATION 1s)";
        assert!(Rig::new(element, 1, 1).is_err());
    }
}

//! TimedUnqueue - pulls packets at regular intervals and pushes them on
//!
//! # Synopsis
//! `TimedUnqueue(INTERVAL [, BURST])`
//!
//! # Description
//! Pulls up to BURST packets at once, pushes them on, and repeats after INTERVAL. If it finds no packets and the
//! queues upstream report none, it sleeps until a packet arrives, and pulls that one immediately.
//!
//! # Arguments
//! - INTERVAL: time between pulls, in whole milliseconds. Positional, mandatory.
//! - BURST: maximum number of packets at a time. Positional, default 1.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> TimedUnqueue(10ms, 5) -> Discard;
//! ```
//!
//! # See also
//! Burster, Unqueue, RatedUnqueue, TimedSink

use std::marker::PhantomData;
use std::sync::OnceLock;

use millrace_core::args::Seconds;
use millrace_core::element::Listening;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Lock, Refused, Setup, Task, Timer, Timestamp,
    register,
};

use crate::task_handlers::task_handlers;

/// The class; its manual is at the top of the file.
pub struct TimedUnqueue;

register!(Timed<TimedUnqueue>, "timed_unqueue.rs");

impl TimedClass for TimedUnqueue {
    const CLASS: Class = Class::new("TimedUnqueue", "1/1", "l/h");
    const BURST: i32 = 1;
}

/// A class of elements that push packets at intervals.
pub(super) trait TimedClass: Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;
    /// The default of BURST.
    const BURST: i32;
}

/// Pulls packets and pushes them on at regular intervals.
pub(super) struct Timed<C> {
    class: PhantomData<C>,
    interval: Timestamp,
    burst: usize,
    /// When the timer was last due; `None` if the task has slept since.
    due: Lock<Option<Timestamp>>,
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
}

impl<C: TimedClass> Element for Timed<C> {
    const CLASS: Class = C::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let interval: Seconds = setup.args.mandatory("INTERVAL");
        let burst: i32 = setup.args.positional("BURST", C::BURST);
        setup.args.complete()?;
        if burst <= 0 {
            setup.args.error("BURST", "bad BURST");
            return Err(Failed);
        }
        let millis = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX / 2_000_000);
        Ok(Self {
            class: PhantomData,
            interval: Timestamp::from_millis(millis),
            burst: usize::try_from(burst).unwrap_or(1),
            due: Lock::default(),
            task: setup.task(),
            timer: setup.timer(),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.upstream.set(init.listen(0, &self.task));
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.task.rest();
        if self.timer.expiry().is_some() {
            // A packet has arrived, but the interval is not over yet.
            return false;
        }
        let mut left = self.burst;
        let mut batch = cx.take_batch();
        while left > 0 {
            let n = cx.pull(0, left, &mut batch);
            cx.push_batch(0, &mut batch);
            left -= n.min(left);
            if n == 0 {
                break;
            }
        }
        cx.give_batch(batch);
        let mut due = self.due.lock();
        let worked = left < self.burst;
        if !worked && self.upstream.get().is_some_and(|upstream| !upstream.active(cx.router())) {
            *due = None;
            // A packet that arrived in the meantime has scheduled the task.
            return false;
        }
        let begin = due.unwrap_or_else(|| cx.refresh_now());
        let next = begin.checked_add(self.interval).unwrap_or(Timestamp::MAX);
        *due = Some(next);
        self.timer.schedule_at(next);
        worked
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.task.schedule();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        task_handlers(handlers, |unqueue| &unqueue.task);
    }
}

//! TimedUnqueue - pulls packets every so often and pushes them on
//!
//! # Synopsis
//! `TimedUnqueue(INTERVAL [, BURST])`
//!
//! # Description
//! Pulls up to BURST packets at once and pushes them on; after INTERVAL it does so again. When it found nothing
//! and there is nothing upstream, it rests until something comes, and pulls that at once.
//!
//! # Arguments
//! - INTERVAL: time between pulls, in milliseconds' steps. Positional, mandatory.
//! - BURST: most packets at a time. Positional, default 1.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `scheduled`, `home_thread` (read, write): its task, and the thread that runs it.
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

use std::sync::{Mutex, OnceLock, PoisonError};

use millrace_core::args::Seconds;
use millrace_core::element::Listening;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Refused, Setup, Task, Timer, Timestamp,
    register,
};

use crate::standard::supply::task_handlers;

/// The element; its manual is at the top of the file.
pub struct TimedUnqueue {
    interval: Timestamp,
    burst: usize,
    /// When the timer was last to expire; none when it rested since.
    due: Mutex<Option<Timestamp>>,
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
}

register!(TimedUnqueue, "timed_unqueue.rs");

impl Element for TimedUnqueue {
    const CLASS: Class = Class::new("TimedUnqueue", "1/1", "l/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let interval: Seconds = setup.args.mandatory("INTERVAL");
        let burst: i32 = setup.args.positional("BURST", 1);
        if burst <= 0 {
            setup.args.error("BURST", "bad BURST");
        }
        setup.args.complete()?;
        let millis = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX / 2_000_000);
        Ok(Self {
            interval: Timestamp::from_millis(millis),
            burst: usize::try_from(burst).unwrap_or(1),
            due: Mutex::default(),
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
            // Something came, but its time has not come yet.
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
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let worked = left < self.burst;
        if !worked && self.upstream.get().is_some_and(|upstream| !upstream.active(cx.router())) {
            *due = None;
            // What came in the meantime has told the task.
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

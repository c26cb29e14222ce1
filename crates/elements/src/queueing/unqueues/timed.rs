//! Code shared by TimedUnqueue and Burster.

use std::sync::OnceLock;

use millrace_core::args::Seconds;
use millrace_core::element::Listening;
use millrace_core::{Context, Failed, Init, Lock, Setup, Task, Timer, Timestamp};

/// Pulls packets and pushes them on at regular intervals.
pub(super) struct Timed {
    interval: Timestamp,
    burst: usize,
    /// When the timer was last due; `None` if the task has slept since.
    due: Lock<Option<Timestamp>>,
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
}

impl Timed {
    /// Reads INTERVAL and BURST, whose default is `burst`.
    pub(super) fn configure(setup: &mut Setup<'_>, burst: i32) -> Result<Self, Failed> {
        let interval: Seconds = setup.args.mandatory("INTERVAL");
        let burst: i32 = setup.args.positional("BURST", burst);
        setup.args.complete()?;
        if burst <= 0 {
            setup.args.error("BURST", "bad BURST");
            return Err(Failed);
        }
        let millis = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX / 2_000_000);
        Ok(Self {
            interval: Timestamp::from_millis(millis),
            burst: usize::try_from(burst).unwrap_or(1),
            due: Lock::default(),
            task: setup.task(),
            timer: setup.timer(),
            upstream: OnceLock::new(),
        })
    }

    pub(super) fn initialize(&self, init: &Init<'_>) {
        // An element is initialised once.
        let _ = self.upstream.set(init.listen(0, &self.task));
        self.task.schedule();
    }

    /// The task, which the timer schedules.
    pub(super) fn task(&self) -> &Task {
        &self.task
    }

    pub(super) fn run_task(&self, cx: &mut Context) -> bool {
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
}

//! Code shared by RatedUnqueue and BandwidthRatedUnqueue.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{MutexGuard, OnceLock};

use millrace_core::element::Listening;
use millrace_core::{Context, Element, Failed, Handlers, Init, Lock, Setup, Task, Timer};

use super::super::shapers::pace::{Pace, Unit};
use crate::task_handlers::task_handlers;

/// Pulls a packet when one is due, and pushes it on.
pub(super) struct Rated {
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

impl Rated {
    pub(super) fn configure(setup: &mut Setup<'_>, unit: Unit) -> Result<Self, Failed> {
        let pace = Pace::configure(&mut setup.args, unit);
        let active = setup.args.keyword("ACTIVE", true);
        setup.args.complete()?;
        Ok(Self {
            pace: Lock::new(pace),
            active: active.into(),
            task: setup.task(),
            timer: setup.timer(),
            upstream: OnceLock::new(),
            counts: Counts::default(),
        })
    }

    pub(super) fn initialize(&self, init: &Init<'_>) {
        // An element is initialised once.
        let _ = self.upstream.set(init.listen(0, &self.task));
        self.task.schedule();
    }

    pub(super) fn run_task(&self, cx: &mut Context) -> bool {
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

    pub(super) fn run_timer(&self) {
        self.task.schedule();
    }

    /// The handlers `rate config active calls scheduled home_thread`.
    pub(super) fn handlers<E: Element>(
        handlers: &mut Handlers<E>,
        of: fn(&E) -> &Self,
        task: fn(&E) -> &Task,
    ) {
        handlers.read("calls", move |e, _| of(e).counts.text());
        handlers.read("rate", move |e, _| of(e).pace().rate_text());
        handlers.write("rate", move |e, call| {
            of(e).pace().write_rate(call)?;
            of(e).task.schedule();
            Ok(())
        });
        handlers.read("active", move |e, _| of(e).active.load(Relaxed));
        handlers.write("active", move |e, call| {
            of(e).active.store(call.parse()?, Relaxed);
            of(e).task.schedule();
            Ok(())
        });
        handlers.read("config", move |e, _| of(e).pace().rate_text());
        task_handlers(handlers, task);
    }

    pub(super) fn task(&self) -> &Task {
        &self.task
    }

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

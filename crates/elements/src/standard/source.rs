//! Common code of the sources that make packets whenever they are scheduled.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::element::Listening;
use millrace_core::{Args, Batch, Context, Handlers, Init, Notifier, Refused, Setup, Task};

use super::supply::Supply;
use crate::task_handlers::task_handlers;

/// Pushes packets in bursts while there is room downstream, or returns them to a puller.
pub(super) struct Source {
    supply: Supply,
    burst: AtomicU32,
    task: Task,
    /// Tells pullers whether there are packets.
    notifier: Notifier,
    room: OnceLock<Listening>,
}

impl Source {
    /// Reads BURST.
    pub(super) fn burst(args: &mut Args<'_>) -> i32 {
        let burst = args.positional("BURST", 1);
        if burst < 1 {
            args.error("BURST", "burst size must be >= 1");
        }
        burst
    }

    pub(super) fn new(setup: &mut Setup<'_>, supply: Supply, burst: i32) -> Self {
        if burst == 1 {
            setup.advise("sends single packets: BURST is 1");
        }
        Self {
            supply,
            burst: burst.unsigned_abs().into(),
            task: setup.task(),
            notifier: Notifier::default(),
            room: OnceLock::new(),
        }
    }

    pub(super) fn supply(&self) -> &Supply {
        &self.supply
    }

    pub(super) fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    pub(super) fn initialize(&self, init: &Init<'_>) -> Result<(), Refused> {
        self.supply.initialize(init)?;
        if !init.is_pull_output(0) {
            // An element is initialised once.
            let _ = self.room.set(init.listen_for_room(0, &self.task));
        }
        self.wake();
        Ok(())
    }

    pub(super) fn pull(&self, cx: &mut Context, max: usize, batch: &mut Batch) {
        if self.supply.is_active() {
            self.supply.fill(cx, max, batch);
        }
        let has_more = || self.supply.is_active() && !self.supply.is_exhausted();
        if !has_more() {
            self.notifier.sleep_unless(has_more);
        }
        if batch.is_empty() && self.supply.is_exhausted() {
            self.supply.end(cx);
        }
    }

    pub(super) fn run_task(&self, cx: &mut Context) -> bool {
        let Some(room) = self.room.get().filter(|_| self.supply.is_active()) else {
            self.task.rest();
            return false;
        };
        if !room.active(cx.router()) {
            room.rest(&self.task, cx.router());
            return false;
        }
        if self.supply.is_exhausted() {
            self.task.rest();
            self.supply.end(cx);
            return false;
        }
        let mut left = self.burst.load(Relaxed) as usize;
        while left > 0 {
            let mut batch = cx.take_batch();
            let wanted = left.min(Batch::CAPACITY);
            self.supply.fill(cx, wanted, &mut batch);
            left = if self.supply.is_exhausted() { 0 } else { left - wanted };
            cx.push_batch(0, &mut batch);
            cx.give_batch(batch);
        }
        true
    }

    /// The handlers `burst length limit active count reset scheduled home_thread`.
    pub(super) fn handlers<E: 'static>(handlers: &mut Handlers<E>, source: fn(&E) -> &Self) {
        handlers.read("burst", move |e, _| source(e).burst.load(Relaxed));
        handlers.write("burst", move |e, call| {
            match call.parse::<i32>() {
                Ok(burst @ 1..) => source(e).burst.store(burst.unsigned_abs(), Relaxed),
                _ => return Err("burstsize parameter must be integer >= 1".into()),
            }
            Ok(())
        });
        Supply::handlers(handlers, move |e| &source(e).supply, move |e| source(e).wake());
        task_handlers(handlers, move |e| &source(e).task);
    }

    /// Starts sending if the source is active.
    fn wake(&self) {
        if !self.supply.is_active() {
            return;
        }
        match self.room.get() {
            Some(_) => self.task.schedule(),
            None => self.notifier.wake_unlocked(),
        }
    }
}

//! Discard - throws packets away
//!
//! # Synopsis
//! `Discard([ACTIVE, BURST, keyword COUNT])`
//!
//! # Description
//! Drops every packet. On a pull input, while ACTIVE, it pulls up to BURST packets each time it is scheduled.
//! DiscardNoFree is an alias; in Click, that class discards packets without freeing their memory.
//!
//! # Arguments
//! - ACTIVE: whether to pull packets; pushed packets are always dropped. Positional, default true.
//! - BURST: maximum number of packets to pull each time; 0 for a full batch (256). Positional, default 1.
//! - COUNT: accepted without effect: packets are always counted.
//!
//! # Ports
//! One agnostic input.
//!
//! # Handlers
//! - `active` (read, write): the ACTIVE argument.
//! - `burst` (read, write): the BURST argument.
//! - `count` (read): packets dropped since the start or the last reset.
//! - `reset_counts` (write): sets `count` to 0.
//! - `scheduled`, `home_thread` (read, write): whether the task is scheduled, and its home thread.
//!
//! # Drops
//! - discarded: every packet.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Queue -> Discard(BURST 8);
//! ```
//!
//! # See also
//! Idle, Queue

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, Init, PerThread, Reason, Refused,
    Setup, Task, register,
};

use super::click_word;
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct Discard {
    active: AtomicBool,
    burst: AtomicU32,
    count: PerThread<Count>,
    /// The total count at the last reset.
    origin: AtomicU64,
    task: Task,
    upstream: OnceLock<Listening>,
}

register!(Discard, "discard.rs");

impl Element for Discard {
    const CLASS: Class = Class::new("Discard", "1/0", "a/a").aliases(&["DiscardNoFree"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let active = setup.args.positional("ACTIVE", true);
        let burst: u32 = setup.args.positional("BURST", 1);
        setup.args.ignored::<bool>("COUNT", Kind::Keyword, "packets are always counted");
        setup.args.complete()?;
        Ok(Self {
            active: active.into(),
            burst: burst.into(),
            count: PerThread::default(),
            origin: 0.into(),
            task: setup.pull_task(0),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        if init.is_pull_input(0) {
            // An element is initialised once.
            let _ = self.upstream.set(init.listen(0, &self.task));
            if self.active.load(Relaxed) {
                self.task.schedule();
            }
        }
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.count.mine(cx).add(batch.len() as u64);
        cx.drop_batch(batch, Reason::Discarded);
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if !self.active.load(Relaxed) {
            self.task.rest();
            return false;
        }
        let burst = match self.burst.load(Relaxed) {
            0 => Batch::CAPACITY,
            burst => burst as usize,
        };
        let mut batch = cx.take_batch();
        let n = cx.pull(0, burst, &mut batch);
        self.push(cx, &mut (), 0, &mut batch);
        cx.give_batch(batch);
        if n == 0
            && let Some(upstream) = self.upstream.get()
        {
            upstream.rest(&self.task, cx.router());
        }
        n > 0
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("active", |discard, _| discard.active.load(Relaxed));
        handlers.write("active", |discard, call| {
            discard.active.store(click_word(call)?, Relaxed);
            if discard.upstream.get().is_some() {
                discard.task.schedule();
            }
            Ok(())
        });
        handlers.read("burst", |discard, _| discard.burst.load(Relaxed));
        handlers.write("burst", |discard, call| {
            discard.burst.store(click_word(call)?, Relaxed);
            Ok(())
        });
        handlers.read("count", |discard, _| {
            discard.count.total().wrapping_sub(discard.origin.load(Relaxed))
        });
        handlers.write("reset_counts", |discard, _| {
            discard.origin.store(discard.count.total(), Relaxed);
            Ok(())
        });
        task_handlers(handlers, |discard| &discard.task);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn drops_and_counts() {
        let mut rig = Rig::new("Discard", 1, 0).unwrap();
        rig.push(0, &["a", "b"]);
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 2)]);
        assert_eq!(rig.read("count").unwrap(), "2");
        rig.write("reset_counts", "").unwrap();
        assert_eq!(rig.read("count").unwrap(), "0");
    }
}

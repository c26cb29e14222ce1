//! Unqueue - pulls packets and pushes them on (pull-to-push conversion)
//!
//! # Synopsis
//! `Unqueue([BURST, keywords ACTIVE, LIMIT])`
//!
//! # Description
//! Pulls packets, up to BURST each time it is scheduled, and pushes them on. It sleeps while there is nothing to pull.
//!
//! # Arguments
//! - BURST: maximum number of packets at a time. A negative value means a full batch, 256 packets, which is the limit
//!   in any case. 0 pulls nothing, with a warning. Positional, default 1.
//! - ACTIVE: whether the element pulls. Default true.
//! - LIMIT: maximum number of packets in total; no limit when negative. Default -1.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `burst`, `active`, `limit` (read, write): the arguments of the same names.
//! - `count` (read): packets pushed on so far.
//! - `reset`, `reset_counts` (write): sets `count` to 0, so that LIMIT more packets can pass.
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Unqueue(BURST 32) -> Discard;
//! ```
//!
//! # See also
//! Queue, RatedUnqueue, BandwidthRatedUnqueue

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Refused, Setup, Task, register,
};

use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct Unqueue {
    burst: AtomicI64,
    active: AtomicBool,
    limit: AtomicI64,
    count: AtomicU64,
    task: Task,
    upstream: OnceLock<Listening>,
}

register!(Unqueue, "unqueue.rs");

impl Element for Unqueue {
    const CLASS: Class = Class::new("Unqueue", "1/1", "l/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let burst: i32 = setup.args.positional("BURST", 1);
        let active = setup.args.keyword("ACTIVE", true);
        let limit: i32 = setup.args.keyword("LIMIT", -1);
        setup.args.complete()?;
        if burst == 1 {
            setup.args.advise("BURST", "packets go on one at a time: BURST is 1");
        }
        Ok(Self {
            burst: bounded(burst).into(),
            active: active.into(),
            limit: i64::from(limit).into(),
            count: 0.into(),
            task: setup.task(),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.upstream.set(init.listen(0, &self.task));
        if self.burst.load(Relaxed) == 0 {
            init.warn("BURST size 0, no packets will be pulled");
        }
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let burst = usize::try_from(self.burst.load(Relaxed)).unwrap_or_default();
        let left = self.left().min(burst);
        if left == 0 || !self.active.load(Relaxed) {
            self.task.rest();
            return false;
        }
        let mut batch = cx.take_batch();
        let n = cx.pull(0, left.min(Batch::CAPACITY), &mut batch);
        self.count.fetch_add(n as u64, Relaxed);
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        if n == 0
            && let Some(upstream) = self.upstream.get()
        {
            upstream.rest(&self.task, cx.router());
        }
        n > 0
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("burst", |unqueue, _| unqueue.burst.load(Relaxed));
        handlers.write("burst", |unqueue, call| {
            let burst = call.parse().map_err(|_| "syntax error")?;
            unqueue.burst.store(bounded(burst), Relaxed);
            unqueue.task.schedule();
            Ok(())
        });
        handlers.read("active", |unqueue, _| unqueue.active.load(Relaxed));
        handlers.write("active", |unqueue, call| {
            unqueue.active.store(call.parse().map_err(|_| "syntax error")?, Relaxed);
            unqueue.task.schedule();
            Ok(())
        });
        handlers.read("limit", |unqueue, _| unqueue.limit.load(Relaxed));
        handlers.write("limit", |unqueue, call| {
            let limit: i32 = call.parse().map_err(|_| "syntax error")?;
            unqueue.limit.store(limit.into(), Relaxed);
            unqueue.task.schedule();
            Ok(())
        });
        handlers.read("count", |unqueue, _| unqueue.count.load(Relaxed));
        for name in ["reset", "reset_counts"] {
            handlers.write(name, |unqueue, _| {
                unqueue.count.store(0, Relaxed);
                unqueue.task.schedule();
                Ok(())
            });
        }
        task_handlers(handlers, |unqueue| &unqueue.task);
    }
}

/// A burst as it is stored: a negative one becomes a very large one.
fn bounded(burst: i32) -> i64 {
    if burst < 0 { i32::MAX.into() } else { burst.into() }
}

impl Unqueue {
    /// How many packets can still pass.
    fn left(&self) -> usize {
        match u64::try_from(self.limit.load(Relaxed)) {
            Ok(limit) => {
                let left = limit.saturating_sub(self.count.load(Relaxed));
                usize::try_from(left).unwrap_or(usize::MAX)
            }
            Err(_) => usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn forwards_everything_in_order() {
        let mut rig = Rig::new("Unqueue(BURST -1)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0], [b"a", b"b"]);
        assert_eq!(rig.read("count").unwrap(), "2");
    }

    #[test]
    fn stops_at_the_limit_and_resumes_after_a_reset() {
        let mut rig = Rig::new("Unqueue(LIMIT 1)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0].len(), 1);
        rig.write("reset", "").unwrap();
        assert_eq!(rig.push(0, &["c"; 0])[0], [b"b"]);
    }

    #[test]
    fn forwards_nothing_while_inactive() {
        let mut rig = Rig::new("Unqueue(ACTIVE false)", 1, 1).unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        rig.write("active", "true").unwrap();
        assert_eq!(rig.push(0, &["b"])[0].len(), 2);
    }
}

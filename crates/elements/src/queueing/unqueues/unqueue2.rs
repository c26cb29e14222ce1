//! Unqueue2 - pulls packets while queues downstream have room, and pushes them on
//!
//! # Synopsis
//! `Unqueue2([BURST, keyword QUEUES])`
//!
//! # Description
//! Pulls packets and pushes them on: each time it is scheduled up to BURST packets, but no more than fit in each of the
//! nearest queues downstream. It sleeps while there is nothing to pull.
//!
//! # Arguments
//! - BURST: maximum number of packets at a time. 0 or less means a full batch, 256 packets, which is the limit in any
//!   case. Positional, default 1.
//! - QUEUES: the names of the queues that must have room, instead of the nearest ones.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `packets` (read): how many packets have passed.
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Unqueue2(8) -> Queue(10) -> RatedUnqueue(1000) -> Discard;
//! ```
//!
//! # See also
//! Unqueue, Queue

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Refused, Setup, Task, register,
};

use crate::queueing::storage::{Sources, Storages};
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct Unqueue2 {
    burst: usize,
    sources: Sources,
    queues: OnceLock<Storages>,
    count: AtomicU64,
    task: Task,
    upstream: OnceLock<Listening>,
}

register!(Unqueue2, "unqueue2.rs");

impl Element for Unqueue2 {
    const CLASS: Class = Class::new("Unqueue2", "1/1", "l/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let burst: i32 = setup.args.positional("BURST", 1);
        let sources = Sources::configure(&mut setup.args, Kind::Keyword);
        setup.args.complete()?;
        Ok(Self {
            burst: usize::try_from(burst).ok().filter(|&burst| burst > 0).unwrap_or(usize::MAX),
            sources,
            queues: OnceLock::new(),
            count: 0.into(),
            task: setup.task(),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.queues.set(self.sources.find(init)?);
        let _ = self.upstream.set(init.listen(0, &self.task));
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let room = self.queues.get().into_iter().flatten();
        let room = room.map(|(_, queue)| queue.capacity().saturating_sub(queue.size())).min();
        let most = self.burst.min(room.unwrap_or(usize::MAX)).min(Batch::CAPACITY);
        if most == 0 {
            // Not every queue notifies when it has room again.
            return false;
        }
        let mut batch = cx.take_batch();
        let n = cx.pull(0, most, &mut batch);
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
        handlers.read("packets", |unqueue, _| format!("{} packets\n", unqueue.count.load(Relaxed)));
        task_handlers(handlers, |unqueue| &unqueue.task);
    }
}

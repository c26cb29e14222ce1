//! Pipeliner - hands packets over to another thread
//!
//! # Synopsis
//! `Pipeliner([CAPACITY, BURST, BLOCKING, keywords ACTIVE, ALWAYS_UP, DIRECT_TRAVERSAL, NOUSELESS, PREFETCH, VERBOSE])`
//!
//! # Description
//! Packets pushed to it by any thread are pushed on by its own thread: a `Queue -> Unqueue` in one
//! element, without a lock and without a pull path. Each pushing thread has a ring of its own, so
//! packets from one thread stay in order. Packets are not copied.
//!
//! StaticThreadSched sets its thread. By default it is a thread that does not push packets to it, if
//! there is one. Packets that arrive on its own thread pass straight through.
//!
//! # Arguments
//! - CAPACITY: maximum number of packets that wait in each ring, at least 4. Positional, default 1024.
//! - BURST: maximum number of packets taken from each ring at a time; no limit unless positive.
//!   Positional, default 32.
//! - BLOCKING: whether a thread waits while its ring is full; otherwise packets are dropped.
//!   Positional, default false.
//! - ACTIVE: whether packets are taken out of the rings. Default true.
//! - ALWAYS_UP: whether its task stays scheduled while the rings are empty. Default false.
//! - DIRECT_TRAVERSAL: whether packets that arrive on its own thread pass straight through. Default
//!   true.
//! - NOUSELESS: whether to suppress the warning that packets arrive only on its own thread. Default
//!   false.
//! - PREFETCH: whether to prefetch the data of packets into the cache when they are taken from a ring.
//!   Default true.
//! - VERBOSE: whether to report the first packet that finds no room. Default true.
//!
//! # Ports
//! Any number of push inputs, one push output.
//!
//! # Handlers
//! - `count` (read): packets that passed through a ring.
//! - `dropped` (read): packets dropped or, with BLOCKING, the number of times that a thread had to
//!   wait.
//! - `length` (read): packets waiting. `capacity` (read): maximum number of packets in a ring.
//! - `active` (read, write): the value of ACTIVE.
//! - `scheduled` (read, write), `home_thread` (read, write): its task. With BLOCKING, the task stays on
//!   its thread.
//!
//! # Drops
//! - queue full: there was no room.
//! - stopped: the router stopped while a thread waited for room.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100, BURST 32) -> p :: Pipeliner -> Discard;
//! StaticThreadSched(p 1);
//! ```
//!
//! # See also
//! StaticThreadSched, Queue, Unqueue, SoftwareRSS, CPUQueue

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use millrace_core::args::Kind;
use millrace_core::stats::MAX_THREADS;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, Init, Offers, PerThread, Reason,
    Refused, Router, Setup, Task, register,
};

use super::rings::{Inlet, Rings, call, rest};
use crate::capability::HandOver;
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct Pipeliner {
    rings: Rings,
    capacity: usize,
    burst: usize,
    blocking: bool,
    active: AtomicBool,
    always_up: bool,
    direct: bool,
    useless_is_fine: bool,
    prefetch: bool,
    verbose: bool,
    told: AtomicBool,
    count: PerThread<Count>,
    dropped: PerThread<Count>,
    task: Task,
    circles: Arc<Circles>,
}

/// The state of each thread.
#[derive(Default)]
pub struct Local {
    inlet: Inlet,
    /// The ring to take packets from first.
    first: usize,
    /// Number of consecutive visits that found no packets.
    idle: u32,
}

/// Number of fruitless visits after which the task rests.
const PATIENCE: u32 = 64;

register!(Pipeliner, "pipeliner.rs");

impl Element for Pipeliner {
    const CLASS: Class = Class::new("Pipeliner", "1-/1", "h/h").crosses_threads();
    type Local = Local;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let capacity = args.in_range("CAPACITY", Kind::Positional, 4..=1u32 << 24).unwrap_or(1024);
        let burst: i64 = args.positional("BURST", 32);
        let blocking = args.positional("BLOCKING", false);
        let active = args.keyword("ACTIVE", true);
        let always_up = args.keyword("ALWAYS_UP", false);
        let direct = args.keyword("DIRECT_TRAVERSAL", true);
        let useless_is_fine = args.keyword("NOUSELESS", false);
        let prefetch = args.keyword("PREFETCH", true);
        let verbose = args.keyword("VERBOSE", true);
        args.complete()?;
        let task = setup.task_away();
        let circles = setup.shared();
        if blocking {
            task.stay();
        }
        Ok(Self {
            rings: Rings::new(capacity as usize),
            capacity: capacity as usize,
            burst: usize::try_from(burst).ok().filter(|&burst| burst > 0).unwrap_or(usize::MAX),
            blocking,
            active: active.into(),
            always_up,
            direct,
            useless_is_fine,
            prefetch,
            verbose,
            told: false.into(),
            count: PerThread::default(),
            dropped: PerThread::default(),
            task,
            circles,
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let router = init.router();
        let feeders = feeders(router, init.id());
        let home = router.plan().home_of(init.id()).unwrap_or(0);
        if self.blocking {
            if !self.direct && feeders >> home & 1 == 1 {
                return Err(Refused(format!(
                    "thread {home} pushes packets to this element and takes them out: BLOCKING it \
                     would wait for itself (let DIRECT_TRAVERSAL be true)"
                )));
            }
            self.circles.0.get_or_init(|| find_circle(router)).clone()?;
        }
        if feeders == 1 << home && router.plan().threads > 1 && !self.useless_is_fine {
            router.chatter(&format!(
                "{} :: Pipeliner: packets come from thread {home} alone, which also takes them: \
                 StaticThreadSched may name another thread (or NOUSELESS true)",
                init.name()
            ));
        }
        if self.active.load(Relaxed) && self.always_up {
            self.task.schedule();
        }
        Ok(())
    }

    fn push(&self, cx: &mut Context, local: &mut Local, _port: usize, batch: &mut Batch) {
        // Packets must not overtake those that this thread put into its ring before the task moved
        // here.
        if self.direct && cx.thread() == self.task.home() && local.inlet.is_empty() {
            return cx.push_batch(0, batch);
        }
        self.give(cx, local, batch);
        while !batch.is_empty() {
            self.dropped.mine(cx).add(if self.blocking { 1 } else { batch.len() as u64 });
            self.tell(cx);
            if !self.blocking {
                cx.drop_batch(batch, Reason::QueueFull);
            } else {
                self.insist(cx, local, batch);
            }
        }
    }

    fn run_task(&self, cx: &mut Context, local: &mut Local) -> bool {
        if !self.active.load(Relaxed) {
            self.task.rest();
            return false;
        }
        let n = self.pass_on(cx, local);
        local.idle = if n > 0 { 0 } else { local.idle.saturating_add(1) };
        if local.idle >= PATIENCE && !self.always_up {
            local.idle = 0;
            rest(&self.task, &self.rings);
        }
        n > 0
    }

    fn held(&self) -> usize {
        self.rings.held()
    }

    fn drain(&self, cx: &mut Context, local: &mut Local) -> bool {
        self.active.load(Relaxed) && cx.thread() == self.task.home() && self.pass_on(cx, local) > 0
    }

    fn handed_over(&self, local: &Local, _thread: usize, rings: &mut Vec<(u64, u64)>) {
        rings.push(local.inlet.handed_over());
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn HandOver>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |pipeliner, _| pipeliner.count.total());
        handlers.read("dropped", |pipeliner, _| pipeliner.dropped.total());
        handlers.read("length", |pipeliner, _| pipeliner.rings.len());
        handlers.read("capacity", |pipeliner, _| pipeliner.capacity);
        handlers.read("active", |pipeliner, _| pipeliner.active.load(Relaxed));
        handlers.write("active", |pipeliner, call| {
            pipeliner.active.store(call.parse()?, Relaxed);
            pipeliner.task.schedule();
            Ok(())
        });
        task_handlers(handlers, |pipeliner| &pipeliner.task);
    }
}

impl HandOver for Pipeliner {
    fn waits(&self) -> bool {
        self.blocking
    }
}

impl Pipeliner {
    /// Puts as many packets as fit into the thread's ring.
    fn give(&self, cx: &mut Context, local: &mut Local, batch: &mut Batch) {
        let given = self.rings.give(cx, &mut local.inlet, batch);
        self.count.mine(cx).add(given as u64);
        if given == 0 || !self.active.load(Relaxed) {
            return;
        }
        match self.always_up {
            // The task is already scheduled, but its thread may be asleep.
            true => self.task.wake(),
            false => call(&self.task),
        }
    }

    /// Sends a burst from each ring on. Returns how many packets.
    #[inline]
    fn pass_on(&self, cx: &mut Context, local: &mut Local) -> usize {
        let mut batch = cx.take_batch();
        let n = self.rings.take(&mut local.first, self.burst, &mut batch);
        if self.prefetch {
            batch.prefetch_data();
        }
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        n
    }

    /// Waits until the rest of the batch is in the ring.
    #[cold]
    fn insist(&self, cx: &mut Context, local: &mut Local, batch: &mut Batch) {
        const SPINS: u32 = 1000;
        let mut tries = 0;
        while !batch.is_empty() {
            if cx.gives_up() {
                return cx.drop_batch(batch, Reason::Stopped);
            }
            // The other thread may need this one's core.
            tries += 1;
            if tries < SPINS {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
            self.give(cx, local, batch);
        }
    }

    fn tell(&self, cx: &Context) {
        if self.verbose && !self.told.swap(true, Relaxed) {
            let router = cx.router();
            router.chatter(&format!("{} :: Pipeliner: congestion", router.name_of(cx.element())));
        }
    }
}

/// The threads that push to element `id`, one bit each.
fn feeders(router: &Router, id: usize) -> u64 {
    router
        .upstream_of(id)
        .fold(0, |all, from| all | router.plan().reach.get(from).copied().unwrap_or(0))
}

/// What was found about circles of threads; the Pipeliners of a router search once.
#[derive(Default)]
struct Circles(OnceLock<Result<(), Refused>>);

/// Rejects cycles of threads that could wait for each other forever.
fn find_circle(router: &Router) -> Result<(), Refused> {
    // For each thread, the threads that it may wait for.
    let mut waits = [0u64; MAX_THREADS];
    for id in 0..router.len() {
        if router.offered::<dyn HandOver>(id).is_some_and(|other| other.waits()) {
            let (feeders, home) = (feeders(router, id), router.plan().home_of(id).unwrap_or(0));
            for (thread, waits) in waits.iter_mut().enumerate() {
                if thread != home && feeders >> thread & 1 == 1 {
                    *waits |= 1 << home;
                }
            }
        }
    }
    for via in 0..MAX_THREADS {
        let further = waits[via];
        for waits in waits.iter_mut().filter(|waits| **waits >> via & 1 == 1) {
            *waits |= further;
        }
    }
    match (0..MAX_THREADS).find(|&thread| waits[thread] >> thread & 1 == 1) {
        Some(thread) => Err(Refused(format!(
            "BLOCKING Pipeliners lead in a circle of threads: thread {thread} would wait for others that \
             wait for it"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn on_one_thread_packets_pass_through() {
        let mut rig = Rig::new("Pipeliner", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0], [b"a", b"b"]);
        assert_eq!(
            (rig.read("count").unwrap(), rig.read("length").unwrap()),
            ("0".into(), "0".into())
        );
        assert!(rig.stats().balanced());
    }

    #[test]
    fn without_direct_traversal_packets_pass_through_the_ring() {
        let mut rig = Rig::new("Pipeliner(4, 2, DIRECT_TRAVERSAL false)", 2, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b", "c"])[0], [b"a", b"b", b"c"]);
        assert_eq!(rig.push(1, &["d", "e", "f", "g", "h", "i"])[0], [b"d", b"e", b"f", b"g"]);
        assert_eq!(
            (rig.read("count").unwrap(), rig.read("dropped").unwrap()),
            ("7".into(), "2".into())
        );
        assert!(rig.stats().balanced());
    }

    #[test]
    fn packets_wait_while_it_is_not_active() {
        let mut rig = Rig::new("Pipeliner(ACTIVE false, DIRECT_TRAVERSAL false)", 1, 1).unwrap();
        assert!(rig.push(0, &["a", "b"])[0].is_empty());
        assert_eq!((rig.read("length").unwrap(), rig.stats().held), ("2".into(), 2));
        rig.write("active", "true").unwrap();
        assert_eq!(rig.push(0, &["c"])[0], [b"a", b"b", b"c"]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in ["Pipeliner(3)", "Pipeliner(8, 32, true, DIRECT_TRAVERSAL false)"] {
            assert!(Rig::new(bad, 1, 1).is_err(), "{bad}");
        }
    }
}

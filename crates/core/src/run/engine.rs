//! The threads' loop: tasks, timers, and sleep when there is no work.

use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::thread::CpuSet;

use millrace_lang::Diagnostic;

use super::drain::{Drained, drain};
use super::elements::Elements;
use super::worker::Worker;
use crate::memory::{Arena, PlainCounts};
use crate::phase::Phase;
use crate::router::Router;
use crate::schedule::Task;
use crate::time::Timestamp;

/// A router with everything that its threads need, ready to run.
pub struct Engine {
    pub(super) router: Arc<Router>,
    pub(super) elements: Arc<Elements>,
    pub(super) workers: Vec<Worker>,
    pub(super) findings: Vec<Diagnostic>,
    pub(super) stop_when_idle: bool,
}

/// Makes the engine that takes the place of another one, whose threads have ended, and a thread that cleans that one
/// up.
pub(super) struct Successor(pub(super) Box<dyn FnOnce(&Engine) -> Succession + Send>);

type Succession = (Engine, Option<JoinHandle<()>>);

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What elements could not flush or restore, each with the element's name.
    pub complaints: Vec<String>,
}

impl Engine {
    /// The router, to control it while the engine runs.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// The elements' warnings from their initialisation, for the program to print.
    pub fn findings(&self) -> &[Diagnostic] {
        &self.findings
    }

    /// Ends a run on virtual time when no remaining task or timer would do any work.
    pub fn stop_when_idle(&mut self) {
        self.stop_when_idle = true;
    }

    /// Runs the router on its threads, starting with the caller's, until it is stopped. Then makes elements
    /// [finish](crate::Element::drain) their packets in flight, unless it is to end at once, and cleans up
    /// every element.
    ///
    /// If another router [takes its place](Router::replace), that one continues to run, on its own threads.
    pub fn run(mut self) -> Outcome {
        let mut replaced = Vec::new();
        loop {
            if self.router.clock().is_virtual() {
                self.run_virtual();
                drain(&mut self.workers, &self.router, &Drained::new(1));
            } else {
                self.run_real();
            }
            for worker in &mut self.workers {
                worker.drop_waiting();
            }
            let Some(successor) = self.router.take_successor::<Successor>() else {
                let complaints = self.elements.cleanup(&self.router);
                // A thread that cleans a replaced router up has no way to fail that matters here.
                replaced.into_iter().for_each(|thread: JoinHandle<()>| drop(thread.join()));
                return Outcome { complaints };
            };
            let stop_when_idle = self.stop_when_idle;
            let (engine, cleaner) = (successor.0)(&self);
            self = engine;
            replaced.retain(|thread| !thread.is_finished());
            replaced.extend(cleaner);
            self.stop_when_idle = stop_when_idle;
        }
    }

    /// On virtual time, runs tasks and timers that are due until none does any more work. Tasks that stay
    /// scheduled and do nothing run a few more times, because queues allow their pullers some pulls in vain.
    pub fn settle(&mut self) {
        self.settle_until(None);
    }

    /// As [`settle`](Self::settle). With an `end`, time moves on, until the end, when packets have come without a
    /// pause for many rounds: a source without end would keep it where it is for ever.
    fn settle_until(&mut self, end: Option<Timestamp>) {
        const PATIENCE: u32 = 16;
        let (mut in_vain, mut flood) = (0, Flood::default());
        while self.router.is_running() && in_vain < PATIENCE {
            in_vain = match self.round() {
                true => 0,
                false if self.polls() => in_vain + 1,
                false => return,
            };
            if let Some(end) = end.filter(|_| flood.is_seen(&self.router)) {
                let now = self.router.clock().now();
                if now >= end {
                    return;
                }
                let next = self.next_timer().unwrap_or(Timestamp::MAX);
                self.router.clock().advance(next.max(now).min(now + Flood::TIME).min(end));
            }
        }
    }

    /// Whether a task is scheduled.
    fn polls(&self) -> bool {
        self.workers.iter().any(|worker| worker.tasks().iter().any(Task::is_scheduled))
    }

    /// On virtual time, runs all events up to and including `end`.
    pub fn run_until(&mut self, end: Timestamp) {
        self.settle_until(Some(end));
        while self.router.is_running()
            && let Some(next) = self.next_timer().filter(|&next| next <= end)
        {
            self.router.clock().advance(next);
            self.settle_until(Some(end));
        }
        self.router.clock().advance(end);
    }

    fn run_real(&mut self) {
        let router = &self.router;
        let drained = &Drained::new(self.workers.len());
        let Some((first, others)) = self.workers.split_first_mut() else { return };
        std::thread::scope(|scope| {
            for worker in others {
                let name = format!("millrace-{}", worker.cx.thread());
                let spawned = std::thread::Builder::new().name(name).spawn_scoped(scope, || {
                    run_thread(worker, router, drained);
                });
                if spawned.is_err() {
                    router.complain("the system gives no more threads".to_owned());
                    router.enter(Phase::Halted);
                }
            }
            run_thread(first, router, drained);
        });
    }

    /// Runs all threads' work in turn on this thread, and advances virtual time when there is none.
    fn run_virtual(&mut self) {
        while self.router.is_running() {
            let heard = self.workers.first().map_or(0, Worker::calls);
            self.settle_until(Some(Timestamp::MAX));
            // Time does not pass for who has stopped: another engine may go on.
            if !self.router.is_running() {
                return;
            }
            match (self.next_timer(), self.workers.first_mut()) {
                (Some(next), _) => self.router.clock().advance(next),
                // Nothing will happen unless something outside asks for it.
                (None, Some(first)) if !self.stop_when_idle => {
                    first.sleep(Timestamp::MAX, true, heard);
                }
                _ => self.router.enter(Phase::Draining),
            }
        }
    }

    /// Runs each thread's tasks and timers once. Returns whether there was or is any work: a request to stop
    /// is handled before time advances.
    fn round(&mut self) -> bool {
        let mut worked = false;
        for worker in &mut self.workers {
            heed_stop(worker, &self.router);
            worked |= worker.run_tasks();
            worked |= worker.run_timers();
            worker.cx.leave_round();
        }
        worked || self.router.is_asked_to_stop()
    }

    fn next_timer(&mut self) -> Option<Timestamp> {
        self.workers.iter_mut().filter_map(Worker::next_timer).min()
    }
}

/// Tells a source without end from much work. Tasks that wait for a device, in real time, make rounds too.
#[derive(Default)]
struct Flood {
    rounds: u32,
    created: u64,
    /// How many stretches in a row had a packet or more in each round.
    stretches: u32,
}

impl Flood {
    /// The rounds of a stretch, and the virtual time that it takes while there is a flood.
    const ROUNDS: u32 = 4096;
    const TIME: Timestamp = Timestamp::from_millis(10);
    /// So many stretches in a row are a flood.
    const MANY: u32 = 16;

    /// Counts a round. Returns whether a stretch of a flood ends with it.
    fn is_seen(&mut self, router: &Router) -> bool {
        self.rounds += 1;
        if self.rounds < Self::ROUNDS {
            return false;
        }
        let created = router.packets_created();
        let came = created.wrapping_sub(std::mem::replace(&mut self.created, created));
        let is_full = came >= u64::from(std::mem::take(&mut self.rounds));
        self.stretches = if is_full { self.stretches.saturating_add(1) } else { 0 };
        self.stretches > Self::MANY
    }
}

/// Rounds without work after which a thread stops spinning.
const SPIN_ROUNDS: u32 = 256;

fn run_thread(worker: &mut Worker, router: &Router, drained: &Drained) {
    let _end = EndAll(router);
    sit_down(worker, router);
    let counts =
        router.plan().counts_plainly(worker.cx.thread()).then(PlainCounts::begin).flatten();
    let mut idle_rounds = 0u32;
    // How often a device has ended a sleep since there was work.
    let mut in_vain = 0u32;
    while router.is_running() {
        let heard = worker.calls();
        heed_stop(worker, router);
        if let Some(counts) = &counts {
            counts.settle();
        }
        let worked = worker.run_tasks() | worker.run_timers();
        if worked {
            (idle_rounds, in_vain) = (0, 0);
            continue;
        }
        idle_rounds = idle_rounds.saturating_add(1);
        if idle_rounds < SPIN_ROUNDS {
            std::hint::spin_loop();
        } else {
            let rung = worker.rest(idle_rounds - SPIN_ROUNDS, in_vain, heard);
            in_vain = in_vain.saturating_add(rung.into());
        }
    }
    drain(std::slice::from_mut(worker), router, drained);
    worker.cx.leave_round();
}

/// When one thread ends with a panic, all threads end, because waiting for it would never end.
struct EndAll<'a>(&'a Router);

impl Drop for EndAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.enter(Phase::Halted);
        }
    }
}

/// Lets the driving element keep the router running when asked to stop; without one, the router stops.
fn heed_stop(worker: &mut Worker, router: &Router) {
    if worker.cx.thread() != 0 {
        return;
    }
    if router.signals().have_come() {
        router.heed_signals();
    }
    while router.take_stop_request() {
        let goes_on = router.driver().is_some_and(|driver| worker.stop_requested(driver));
        if !goes_on {
            return router.enter(Phase::Draining);
        }
    }
}

/// Moves the thread to its seat: its cores, and the node of its packets and of its state.
fn sit_down(worker: &mut Worker, router: &Router) {
    let plan = router.plan();
    let Some(seat) = plan.seats.get(worker.cx.thread()) else { return };
    if !seat.cores.is_empty() {
        let mut set = CpuSet::new();
        let known = seat.cores.iter().filter(|&&core| core < CpuSet::MAX_CPU);
        known.for_each(|&core| set.set(core));
        if rustix::thread::sched_setaffinity(None, &set).is_err() {
            let cores = &seat.cores;
            router.complain(format!(
                "thread {} cannot be pinned to cores {cores:?}",
                worker.cx.thread()
            ));
        }
    }
    if plan.nodes > 1 {
        Arena::use_node(seat.node);
        // What was made before was made on the node of whoever made it.
        worker.renew_nodes();
    }
}

impl Worker {
    /// Sleeps as long as nothing can happen. Sleeps only briefly when a scheduled task cannot know when it
    /// will have work, longer each time it had none. A device that often ended sleeps `in_vain`, because it
    /// is down or there is no memory to receive into, cannot know either. Returns whether a device ended the
    /// sleep.
    fn rest(&mut self, times: u32, in_vain: u32, heard: u64) -> bool {
        const PATIENCE: u32 = 32;
        const SHORTEST_NAP: i64 = 10_000;
        const LONG_NAP: i64 = 1_000_000;
        // After a tenth of a second without work: naps of a millisecond for ever would take some
        // percent of the processor.
        const LONGEST_NAP: i64 = 3_000_000;
        const MANY_NAPS: u32 = 100;
        // What is down is not up again in a hurry.
        const NAP_IN_VAIN: i64 = 10_000_000;
        let mut until = self.next_timer().unwrap_or(Timestamp::MAX);
        let polls = self.has_leaving()
            || self.tasks().iter().any(|task| task.is_scheduled() && task.readiness().is_empty());
        let listens = in_vain < PATIENCE;
        if polls || !listens {
            let nap = match times {
                0..MANY_NAPS => (SHORTEST_NAP << times.min(7)).min(LONG_NAP),
                MANY_NAPS.. if polls => LONGEST_NAP,
                MANY_NAPS.. => NAP_IN_VAIN,
            };
            until = until.min(Timestamp::from_nanos(self.cx.now().as_nanos().saturating_add(nap)));
        }
        self.share_cycles_out();
        self.cx.leave_round();
        self.sleep(until, listens, heard)
    }

    /// How often this thread has been woken.
    fn calls(&self) -> u64 {
        self.waker().calls()
    }

    /// Sleeps until `until`, until a device is readable if it `listens`, or until this thread has been woken
    /// more than `heard` times. Returns whether a device ended the sleep.
    fn sleep(&mut self, until: Timestamp, listens: bool, heard: u64) -> bool {
        let scheduled = self.tasks().iter().filter(|task| listens && task.is_scheduled());
        let readable: Vec<_> = scheduled.flat_map(|task| task.readiness().clone()).collect();
        let nanos = until.as_nanos().saturating_sub(self.cx.refresh_now().as_nanos());
        let rung = self.waker().clone().sleep(&readable, nanos, heard);
        if rung {
            self.cx.woken_by_device();
        }
        rung
    }
}

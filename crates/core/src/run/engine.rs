//! The threads' loop: tasks, timers, and sleep when there is no work.

use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::thread::CpuSet;

use millrace_lang::Diagnostic;

use super::drain::drain;
use super::drained::Drained;
use super::elements::Elements;
use super::worker::Worker;
use crate::clock::Pace;
use crate::memory::{Arena, PlainCounts};
use crate::phase::Phase;
use crate::router::Router;
use crate::schedule::Task;
use crate::time::Timestamp;

/// The stack of a thread, which a pull through many elements needs; as large as that of the main thread as a rule.
const STACK: usize = 8 << 20;

/// A router with everything that its threads need, ready to run.
pub struct Engine {
    pub(super) router: Arc<Router>,
    pub(super) elements: Arc<Elements>,
    pub(super) workers: Vec<Worker>,
    pub(super) findings: Vec<Diagnostic>,
    pub(super) stop_when_idle: bool,
    /// Whether the elements have been cleaned up.
    pub(super) is_clean: bool,
}

/// Makes the engine that takes the place of another one, whose threads have ended, and what is left to do with that
/// one, on a thread of its own.
pub(super) struct Successor(pub(super) Box<dyn FnOnce(&Engine) -> Succession + Send>);

type Succession = (Engine, Box<dyn FnOnce(Engine) + Send>);

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
            let Some(cleaner) = self.give_way() else {
                let complaints = self.clean_up();
                // A thread that cleans a replaced router up has no way to fail that matters here.
                replaced.into_iter().for_each(|thread: JoinHandle<()>| drop(thread.join()));
                return Outcome { complaints };
            };
            replaced.retain(|thread| !thread.is_finished());
            replaced.extend(cleaner);
        }
    }

    /// Becomes the engine that is to replace this one ([`Router::replace`]), if there is one; for a caller that drives
    /// an engine on virtual time by itself. Returns whether there was one.
    pub fn succeed(&mut self) -> bool {
        let Some(cleaner) = self.give_way() else { return false };
        // As in `run`.
        cleaner.into_iter().for_each(|thread| drop(thread.join()));
        true
    }

    /// Becomes the engine that is to replace this one, if there is one, and returns the thread, if it could be started,
    /// that cleans up behind this one. Packets on their way are dropped either way.
    fn give_way(&mut self) -> Option<Option<JoinHandle<()>>> {
        for worker in &mut self.workers {
            worker.drop_waiting();
        }
        let successor = self.router.take_successor::<Successor>()?;
        let stop_when_idle = self.stop_when_idle;
        let (engine, clean_up) = (successor.0)(self);
        // What the old threads had is freed beside the new ones, too.
        let old = std::mem::replace(self, engine);
        self.stop_when_idle = stop_when_idle;
        let closing = std::thread::Builder::new().name("millrace-close".to_owned());
        // Without a thread, the old engine is dropped here.
        Some(closing.spawn(move || clean_up(old)).ok())
    }

    /// Cleans up the elements. Returns what they could not flush or restore.
    pub(super) fn clean_up(&mut self) -> Vec<String> {
        self.is_clean = true;
        self.elements.cleanup(&self.router)
    }

    /// On virtual time, runs tasks and timers that are due until none does any more work. Tasks that stay
    /// scheduled and do nothing run a few more times, because queues allow their pullers some pulls in vain.
    pub fn settle(&mut self) {
        self.settle_until(None);
    }

    /// As [`settle`](Self::settle). With an `end`, time moves on, until the end, when packets have come or moved, or
    /// timers have run, without a pause for many rounds: a source without end, packets in a circle or a script that
    /// waits for no time would keep it where it is for ever.
    fn settle_until(&mut self, end: Option<Timestamp>) {
        let (mut in_vain, mut flood) = (0, Flood::default());
        while self.router.is_running() && in_vain < PATIENCE {
            in_vain = match self.round() {
                true => 0,
                false if self.polls() => in_vain + 1,
                false => return,
            };
            if let Some(end) = end.filter(|_| flood.is_seen(&self.router, &self.workers)) {
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

    /// On virtual time, runs events up to and including `end`, but no more than so many rounds of all tasks and timers.
    /// Returns whether there was no more to do: then it is `end`.
    pub fn run_rounds(&mut self, end: Timestamp, rounds: u32) -> bool {
        let mut in_vain = 0;
        for _ in 0..rounds {
            if !self.router.is_running() {
                return true;
            }
            in_vain = if self.round() { 0 } else { in_vain + 1 };
            if in_vain == 0 || self.polls() && in_vain < PATIENCE {
                continue;
            }
            let Some(next) = self.next_timer().filter(|&next| next <= end) else {
                self.router.clock().advance(end);
                return true;
            };
            self.router.clock().advance(next);
            in_vain = 0;
        }
        false
    }

    fn run_real(&mut self) {
        let router = &self.router;
        let now = router.clock().now();
        router.draft().timers.iter().for_each(|timer| timer.begin(now));
        let drained = &Drained::new(self.workers.len());
        let Some((first, others)) = self.workers.split_first_mut() else { return };
        std::thread::scope(|scope| {
            for worker in others {
                let name = format!("millrace-{}", worker.cx.thread());
                let thread = std::thread::Builder::new().name(name).stack_size(STACK);
                let spawned = thread.spawn_scoped(scope, || run_thread(worker, router, drained));
                if spawned.is_err() {
                    router.complain("the system refuses to start another thread".to_owned());
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

/// Elements that were initialised are cleaned up, even if they never ran.
impl Drop for Engine {
    fn drop(&mut self) {
        if !self.is_clean {
            let complaints = self.clean_up();
            complaints.iter().for_each(|complaint| self.router.chatter(complaint));
        }
    }
}

/// Tells what never ends from much work. Tasks that wait for a device, in real time, make rounds, too, but in these
/// nothing moves.
#[derive(Default)]
struct Flood {
    rounds: u32,
    created: u64,
    moved: u64,
    /// How many stretches in a row had a packet or more made in each round.
    full: u32,
    /// How many stretches in a row had a packet moved or a timer run in each round.
    busy: u32,
}

impl Flood {
    /// The rounds of a stretch, and the virtual time that it takes while there is a flood.
    const ROUNDS: u32 = 4096;
    const TIME: Timestamp = Timestamp::from_millis(10);
    /// So many full stretches in a row are a flood, and so many busy ones.
    const MANY_FULL: u32 = 16;
    const MANY_BUSY: u32 = 64;

    /// Counts a round. Returns whether a stretch of a flood ends with it.
    fn is_seen(&mut self, router: &Router, workers: &[Worker]) -> bool {
        self.rounds += 1;
        if self.rounds < Self::ROUNDS {
            return false;
        }
        self.rounds = 0;
        let (created, received) = router.packets_moved();
        let moved = received + workers.iter().map(Worker::timers_run).sum::<u64>();
        let is_one_each = |now: u64, before: &mut u64| {
            now.wrapping_sub(std::mem::replace(before, now)) >= u64::from(Self::ROUNDS)
        };
        let more =
            |is_so: bool, stretches: u32| if is_so { stretches.saturating_add(1) } else { 0 };
        self.full = more(is_one_each(created, &mut self.created), self.full);
        self.busy = more(is_one_each(moved, &mut self.moved), self.busy);
        self.full > Self::MANY_FULL || self.busy > Self::MANY_BUSY
    }
}

/// Rounds without work, on virtual time, after which tasks that stay scheduled are taken to have none.
const PATIENCE: u32 = 16;

/// Rounds without work after which a thread stops spinning.
const SPIN_ROUNDS: u32 = 256;

fn run_thread(worker: &mut Worker, router: &Router, drained: &Drained) {
    let _end = EndAll(router);
    sit_down(worker, router);
    router.resumes();
    let counts =
        router.plan().counts_plainly(worker.cx.thread()).then(PlainCounts::begin).flatten();
    let mut idle_rounds = 0u32;
    // How often a device has ended a sleep since there was work.
    let mut in_vain = 0u32;
    // Who asks the thread to stop wakes it.
    while let Some(heard) = worker.calls_while(|| router.is_running()) {
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
        if until != Timestamp::MAX
            && !polls
            && self.cx.router().clock().pace() == Some(Pace::NoWait)
        {
            self.cx.router().clock().advance(until);
        }
        self.sleep(until, listens, heard)
    }

    /// How often this thread has been woken.
    fn calls(&self) -> u64 {
        self.waker().calls()
    }

    /// The same, as long as `goes_on`, which is asked afterwards: what ends it must not be missed either.
    fn calls_while(&self, goes_on: impl FnOnce() -> bool) -> Option<u64> {
        self.waker().calls_while(goes_on)
    }

    /// Sleeps until `until`, until a device is readable if it `listens`, or until this thread has been woken
    /// more than `heard` times. Returns whether a device ended the sleep.
    fn sleep(&mut self, until: Timestamp, listens: bool, heard: u64) -> bool {
        let scheduled = self.tasks().iter().filter(|task| listens && task.is_scheduled());
        let readable: Vec<_> = scheduled.flat_map(|task| task.readiness().clone()).collect();
        let nanos = until.as_nanos().saturating_sub(self.cx.refresh_now().as_nanos());
        let nanos = self.cx.router().clock().machine_nanos(nanos);
        let rung = self.waker().clone().sleep(&readable, nanos, heard);
        if rung {
            self.cx.woken_by_device();
        }
        rung
    }
}

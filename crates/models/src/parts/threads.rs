//! Threads as the engine runs them: rounds, and sleep when there is nothing to do.

use std::sync::Arc;

use super::phase::{Phase, Phases};
use super::roster::Roster;
use crate::schedule::{Task, TimerQueue, Waker};

/// What the threads of a model share.
pub(super) struct Router {
    pub(super) wakers: Arc<[Arc<Waker>]>,
    phases: Phases,
}

impl Router {
    /// For so many threads.
    pub(super) fn new(threads: usize) -> Arc<Self> {
        let wakers = (0..threads).map(|_| Arc::new(Waker::new())).collect();
        Arc::new(Self { wakers, phases: Phases::default() })
    }

    pub(super) fn is_running(&self) -> bool {
        self.phases.latest() < Phase::Draining
    }

    /// As `Router::enter` of the engine.
    pub(super) fn stop(&self) {
        if self.phases.enter(Phase::Draining) {
            self.wakers.iter().for_each(|waker| waker.wake());
        }
    }

    /// A task of a thread.
    pub(super) fn task(&self, home: usize) -> Task {
        let task = Task::new(0, 0);
        task.settle(home, self.wakers.clone());
        task
    }
}

/// A thread of the engine, reduced: no elements, no devices, and it sleeps after its first round in vain.
pub(super) struct Thread {
    pub(super) router: Arc<Router>,
    pub(super) number: usize,
    pub(super) roster: Roster,
    pub(super) timers: TimerQueue,
}

impl Thread {
    pub(super) fn new(router: &Arc<Router>, number: usize, tasks: Vec<Task>) -> Self {
        let timers = TimerQueue::default();
        Self { router: router.clone(), number, roster: Roster::new(tasks), timers }
    }

    /// As `run_thread` of the engine. `run` runs a task and returns whether there was work, `ring` a timer.
    pub(super) fn run(&mut self, mut run: impl FnMut(&Task) -> bool, mut ring: impl FnMut()) {
        let Some(waker) = self.router.wakers.get(self.number).cloned() else { return };
        while let Some(heard) = waker.calls_while(|| self.router.is_running()) {
            let mut worked = false;
            if self.roster.changes(&waker) {
                worked |= self.roster.change(&waker, Vec::new);
            }
            for task in self.roster.tasks() {
                if task.is_scheduled() {
                    task.begin();
                    worked |= run(task);
                }
            }
            while self.timers.pop(NOW).is_some() {
                worked = true;
                ring();
            }
            // A task that stays scheduled polls: its thread only naps.
            let polls = self.roster.has_leaving()
                || self.roster.tasks().iter().any(crate::Task::is_scheduled);
            match worked || polls {
                true => loom::thread::yield_now(),
                false => drop(waker.sleep(&[], 1, heard)),
            }
        }
    }
}

/// The time: it does not pass.
pub(super) const NOW: crate::Timestamp = crate::Timestamp::from_nanos(1);

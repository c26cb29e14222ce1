//! Tasks: work that elements do without an incoming packet.

use std::sync::{Arc, OnceLock};

use rustix::fd::OwnedFd;

use super::waker::Waker;
use crate::Lock;
use crate::stats::Count;
use crate::sync::MutexGuard;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};

/// A task of an element. While it is scheduled, its home thread calls [`run_task`](crate::Element::run_task)
/// round after round. Clones refer to the same task.
#[derive(Clone, Debug)]
pub struct Task(Arc<TaskCell>);

/// On its own cache lines, because its thread writes to it in every round.
#[derive(Debug)]
#[repr(align(128))]
struct TaskCell {
    element: usize,
    index: usize,
    /// Whether it is scheduled ([`SCHEDULED`]), and how often it has been.
    schedule: AtomicU32,
    /// The value of `schedule` when the current run began; written by the thread that runs the task.
    begun: AtomicU32,
    home: AtomicUsize,
    stays: AtomicBool,
    /// The wakers of all threads.
    wakers: OnceLock<Arc<[Arc<Waker>]>>,
    readiness: Lock<Vec<Arc<OwnedFd>>>,
    /// Time stamp counter cycles of its runs, including all work that they trigger.
    cycles: Count,
}

/// The bit for a scheduled task; the others count.
const SCHEDULED: u32 = 1;

impl Task {
    pub(crate) fn new(element: usize, index: usize) -> Self {
        Self(Arc::new(TaskCell {
            element,
            index,
            schedule: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            home: AtomicUsize::new(0),
            stays: AtomicBool::new(false),
            wakers: OnceLock::new(),
            readiness: Lock::default(),
            cycles: Count::default(),
        }))
    }

    /// Schedules the task, from any thread.
    pub fn schedule(&self) {
        let again = |word: u32| Some((word | SCHEDULED).wrapping_add(SCHEDULED << 1));
        let before = self.0.schedule.fetch_update(Ordering::SeqCst, Ordering::SeqCst, again);
        if before.is_ok_and(|word| word & SCHEDULED == 0)
            && let Some(waker) = self.waker_of(self.home())
        {
            waker.wake();
        }
    }

    /// Unschedules the task, from any thread.
    pub fn unschedule(&self) {
        self.0.schedule.fetch_and(!SCHEDULED, Ordering::SeqCst);
    }

    /// Unschedules the running task, unless it was scheduled again since this run began. So if another thread
    /// gives it work and then schedules it, the task runs again, even if this run did not see the work any
    /// more.
    pub fn rest(&self) {
        let begun = self.0.begun.load(Ordering::Relaxed);
        // It fails when the task has been scheduled, or taken off by another thread: the changes of one word are in one
        // order, whatever else is not.
        let _ = self.0.schedule.compare_exchange(
            begun | SCHEDULED,
            begun & !SCHEDULED,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Whether the task is scheduled.
    #[inline]
    pub fn is_scheduled(&self) -> bool {
        // What was done before it was scheduled is seen from `begin` on.
        self.0.schedule.load(Ordering::Relaxed) & SCHEDULED != 0
    }

    /// Wakes the task's thread. Call it after giving work to a task that stays scheduled and polls, and so
    /// allows its thread to nap.
    pub fn wake(&self) {
        if let Some(waker) = self.waker_of(self.home()) {
            waker.wake();
        }
    }

    /// Lets an idle thread sleep until one of `fds` is readable. Without any, a scheduled task that finds no
    /// work keeps its thread from sleeping long.
    pub fn wait_readable(&self, fds: impl IntoIterator<Item = OwnedFd>) {
        *self.readiness() = fds.into_iter().map(Arc::new).collect();
    }

    /// The thread that runs the task.
    pub fn home(&self) -> usize {
        self.0.home.load(Ordering::SeqCst)
    }

    pub(crate) fn element(&self) -> usize {
        self.0.element
    }

    /// The position of the task among its element's tasks: 0 for the first one made.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Time stamp counter cycles of the task's runs so far, including all work that they trigger.
    pub fn cycles(&self) -> u64 {
        self.0.cycles.get()
    }

    /// Moves the task to another thread. The move takes place when its current thread comes around; the task
    /// is never on two threads at once.
    pub(crate) fn send_to(&self, thread: usize) {
        if let Some(waker) = self.waker_of(self.home()) {
            waker.send(Move::Away(self.clone(), thread));
        }
    }

    /// Keeps the task on the thread that the plan assigns. For elements that other threads wait for; the
    /// engine checks before the start that they form no circle.
    pub fn stay(&self) {
        self.0.stays.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stays(&self) -> bool {
        self.0.stays.load(Ordering::Relaxed)
    }

    pub(crate) fn settle(&self, home: usize, wakers: Arc<[Arc<Waker>]>) {
        self.set_home(home);
        // A task settles once, when its router is planned.
        let _ = self.0.wakers.set(wakers);
    }

    /// Begins a run of the task.
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.begun.store(self.0.schedule.load(Ordering::Acquire), Ordering::Relaxed);
    }

    pub(crate) fn set_home(&self, home: usize) {
        self.0.home.store(home, Ordering::Relaxed);
        // Who schedules the task wakes its new thread, or the new thread, which learns of the task after this, sees that
        // it is scheduled.
        fence(Ordering::SeqCst);
    }

    pub(crate) fn waker_of(&self, thread: usize) -> Option<&Arc<Waker>> {
        self.0.wakers.get()?.get(thread)
    }

    pub(crate) fn add_cycles(&self, cycles: u64) {
        self.0.cycles.add(cycles);
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The descriptors that the task sleeps on; empty when it can only be polled.
    pub(crate) fn readiness(&self) -> MutexGuard<'_, Vec<Arc<OwnedFd>>> {
        self.0.readiness.lock()
    }
}

/// A task on its way to another thread.
#[derive(Debug)]
pub(crate) enum Move {
    /// To the task's current thread: hand it over to this thread.
    Away(Task, usize),
    /// To the new thread.
    Here(Task),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task knows the wakers, and an order to move it waits with one of them.
    #[test]
    fn a_task_that_was_to_move_is_freed_with_its_threads() {
        let wakers: Arc<[Arc<Waker>]> = (0..2).map(|_| Arc::new(Waker::new())).collect();
        let task = Task::new(0, 0);
        task.settle(0, wakers.clone());
        task.send_to(1);
        wakers.iter().for_each(|waker| waker.close());
        // A handler comes too late.
        task.send_to(1);
        let left = Arc::downgrade(&wakers);
        drop((task, wakers));
        assert_eq!(left.strong_count(), 0);
    }

    #[test]
    fn a_task_does_not_rest_when_it_was_scheduled_since_its_run_began() {
        let task = Task::new(0, 0);
        task.schedule();
        task.begin();
        task.rest();
        assert!(!task.is_scheduled());

        task.schedule();
        task.begin();
        // A handler, after the run has looked for work.
        task.schedule();
        task.rest();
        assert!(task.is_scheduled());
        task.begin();
        task.rest();
        assert!(!task.is_scheduled());

        task.schedule();
        task.begin();
        task.unschedule();
        task.rest();
        assert!(!task.is_scheduled());
    }
}

//! Tasks: what elements do of their own accord.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

/// A task of an element. While it is scheduled, its home thread calls
/// [`run_task`](crate::Element::run_task) round after round. Clones name the same task.
#[derive(Clone, Debug)]
pub struct Task(Arc<TaskCell>);

#[derive(Debug)]
struct TaskCell {
    element: usize,
    index: usize,
    scheduled: AtomicBool,
    home: AtomicUsize,
    waker: OnceLock<Arc<Waker>>,
    readiness: Mutex<Vec<Arc<OwnedFd>>>,
}

impl Task {
    pub(crate) fn new(element: usize, index: usize) -> Self {
        Self(Arc::new(TaskCell {
            element,
            index,
            scheduled: AtomicBool::new(false),
            home: AtomicUsize::new(0),
            waker: OnceLock::new(),
            readiness: Mutex::default(),
        }))
    }

    /// Schedules the task, from any thread.
    pub fn schedule(&self) {
        if !self.0.scheduled.swap(true, Ordering::SeqCst)
            && let Some(waker) = self.0.waker.get()
        {
            waker.wake();
        }
    }

    /// Takes the task off the schedule, from any thread.
    pub fn unschedule(&self) {
        self.0.scheduled.store(false, Ordering::SeqCst);
    }

    /// Whether the task is scheduled.
    #[inline]
    pub fn is_scheduled(&self) -> bool {
        self.0.scheduled.load(Ordering::Acquire)
    }

    /// Lets an idle thread sleep until one of `fds` is readable: without any a scheduled task that
    /// finds nothing to do keeps its thread from sleeping long.
    pub fn wait_readable(&self, fds: impl IntoIterator<Item = OwnedFd>) {
        if let Ok(mut readiness) = self.0.readiness.lock() {
            *readiness = fds.into_iter().map(Arc::new).collect();
        }
    }

    /// The thread that runs the task.
    pub fn home(&self) -> usize {
        self.0.home.load(Ordering::Relaxed)
    }

    pub(crate) fn element(&self) -> usize {
        self.0.element
    }

    /// Which of its element's tasks it is: 0 for the first one made.
    pub fn index(&self) -> usize {
        self.0.index
    }

    pub(crate) fn settle(&self, home: usize, waker: Arc<Waker>) {
        self.0.home.store(home, Ordering::Relaxed);
        // A task settles once, when its router is planned.
        let _ = self.0.waker.set(waker);
    }

    /// What the task sleeps on; empty when it can only be polled.
    pub(crate) fn readiness(&self) -> Vec<Arc<OwnedFd>> {
        self.0.readiness.lock().map(|readiness| readiness.clone()).unwrap_or_default()
    }
}

/// Wakes one thread from its sleep.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    event: Option<OwnedFd>,
    sleeping: AtomicBool,
    /// How often the thread has been called.
    calls: AtomicU64,
}

impl Waker {
    /// A waker. Where the machine has no event descriptor left, the thread naps instead of
    /// sleeping.
    pub(crate) fn new() -> Self {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let event = eventfd(0, flags).ok();
        Self { event, sleeping: AtomicBool::new(false), calls: AtomicU64::new(0) }
    }

    /// How often the thread has been called. One that looks here before it looks for work, and
    /// finds none, has missed nothing while the number stays.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Ends the thread's sleep, or keeps it from beginning one.
    pub(crate) fn wake(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst)
            && let Some(event) = &self.event
        {
            // A full counter means that a wake-up is on its way.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// Sleeps until woken, until one of `readable` is, or for `nanos` (at most a second). Does not
    /// begin to sleep when there have been calls beyond the `heard` ones.
    pub(crate) fn sleep(&self, readable: &[Arc<OwnedFd>], nanos: i64, heard: u64) {
        const LONGEST: i64 = 1_000_000_000;
        const WITHOUT_EVENT: i64 = 1_000_000;
        let longest = if self.event.is_some() { LONGEST } else { WITHOUT_EVENT };
        let nanos = nanos.clamp(0, longest);
        self.sleeping.store(true, Ordering::SeqCst);
        if self.calls() == heard {
            let timeout =
                rustix::event::Timespec { tv_sec: nanos / LONGEST, tv_nsec: nanos % LONGEST };
            let mut fds: Vec<PollFd<'_>> = readable
                .iter()
                .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN))
                .chain(self.event.iter().map(|fd| PollFd::new(fd, PollFlags::IN)))
                .collect();
            // An interrupted or refused poll is a short sleep.
            let _ = poll(&mut fds, Some(&timeout));
        }
        self.sleeping.store(false, Ordering::SeqCst);
        if let Some(event) = &self.event {
            // Nothing to read when something else ended the sleep.
            let _ = rustix::io::read(event, &mut [0u8; 8]);
        }
    }
}

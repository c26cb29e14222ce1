//! How threads sleep and are woken, and how long that takes.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};

use super::task::Move;
use crate::Lock;
use crate::stats::Count;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Wakes a thread from its sleep, and sends it tasks.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    event: Option<OwnedFd>,
    sleeping: AtomicBool,
    /// How often the thread has been woken.
    calls: AtomicU64,
    /// When the thread was first woken since it fell asleep, on the clock of [`nanos`]; 0 when it was not.
    called: AtomicU64,
    moves: Lock<Moves>,
    /// Whether to look for moves, or for what is announced. Who sets this calls the thread afterwards: a thread that has
    /// heard the call sees this, too.
    has_moves: AtomicBool,
    rest: Rest,
}

#[derive(Debug, Default)]
struct Moves {
    orders: Vec<Move>,
    /// The thread has ended.
    is_closed: bool,
}

/// What a thread counts about its sleep; only this thread writes.
#[derive(Debug, Default)]
struct Rest {
    sleeps: Count,
    nanos: Count,
    calls: Delays,
    alarms: Delays,
    arrivals: Delays,
}

#[derive(Debug, Default)]
struct Delays {
    count: Count,
    nanos: Count,
    longest: Count,
}

/// Statistics of a thread's sleep so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestStats {
    /// The number of sleeps.
    pub sleeps: u64,
    /// The total length, in nanoseconds.
    pub nanos: u64,
    /// From another thread's call to the end of the sleep.
    pub calls: DelayStats,
    /// From the intended end of a sleep to its actual end.
    pub alarms: DelayStats,
    /// From the arrival of a packet at its device, by the kernel's timestamp, to the time when the thread
    /// that was asleep sends it on.
    pub arrivals: DelayStats,
}

/// Delays of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayStats {
    /// Their number.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub nanos: u64,
    /// The longest one, in nanoseconds.
    pub longest: u64,
}

impl DelayStats {
    /// The mean, in nanoseconds; 0 when there were none.
    pub fn mean(self) -> u64 {
        self.nanos.checked_div(self.count).unwrap_or(0)
    }
}

impl Waker {
    /// A waker. If the machine has no more event descriptors, the thread naps instead of sleeping.
    pub(crate) fn new() -> Self {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Self { event: eventfd(0, flags).ok(), ..Self::default() }
    }

    /// How often the thread has been woken. A thread reads this before it looks for work. If it finds none
    /// and the number is the same, it has missed nothing.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// How often the thread has been woken, as long as `goes_on`, which is asked afterwards: so the thread does not
    /// sleep through the call of whoever ended that.
    pub(crate) fn calls_while(&self, goes_on: impl FnOnce() -> bool) -> Option<u64> {
        let heard = self.calls();
        goes_on().then_some(heard)
    }

    /// Whether the thread sleeps, or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst)
    }

    /// Ends the thread's sleep, or prevents it from beginning one.
    pub(crate) fn wake(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst)
            && let Some(event) = &self.event
        {
            // The first call counts.
            let _ = self.called.compare_exchange(0, nanos(), Ordering::Relaxed, Ordering::Relaxed);
            // A full counter means that a wake-up is on its way.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// Sleeps until woken, until one of `readable` is readable, or for `time` nanoseconds (at most a second).
    /// Does not begin to sleep if there have been more calls than `heard`. Returns whether a readable
    /// descriptor ended the sleep.
    pub(crate) fn sleep(&self, readable: &[Arc<OwnedFd>], time: i64, heard: u64) -> bool {
        const LONGEST: i64 = 1_000_000_000;
        const WITHOUT_EVENT: i64 = 1_000_000;
        let longest = if self.event.is_some() { LONGEST } else { WITHOUT_EVENT };
        let time = time.clamp(0, longest);
        let mut by_device = false;
        self.sleeping.store(true, Ordering::SeqCst);
        if self.calls() == heard {
            let timeout = Timespec { tv_sec: time / LONGEST, tv_nsec: time % LONGEST };
            let mut fds: Vec<PollFd<'_>> = readable
                .iter()
                .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN))
                .chain(self.event.iter().map(|fd| PollFd::new(fd, PollFlags::IN)))
                .collect();
            let start = nanos();
            // An interrupted or refused poll is a short sleep.
            let ended = poll(&mut fds, Some(&timeout));
            self.note(start, time.unsigned_abs(), ended == Ok(0));
            let devices = fds.get(..readable.len()).unwrap_or_default();
            by_device = devices.iter().any(|fd| !fd.revents().is_empty());
        }
        // Who still sees that it sleeps writes an event too many, which ends the next sleep early.
        self.sleeping.store(false, Ordering::Relaxed);
        if let Some(event) = &self.event {
            // Nothing to read when something else ended the sleep.
            let _ = rustix::io::read(event, &mut [0u8; 8]);
        }
        by_device
    }

    /// Counts the time from a packet's arrival to its processing.
    pub(crate) fn note_arrival(&self, nanos: u64) {
        self.rest.arrivals.add(nanos);
    }

    /// Counts a sleep that began at `start` and was to last for `time` unless interrupted.
    fn note(&self, start: u64, time: u64, undisturbed: bool) {
        let now = nanos();
        self.rest.sleeps.add(1);
        self.rest.nanos.add(now.saturating_sub(start));
        let called = self.called.swap(0, Ordering::Relaxed);
        if undisturbed {
            self.rest.alarms.add(now.saturating_sub(start.saturating_add(time)));
        } else if called >= start {
            self.rest.calls.add(now.saturating_sub(called));
        }
    }

    /// Sends the thread a task, or asks it for one.
    pub(crate) fn send(&self, order: Move) {
        let mut moves = self.moves.lock();
        if moves.is_closed {
            return;
        }
        moves.orders.push(order);
        self.has_moves.store(true, Ordering::Relaxed);
        drop(moves);
        self.wake();
    }

    /// Has the thread look for what else is new between two rounds, where it looks for moves.
    pub(crate) fn announce(&self) {
        self.remind();
        self.wake();
    }

    /// [`announce`](Self::announce) by the thread itself.
    pub(crate) fn remind(&self) {
        let moves = self.moves.lock();
        self.has_moves.store(!moves.is_closed, Ordering::Relaxed);
    }

    /// The thread has ended and takes no task any more. A task knows the wakers: one that waits here would keep them, and
    /// they it.
    pub(crate) fn close(&self) {
        self.moves.lock().is_closed = true;
        drop(self.take_moves());
    }

    /// Whether there are moves to [`take`](Self::take_moves).
    #[inline]
    pub(crate) fn has_moves(&self) -> bool {
        self.has_moves.load(Ordering::Relaxed)
    }

    pub(crate) fn take_moves(&self) -> Vec<Move> {
        let mut moves = self.moves.lock();
        self.has_moves.store(false, Ordering::Relaxed);
        std::mem::take(&mut moves.orders)
    }

    /// The thread's sleep statistics.
    pub(crate) fn rest(&self) -> RestStats {
        RestStats {
            sleeps: self.rest.sleeps.get(),
            nanos: self.rest.nanos.get(),
            calls: self.rest.calls.stats(),
            alarms: self.rest.alarms.stats(),
            arrivals: self.rest.arrivals.stats(),
        }
    }
}

impl Delays {
    fn add(&self, nanos: u64) {
        self.count.add(1);
        self.nanos.add(nanos);
        self.longest.set(self.longest.get().max(nanos));
    }

    fn stats(&self) -> DelayStats {
        DelayStats { count: self.count.get(), nanos: self.nanos.get(), longest: self.longest.get() }
    }
}

/// Nanoseconds since the first call of this function, plus 1.
fn nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed().as_nanos();
    u64::try_from(elapsed).map_or(u64::MAX, |nanos| nanos.saturating_add(1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no poll")]
    fn any_of_several_descriptors_ends_a_sleep() {
        let waker = Waker::new();
        let event = || Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let fds: Vec<Arc<OwnedFd>> = (0..3).map(|_| event()).collect();
        for fd in &fds {
            rustix::io::write(fd, &1u64.to_ne_bytes()).unwrap();
            assert!(waker.sleep(&fds, 1_000_000_000, waker.calls()));
            rustix::io::read(fd, &mut [0; 8]).unwrap();
        }
        assert_eq!(waker.rest().sleeps, 3);
        assert_eq!((waker.rest().calls.count, waker.rest().alarms.count), (0, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri knows no poll")]
    fn delays_are_counted_by_what_ended_the_sleep() {
        let waker = Waker::new();
        waker.sleep(&[], 2_000_000, 0);
        assert_eq!((waker.rest().alarms.count, waker.rest().calls.count), (1, 0));
        assert!(waker.rest().nanos >= 2_000_000);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while waker.rest().calls.count == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    waker.wake();
                }
            });
            while waker.rest().calls.count == 0 {
                waker.sleep(&[], 1_000_000_000, waker.calls());
            }
        });
        let calls = waker.rest().calls;
        assert!(calls.count >= 1 && calls.longest >= calls.mean() && calls.mean() > 0);
    }

    #[test]
    fn who_was_called_does_not_begin_to_sleep() {
        let waker = Waker::new();
        waker.wake();
        waker.sleep(&[], 1_000_000_000, 0);
        assert_eq!(waker.rest(), RestStats::default());
    }
}

//! Timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, OnceLock};

use super::waker::Waker;
use crate::Lock;
use crate::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use crate::time::Timestamp;

/// A timer of an element. When it expires, its home thread calls [`run_timer`](crate::Element::run_timer).
/// Clones refer to the same timer.
#[derive(Clone, Debug)]
pub struct Timer(Arc<TimerCell>);

#[derive(Debug)]
struct TimerCell {
    element: usize,
    index: usize,
    /// Whoever sets it puts the timer into the inbox afterwards, whose lock and call order this.
    expiry: AtomicI64,
    /// When it was due the last time that it expired, for the thread that runs it.
    expired: AtomicI64,
    /// When the initialisation of its element scheduled it, until the router runs.
    waits_since: AtomicI64,
    home: AtomicUsize,
    thread: OnceLock<(Arc<Inbox>, Arc<Waker>)>,
}

const NEVER: i64 = i64::MAX;

impl Timer {
    pub(crate) fn new(element: usize, index: usize) -> Self {
        Self(Arc::new(TimerCell {
            element,
            index,
            expiry: AtomicI64::new(NEVER),
            expired: AtomicI64::new(0),
            waits_since: AtomicI64::new(NEVER),
            home: AtomicUsize::new(0),
            thread: OnceLock::new(),
        }))
    }

    /// Sets the time of expiry, from any thread. Replaces a time set before.
    pub fn schedule_at(&self, time: Timestamp) {
        self.0.waits_since.store(NEVER, Ordering::Relaxed);
        self.0.expiry.store(time.as_nanos().min(NEVER - 1), Ordering::Relaxed);
        if let Some((inbox, waker)) = self.0.thread.get() {
            inbox.add(self.clone());
            waker.wake();
        }
    }

    /// Unschedules the timer, from any thread.
    pub fn unschedule(&self) {
        self.0.expiry.store(NEVER, Ordering::Relaxed);
    }

    /// When the timer expires, if it is scheduled.
    pub fn expiry(&self) -> Option<Timestamp> {
        let nanos = self.0.expiry.load(Ordering::Relaxed);
        (nanos != NEVER).then(|| Timestamp::from_nanos(nanos))
    }

    /// When it was due the last time that it expired: it ran then or later. The epoch if it never did.
    pub fn expired(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.expired.load(Ordering::Relaxed))
    }

    /// The element has been initialised, and the router does not run yet: what the timer waits for begins only
    /// [then](Self::begin).
    pub(crate) fn hold(&self, now: Timestamp) {
        if self.expiry().is_some() {
            self.0.waits_since.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// The router begins to run: a timer that was [held](Self::hold) expires later by the time since.
    pub(crate) fn begin(&self, now: Timestamp) {
        let since = self.0.waits_since.swap(NEVER, Ordering::Relaxed);
        if let Some(expiry) = self.expiry().filter(|_| since != NEVER) {
            let late = now.as_nanos().saturating_sub(since).max(0);
            let later = expiry.as_nanos().saturating_add(late).min(NEVER - 1);
            self.0.expiry.store(later, Ordering::Relaxed);
        }
    }

    /// The thread that runs the timer.
    pub fn home(&self) -> usize {
        self.0.home.load(Ordering::Relaxed)
    }

    pub(crate) fn element(&self) -> usize {
        self.0.element
    }

    /// The position of the timer among its element's timers: 0 for the first one made.
    pub fn index(&self) -> usize {
        self.0.index
    }

    pub(crate) fn settle(&self, home: usize, inbox: Arc<Inbox>, waker: Arc<Waker>) {
        self.0.home.store(home, Ordering::Relaxed);
        if self.expiry().is_some() {
            inbox.add(self.clone());
        }
        // A timer settles once, when its router is planned.
        let _ = self.0.thread.set((inbox, waker));
    }

    /// Unschedules the timer if it expires at `nanos`; returns false when it was changed.
    fn expire(&self, nanos: i64) -> bool {
        let order = Ordering::Relaxed;
        let expires = self.0.expiry.compare_exchange(nanos, NEVER, order, order).is_ok();
        if expires {
            self.0.expired.store(nanos, order);
        }
        expires
    }
}

/// Timers that were scheduled since their thread last checked.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Who adds a timer calls the thread afterwards: a thread that has heard the call sees this, too.
    pending: AtomicUsize,
    timers: Lock<Scheduled>,
}

#[derive(Debug, Default)]
struct Scheduled {
    timers: Vec<Timer>,
    /// The thread has ended.
    is_closed: bool,
}

impl Inbox {
    fn add(&self, timer: Timer) {
        let mut scheduled = self.timers.lock();
        if !scheduled.is_closed {
            scheduled.timers.push(timer);
            self.pending.store(scheduled.timers.len(), Ordering::Relaxed);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.load(Ordering::Relaxed) == 0
    }

    fn take(&self) -> Vec<Timer> {
        let mut scheduled = self.timers.lock();
        self.pending.store(0, Ordering::Relaxed);
        std::mem::take(&mut scheduled.timers)
    }

    /// No timer comes any more. A timer knows its inbox: those inside would keep it, and it them.
    pub(crate) fn close(&self) {
        self.timers.lock().is_closed = true;
        drop(self.take());
    }
}

/// One thread's timers, earliest first; timers that expire at the same time are in the order of scheduling.
#[derive(Default)]
pub(crate) struct TimerQueue {
    inbox: Arc<Inbox>,
    heap: BinaryHeap<Reverse<Entry>>,
    scheduled: u64,
}

struct Entry {
    nanos: i64,
    order: u64,
    timer: Timer,
}

impl TimerQueue {
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// When the next timer expires.
    pub(crate) fn next(&mut self) -> Option<Timestamp> {
        self.sort_in();
        while let Some(Reverse(entry)) = self.heap.peek() {
            if entry.timer.0.expiry.load(Ordering::Relaxed) == entry.nanos {
                return Some(Timestamp::from_nanos(entry.nanos));
            }
            self.heap.pop();
        }
        None
    }

    /// An upper bound for the number of timers that are scheduled.
    pub(crate) fn len(&mut self) -> usize {
        self.sort_in();
        self.heap.len()
    }

    /// Removes and returns the next timer that has expired at `now`.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Timer> {
        self.sort_in();
        while let Some(Reverse(entry)) = self.heap.peek() {
            if entry.nanos > now.as_nanos() {
                return None;
            }
            let Reverse(entry) = self.heap.pop()?;
            if entry.timer.expire(entry.nanos) {
                return Some(entry.timer);
            }
        }
        None
    }

    fn sort_in(&mut self) {
        if self.inbox.is_empty() {
            return;
        }
        for timer in self.inbox.take() {
            if let Some(expiry) = timer.expiry() {
                self.scheduled += 1;
                self.heap.push(Reverse(Entry {
                    nanos: expiry.as_nanos(),
                    order: self.scheduled,
                    timer,
                }));
            }
        }
    }
}

impl Entry {
    fn key(&self) -> (i64, u64) {
        (self.nanos, self.order)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: i64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn timer(queue: &TimerQueue, index: usize) -> Timer {
        let timer = Timer::new(0, index);
        timer.settle(0, queue.inbox().clone(), Arc::new(Waker::new()));
        timer
    }

    #[test]
    fn timers_expire_in_order_of_time_then_of_scheduling() {
        let mut queue = TimerQueue::default();
        let timers: Vec<Timer> = (0..3).map(|index| timer(&queue, index)).collect();
        timers[0].schedule_at(at(20));
        timers[1].schedule_at(at(10));
        timers[2].schedule_at(at(10));
        assert_eq!(queue.next(), Some(at(10)));
        let order: Vec<usize> =
            std::iter::from_fn(|| queue.pop(at(20))).map(|t| t.index()).collect();
        assert_eq!(order, [1, 2, 0]);
    }

    /// A timer knows its inbox and its thread's waker, and the inbox knows the timer.
    #[test]
    fn timers_that_nobody_has_taken_are_freed_with_their_thread() {
        let queue = TimerQueue::default();
        let set = timer(&queue, 0);
        set.schedule_at(at(10));
        let inbox = Arc::downgrade(queue.inbox());
        queue.inbox().close();
        // An element that stops may still set one.
        set.schedule_at(at(20));
        drop((queue, set));
        assert_eq!(inbox.strong_count(), 0);
    }

    #[test]
    fn what_a_timer_waits_for_begins_when_the_router_runs() {
        let mut queue = TimerQueue::default();
        let held = Timer::new(0, 0);
        held.schedule_at(at(20));
        held.hold(at(10));
        held.settle(0, queue.inbox().clone(), Arc::new(Waker::new()));
        held.begin(at(110));
        assert_eq!(queue.next(), Some(at(120)));
        held.begin(at(500));
        assert_eq!(queue.next(), Some(at(120)), "it begins once");
        assert!(queue.pop(at(130)).is_some());
        assert_eq!(held.expired(), at(120));

        let set_again = timer(&queue, 1);
        set_again.schedule_at(at(20));
        set_again.hold(at(10));
        set_again.schedule_at(at(30));
        set_again.begin(at(110));
        assert_eq!(set_again.expiry(), Some(at(30)), "a handler has set it since");
        let idle = timer(&queue, 2);
        idle.hold(at(10));
        idle.begin(at(110));
        assert_eq!(idle.expiry(), None);
    }

    #[test]
    fn the_last_schedule_counts() {
        let mut queue = TimerQueue::default();
        let moved = timer(&queue, 0);
        let stopped = timer(&queue, 1);
        moved.schedule_at(at(10));
        moved.schedule_at(at(30));
        stopped.schedule_at(at(5));
        stopped.unschedule();
        assert_eq!(queue.next(), Some(at(30)));
        assert!(queue.pop(at(29)).is_none());
        assert_eq!(queue.pop(at(30)).map(|t| t.index()), Some(0));
        assert!(queue.next().is_none());
    }
}

//! Timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::waker::Waker;
use crate::time::Timestamp;

/// A timer of an element. When it expires, its home thread calls [`run_timer`](crate::Element::run_timer).
/// Clones refer to the same timer.
#[derive(Clone, Debug)]
pub struct Timer(Arc<TimerCell>);

#[derive(Debug)]
struct TimerCell {
    element: usize,
    index: usize,
    expiry: AtomicI64,
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
            home: AtomicUsize::new(0),
            thread: OnceLock::new(),
        }))
    }

    /// Sets the time of expiry, from any thread. Replaces a time set before.
    pub fn schedule_at(&self, time: Timestamp) {
        self.0.expiry.store(time.as_nanos().min(NEVER - 1), Ordering::SeqCst);
        if let Some((inbox, waker)) = self.0.thread.get() {
            inbox.add(self.clone());
            waker.wake();
        }
    }

    /// Unschedules the timer, from any thread.
    pub fn unschedule(&self) {
        self.0.expiry.store(NEVER, Ordering::SeqCst);
    }

    /// When the timer expires, if it is scheduled.
    pub fn expiry(&self) -> Option<Timestamp> {
        let nanos = self.0.expiry.load(Ordering::SeqCst);
        (nanos != NEVER).then(|| Timestamp::from_nanos(nanos))
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
        self.0.expiry.compare_exchange(nanos, NEVER, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Timers that were scheduled since their thread last checked.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pending: AtomicUsize,
    timers: Mutex<Vec<Timer>>,
}

impl Inbox {
    fn add(&self, timer: Timer) {
        if let Ok(mut timers) = self.timers.lock() {
            timers.push(timer);
            self.pending.store(timers.len(), Ordering::SeqCst);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.load(Ordering::SeqCst) == 0
    }

    fn take(&self) -> Vec<Timer> {
        let Ok(mut timers) = self.timers.lock() else { return Vec::new() };
        self.pending.store(0, Ordering::SeqCst);
        std::mem::take(&mut timers)
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
            if entry.timer.0.expiry.load(Ordering::SeqCst) == entry.nanos {
                return Some(Timestamp::from_nanos(entry.nanos));
            }
            self.heap.pop();
        }
        None
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

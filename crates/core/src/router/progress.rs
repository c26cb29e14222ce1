//! Whether threads come on, for whoever waits for their end.

use super::Router;
use crate::time::Timestamp;

/// How far the threads of a router are at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    threads: Vec<Thread>,
    /// Virtual time, where it passes.
    time: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    /// What its elements have received, made and sent.
    moved: u64,
    sleeps: u64,
    is_asleep: bool,
}

impl Router {
    /// How far the threads are.
    pub fn progress(&self) -> Progress {
        let moved = |thread: usize| {
            let nodes = self.stats_on(thread).iter();
            nodes.fold(0, |sum: u64, node| {
                let counts = [node.received.get(), node.created.get(), node.sent.get()];
                counts.into_iter().fold(sum, u64::wrapping_add)
            })
        };
        let thread = |(n, waker): (usize, &std::sync::Arc<crate::schedule::Waker>)| Thread {
            moved: moved(n),
            sleeps: waker.rest().sleeps,
            is_asleep: waker.is_asleep(),
        };
        let is_virtual = self.clock().is_virtual();
        Progress {
            threads: self.wakers().iter().enumerate().map(thread).collect(),
            time: is_virtual.then(|| self.clock().now()),
        }
    }
}

impl Progress {
    /// Whether a thread is at work and has moved no packet since an `earlier` moment, nor slept: an element of it waits
    /// for something, or never ends.
    pub fn is_stuck_since(&self, earlier: &Self) -> bool {
        let mut threads = self.threads.iter().zip(&earlier.threads);
        self.time == earlier.time && threads.any(|(now, then)| now == then && !now.is_asleep)
    }
}

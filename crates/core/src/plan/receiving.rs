//! Receiving from a device on as many threads as the plan provides.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::schedule::Task;

/// What an element that receives from a device requests of the plan, and what is known about the device. The
/// plan divides the threads among all such elements and gives each element one task per thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receiving {
    /// The device.
    pub device: String,
    /// The number of receive queues of the device; `None` if it is known only after opening the device.
    pub has_queues: Option<usize>,
    /// The NUMA node that the device is attached to; `None` on machines with one node.
    pub numa_node: Option<usize>,
    /// The number of the first queue to receive from.
    pub first_queue: usize,
    /// How many queues to receive from; by default as many as threads.
    pub queues: Option<usize>,
    /// The maximum number of threads that receive; no limit by default.
    pub max_threads: Option<usize>,
    /// The first of the threads that receive; by default the plan chooses.
    pub thread_offset: Option<usize>,
    /// Whether threads on other nodes than the device's may receive as if they were near.
    pub any_node: bool,
}

/// What an element that transmits to a device declares about it. A device gets one queue for each thread that
/// reaches the element, as far as it has them. If it has fewer, threads share them under a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transmitting {
    /// The device.
    pub device: String,
    /// The number of transmit queues of the device; `None` if it is known only after opening the device.
    pub has_queues: Option<usize>,
    /// The NUMA node that the device is attached to; `None` on machines with one node.
    pub numa_node: Option<usize>,
    /// The number of the first queue to transmit on.
    pub first_queue: usize,
    /// The maximum number of queues to transmit on; by default as many as threads.
    pub queues: Option<usize>,
}

/// The planned work of an element that receives from a device, or works on several threads for another
/// reason: one task for each such thread. Clones refer to the same work.
#[derive(Clone, Debug, Default)]
pub struct Receiver(Arc<OnceLock<Planned>>);

#[derive(Debug)]
struct Planned {
    tasks: Vec<Task>,
    queues: Range<usize>,
}

impl Receiver {
    /// The tasks, one for each thread that receives; empty before the router is planned.
    pub fn tasks(&self) -> &[Task] {
        self.0.get().map_or(&[], |planned| &planned.tasks)
    }

    /// The task whose home is `thread`.
    pub fn task_on(&self, thread: usize) -> Option<&Task> {
        self.tasks().iter().find(|task| task.home() == thread)
    }

    /// The queues of the device that the plan asks to open.
    pub fn queues(&self) -> Range<usize> {
        self.0.get().map_or(0..0, |planned| planned.queues.clone())
    }

    /// The position in [`tasks`](Self::tasks) of the element's task number `index`.
    pub fn slot(&self, index: usize) -> usize {
        self.tasks().first().map_or(0, |first| index.saturating_sub(first.index()))
    }

    pub(crate) fn settle(&self, tasks: Vec<Task>, queues: Range<usize>) {
        // A router is planned once.
        let _ = self.0.set(Planned { tasks, queues });
    }
}

/// Which of `queues` queues the thread in `slot`, of `threads` threads, receives from. With fewer queues than
/// threads, several threads share one queue; with more, a thread polls several.
///
/// ```
/// use millrace_core::plan::share;
/// assert!(share(4, 2, 1).eq([1, 3]));
/// assert!(share(1, 3, 2).eq([0]));
/// ```
pub fn share(queues: usize, threads: usize, slot: usize) -> impl Iterator<Item = usize> {
    let first = if queues == 0 { 0 } else { slot % queues };
    (first..queues).step_by(threads.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_has_a_thread_and_every_thread_a_queue() {
        for queues in 1..9 {
            for threads in 1..9 {
                let shares: Vec<Vec<usize>> =
                    (0..threads).map(|slot| share(queues, threads, slot).collect()).collect();
                assert!(shares.iter().all(|share| !share.is_empty()), "{queues} {threads}");
                let mut all = shares.concat();
                all.sort_unstable();
                if queues >= threads {
                    assert!(all.iter().copied().eq(0..queues), "each queue once");
                } else {
                    all.dedup();
                    assert!(all.iter().copied().eq(0..queues), "each queue");
                    assert!(shares.iter().all(|share| share.len() == 1));
                }
            }
        }
        assert_eq!(share(0, 2, 1).count(), 0);
    }
}

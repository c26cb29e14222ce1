//! What a router has counted.

use std::sync::Arc;

use super::Router;
use crate::schedule::RestStats;
use crate::stats::{ElementStats, NodeStats};

impl Router {
    /// The counts of element `id`. No thread is stopped for this, so counts that change together may be read
    /// at slightly different moments.
    pub fn stats_of(&self, id: usize) -> ElementStats {
        let mut sum = ElementStats::default();
        if let Some(member) = self.members.get(id) {
            self.stats.iter().for_each(|thread| sum.add(&thread[id]));
            sum.held = member.element.held() as u64;
        }
        sum
    }

    /// Packets made so far, by all elements on all threads.
    pub(crate) fn packets_created(&self) -> u64 {
        self.stats.iter().flat_map(|of_thread| &**of_thread).map(|node| node.created.get()).sum()
    }

    /// Cycles that the threads spent outside of elements: polling, sleeping.
    pub fn idle_cycles(&self) -> u64 {
        self.stats.iter().map(|thread| thread[self.len()].cycles.get()).sum()
    }

    /// The sleep statistics of thread `thread`.
    pub fn rest_of(&self, thread: usize) -> RestStats {
        self.wakers.get(thread).map(|waker| waker.rest()).unwrap_or_default()
    }

    /// What a thread counts: one an element, and last what is no element's.
    pub(crate) fn stats_on(&self, thread: usize) -> &Arc<[NodeStats]> {
        &self.stats[thread]
    }
}

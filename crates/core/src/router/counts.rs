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

    /// Packets made so far, and packets that elements have received, by all elements on all threads.
    pub(crate) fn packets_moved(&self) -> (u64, u64) {
        let nodes = self.stats.iter().flat_map(|of_thread| &**of_thread);
        nodes.fold((0, 0), |(created, received), node| {
            (created + node.created.get(), received + node.received.get())
        })
    }

    /// Cycles that the threads spent outside of elements: polling, sleeping.
    pub fn idle_cycles(&self) -> u64 {
        self.stats.iter().map(|thread| thread[self.len()].cycles.get()).sum()
    }

    /// The load of each thread since the last call, from 0 to 1: the share of its cycles that it spent in elements.
    pub(crate) fn take_loads(&self) -> Vec<f64> {
        let mut before = self.loads.lock();
        before.resize(self.stats.len(), [0, 0]);
        let cycles = |nodes: &[NodeStats]| -> u64 {
            nodes.iter().fold(0, |sum, node| sum.wrapping_add(node.cycles.get()))
        };
        let load = |(thread, before): (&Arc<[NodeStats]>, &mut [u64; 2])| {
            let (elements, rest) = thread.split_at(self.len());
            let now = [cycles(elements), cycles(rest)];
            let [busy, idle] = [0, 1].map(|at| now[at].wrapping_sub(before[at]) as f64);
            *before = now;
            if busy + idle > 0.0 { busy / (busy + idle) } else { 0.0 }
        };
        self.stats.iter().zip(before.iter_mut()).map(load).collect()
    }

    /// Cycles that thread `thread` spent in each element, and, last, outside of elements: polling, sleeping.
    pub fn cycles_on(&self, thread: usize) -> Vec<u64> {
        let counts = self.stats.get(thread).into_iter().flat_map(|of_thread| &**of_thread);
        counts.map(|node| node.cycles.get()).collect()
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

//! What a router has counted.

use std::sync::Arc;

use super::Router;
use crate::schedule::RestStats;
use crate::stats::{ElementStats, NodeStats};

/// How a thread spent its cycles, by the time stamp counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In elements, with packets or other work.
    pub busy: u64,
    /// In elements' tasks that found nothing to do, and pulls that got no packet.
    pub polling: u64,
    /// Outside of elements: asking for work, sleeping.
    pub idle: u64,
}

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

    /// Cycles that the threads spent outside of elements: asking for work, sleeping.
    pub fn idle_cycles(&self) -> u64 {
        self.stats.iter().map(|thread| thread[self.len()].cycles.get()).sum()
    }

    /// How a thread spent its cycles.
    pub fn spent_on(&self, thread: usize) -> Spent {
        let nodes = self.stats.get(thread).map_or(&[][..], |nodes| nodes);
        let (elements, rest) = nodes.split_at(self.len().min(nodes.len()));
        let sum = |count: fn(&NodeStats) -> u64| {
            elements.iter().fold(0u64, |sum, node| sum.wrapping_add(count(node)))
        };
        Spent {
            busy: sum(|node| node.cycles.get()),
            polling: sum(|node| node.polling.get()),
            idle: rest.iter().map(|node| node.cycles.get()).sum(),
        }
    }

    /// The load of each thread since the last call, from 0 to 1: the share of its cycles that it spent in elements,
    /// except to look for packets in vain.
    pub(crate) fn take_loads(&self) -> Vec<f64> {
        let mut before = self.loads.lock();
        before.resize(self.stats.len(), [0, 0]);
        let load = |(thread, before): (usize, &mut [u64; 2])| {
            let spent = self.spent_on(thread);
            let now = [spent.busy, spent.polling.wrapping_add(spent.idle)];
            let [busy, idle] = [0, 1].map(|at| now[at].wrapping_sub(before[at]) as f64);
            *before = now;
            if busy + idle > 0.0 { busy / (busy + idle) } else { 0.0 }
        };
        before.iter_mut().enumerate().map(load).collect()
    }

    /// Cycles that thread `thread` spent in each element, and, last, to no packet's good: polling, sleeping.
    pub fn cycles_on(&self, thread: usize) -> Vec<u64> {
        let counts = self.stats.get(thread).into_iter().flat_map(|of_thread| &**of_thread);
        let mut cycles: Vec<u64> = counts.map(|node| node.cycles.get()).collect();
        if let Some(last) = cycles.last_mut() {
            *last = last.wrapping_add(self.spent_on(thread).polling);
        }
        cycles
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

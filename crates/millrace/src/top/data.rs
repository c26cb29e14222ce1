//! The figures that are shown: the last snapshot, what happened since the one before, and the last minute.

use super::history::{History, cycles, per_second, share};
use crate::model::{Element, Snapshot};

/// What is known of a router.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    /// The last snapshot.
    pub(crate) now: Snapshot,
    /// What happened since the one before.
    pub(crate) passed: Snapshot,
    pub(crate) history: History,
}

impl Data {
    /// Begins with a first snapshot.
    pub(crate) fn new(first: Snapshot) -> Self {
        Self { passed: first.since(&first), now: first, history: History::default() }
    }

    /// Adds a later snapshot. That of another process begins anew.
    pub(crate) fn push(&mut self, now: Snapshot) {
        if now.pid != self.now.pid || now.seconds < self.now.seconds {
            *self = Self::new(now);
            return;
        }
        self.passed = now.since(&self.now);
        self.history.push(&self.passed);
        self.now = now;
    }

    /// A count of what happened as a rate.
    pub(crate) fn rate(&self, n: u64) -> f64 {
        per_second(n, self.passed.seconds)
    }

    /// Bytes of what happened, as bits a second.
    pub(crate) fn bits(&self, bytes: u64) -> f64 {
        self.rate(bytes) * 8.0
    }

    /// All cycles of a thread, on average.
    pub(crate) fn cycles_of_a_thread(&self) -> f64 {
        let all: f64 = self.passed.workers.iter().map(|worker| cycles(worker) as f64).sum();
        all / self.passed.workers.len().max(1) as f64
    }

    /// Bits a second that devices received, and sent.
    pub(crate) fn device_bits(&self) -> [f64; 2] {
        ["in", "out"].map(|way| {
            let devices = self.passed.devices.iter().filter(|device| device.direction == way);
            devices.map(|device| self.bits(device.bytes)).sum()
        })
    }

    /// The elements that handle packets: now, and what happened.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (&Element, &Element)> {
        let all = self.now.elements.iter().zip(&self.passed.elements);
        all.filter(|(now, _)| !now.information)
    }

    /// The place of an element among all.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.now.elements.iter().position(|element| element.name == name)
    }

    /// The load of each thread from 0 to 1: with packets, and polling.
    pub(crate) fn loads(&self) -> impl Iterator<Item = (f64, f64)> {
        self.passed.workers.iter().map(|worker| {
            let all = cycles(worker);
            (share(worker.busy_cycles, all), share(worker.polling_cycles, all))
        })
    }
}

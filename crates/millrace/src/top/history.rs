//! What was seen in the last minute.

use std::collections::{HashMap, VecDeque};

use crate::model::{Element, Snapshot, Worker};

/// How many samples are kept: a minute at one refresh a second.
pub(super) const KEPT: usize = 60;

/// The last samples of one figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ring(VecDeque<f32>);

impl Ring {
    fn push(&mut self, value: f64) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(value as f32);
    }

    /// The last `n` samples, oldest first.
    pub(super) fn last(&self, n: usize) -> impl Iterator<Item = f32> + '_ {
        self.0.iter().skip(self.0.len().saturating_sub(n)).copied()
    }

    /// Adds another figure's samples, the newest to the newest.
    pub(super) fn add(&mut self, other: &Self) {
        while self.0.len() < other.0.len() {
            self.0.push_front(0.0);
        }
        for (own, other) in self.0.iter_mut().rev().zip(other.0.iter().rev()) {
            *own += other;
        }
    }
}

/// The last samples of an element.
#[derive(Clone, Debug, Default)]
pub(super) struct OfElement {
    /// Packets a second.
    pub(super) packets: Ring,
    /// Drops a second.
    pub(super) drops: Ring,
    /// Packets held.
    pub(super) held: Ring,
    /// Drops a second by reason; a reason is here from its first drop on.
    pub(super) reasons: HashMap<String, Ring>,
}

/// The last samples of everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Packets a second that came into the router.
    pub(super) entered: Ring,
    /// Drops a second.
    pub(super) dropped: Ring,
    /// The load of each thread, from 0 to 1.
    pub(super) threads: Vec<Ring>,
    devices: HashMap<(String, String), Ring>,
    elements: HashMap<String, OfElement>,
}

impl History {
    /// Adds what happened between two snapshots.
    pub(super) fn push(&mut self, passed: &Snapshot) {
        let rate = |n: u64| per_second(n, passed.seconds);
        self.entered.push(rate(passed.totals.entered));
        self.dropped.push(rate(passed.totals.dropped));
        self.threads.resize_with(passed.workers.len(), Ring::default);
        for (ring, worker) in self.threads.iter_mut().zip(&passed.workers) {
            ring.push(share(worker.busy_cycles, cycles(worker)));
        }
        let mut devices = std::mem::take(&mut self.devices);
        for device in &passed.devices {
            let key = (device.device.clone(), device.direction.clone());
            let mut ring = devices.remove(&key).unwrap_or_default();
            ring.push(rate(device.packets));
            self.devices.insert(key, ring);
        }
        // Those of elements that are gone are left behind.
        let mut elements = std::mem::take(&mut self.elements);
        for element in &passed.elements {
            let mut own = elements.remove(&element.name).unwrap_or_default();
            own.push(element, passed.seconds);
            self.elements.insert(element.name.clone(), own);
        }
    }

    /// The packets a second of a device's direction.
    pub(super) fn device(&self, device: &str, direction: &str) -> Option<&Ring> {
        self.devices.get(&(device.to_owned(), direction.to_owned()))
    }

    /// The samples of an element.
    pub(super) fn element(&self, name: &str) -> Option<&OfElement> {
        self.elements.get(name)
    }
}

impl OfElement {
    fn push(&mut self, passed: &Element, seconds: f64) {
        self.packets.push(per_second(passed.entered, seconds));
        self.drops.push(per_second(passed.dropped, seconds));
        self.held.push(passed.held as f64);
        for (reason, n) in passed.drops.iter() {
            let rate = per_second(n, seconds);
            match self.reasons.get_mut(reason) {
                Some(ring) => ring.push(rate),
                None => {
                    let mut ring = Ring::default();
                    ring.push(rate);
                    self.reasons.insert(reason.to_owned(), ring);
                }
            }
        }
    }
}

/// A count as a rate; 0 if no time has passed.
pub(super) fn per_second(n: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { n as f64 / seconds } else { 0.0 }
}

/// All cycles of a thread.
pub(super) fn cycles(worker: &Worker) -> u64 {
    let elements = worker.busy_cycles.saturating_add(worker.polling_cycles);
    elements.saturating_add(worker.idle_cycles)
}

/// A part of a whole, from 0 to 1.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(values: &[f64]) -> Ring {
        let mut ring = Ring::default();
        values.iter().for_each(|&value| ring.push(value));
        ring
    }

    #[test]
    fn a_minute_is_kept() {
        let long = ring(&(0..100).map(f64::from).collect::<Vec<_>>());
        assert_eq!(long.last(100).count(), KEPT);
        assert_eq!(long.last(2).collect::<Vec<_>>(), [98.0, 99.0]);
    }

    #[test]
    fn sums_are_aligned_at_the_newest_sample() {
        let mut sum = ring(&[1.0]);
        sum.add(&ring(&[5.0, 6.0, 7.0]));
        assert_eq!(sum, ring(&[5.0, 6.0, 8.0]));
    }

    #[test]
    fn elements_that_are_gone_are_forgotten() {
        let element = |name: &str| Element { name: name.to_owned(), ..Element::default() };
        let with = |names: &[&str]| Snapshot {
            elements: names.iter().map(|name| element(name)).collect(),
            ..Snapshot::default()
        };
        let mut history = History::default();
        history.push(&with(&["a", "b"]));
        history.push(&with(&["b", "c"]));
        assert!(history.element("a").is_none());
        assert_eq!(history.element("b").unwrap().packets.last(9).count(), 2);
        assert_eq!(history.element("c").unwrap().packets.last(9).count(), 1);
    }
}

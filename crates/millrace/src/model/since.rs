//! What happened between two moments.

use std::collections::HashMap;

use super::snapshot::{Connection, Device, Element, Snapshot, Worker};

impl Snapshot {
    /// What happened since `earlier`: counts, cycles and seconds are differences, means are those of the time between.
    /// What is held, how full queues are, and delays stay those of this moment. Elements and devices that were not there
    /// earlier count in full.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let elements = Earlier::new(&earlier.elements, |element| (&element.name, &element.class));
        let devices = Earlier::new(&earlier.devices, |device| (&device.device, &device.direction));
        let same_graph = self.generation == earlier.generation;
        let mut totals = self.totals;
        totals.entered = totals.entered.saturating_sub(earlier.totals.entered);
        totals.left = totals.left.saturating_sub(earlier.totals.left);
        totals.dropped = totals.dropped.saturating_sub(earlier.totals.dropped);
        let virtual_seconds = self.virtual_seconds.zip(earlier.virtual_seconds);
        Self {
            seconds: (self.seconds - earlier.seconds).max(0.0),
            virtual_seconds: virtual_seconds.map(|(now, then)| now - then),
            workers: zipped(&self.workers, &earlier.workers, Worker::since),
            elements: elements.differences(&self.elements, Element::since),
            connections: match same_graph {
                true => zipped(&self.connections, &earlier.connections, Connection::since),
                false => self.connections.clone(),
            },
            devices: devices.differences(&self.devices, Device::since),
            copies: self.copies.since(&earlier.copies),
            idle_cycles: self.idle_cycles.saturating_sub(earlier.idle_cycles),
            totals,
            program: self.program.clone(),
            phase: self.phase.clone(),
            ..*self
        }
    }
}

/// Earlier entries, which are at the same places as a rule.
struct Earlier<'a, T, K> {
    entries: &'a [T],
    key: K,
}

impl<'a, T: Clone, K: for<'t> Fn(&'t T) -> (&'t String, &'t String)> Earlier<'a, T, K> {
    fn new(entries: &'a [T], key: K) -> Self {
        Self { entries, key }
    }

    fn differences(&self, now: &[T], since: fn(&T, &T) -> T) -> Vec<T> {
        let mut by_key: Option<HashMap<(&String, &String), &T>> = None;
        let difference = |(at, new): (usize, &T)| {
            let same = self.entries.get(at).filter(|old| (self.key)(old) == (self.key)(new));
            let old = same.or_else(|| {
                let by_key = by_key.get_or_insert_with(|| {
                    self.entries.iter().map(|old| ((self.key)(old), old)).collect()
                });
                by_key.get(&(self.key)(new)).copied()
            });
            old.map_or_else(|| new.clone(), |old| since(new, old))
        };
        now.iter().enumerate().map(difference).collect()
    }
}

fn zipped<T: Clone>(now: &[T], earlier: &[T], since: fn(&T, &T) -> T) -> Vec<T> {
    let difference = |(at, new): (usize, &T)| match earlier.get(at) {
        Some(old) => since(new, old),
        None => new.clone(),
    };
    now.iter().enumerate().map(difference).collect()
}

impl Worker {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            busy_cycles: self.busy_cycles.saturating_sub(earlier.busy_cycles),
            polling_cycles: self.polling_cycles.saturating_sub(earlier.polling_cycles),
            idle_cycles: self.idle_cycles.saturating_sub(earlier.idle_cycles),
            sleeps: self.sleeps.saturating_sub(earlier.sleeps),
            slept_seconds: (self.slept_seconds - earlier.slept_seconds).max(0.0),
            ..self.clone()
        }
    }
}

impl Element {
    fn since(&self, earlier: &Self) -> Self {
        let bytes = self.bytes.zip(earlier.bytes);
        let difference = Self {
            received: self.received.saturating_sub(earlier.received),
            created: self.created.saturating_sub(earlier.created),
            sent: self.sent.saturating_sub(earlier.sent),
            consumed: self.consumed.saturating_sub(earlier.consumed),
            // The element's handler may have been reset.
            bytes: bytes.and_then(|(now, then)| now.checked_sub(then)),
            batches: self.batches.saturating_sub(earlier.batches),
            cycles: self.cycles.saturating_sub(earlier.cycles),
            polling_cycles: self.polling_cycles.saturating_sub(earlier.polling_cycles),
            drops: self.drops.since(&earlier.drops),
            ..self.clone()
        };
        difference.complete()
    }
}

impl Connection {
    fn since(&self, earlier: &Self) -> Self {
        let packets = self.packets.zip(earlier.packets);
        Self { packets: packets.map(|(now, then)| now.saturating_sub(then)), ..*self }
    }
}

impl Device {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            batches: self.batches.saturating_sub(earlier.batches),
            lost: self.lost.saturating_sub(earlier.lost),
            segmented: self.segmented.saturating_sub(earlier.segmented),
            ..self.clone()
        }
    }
}

//! The table of flows: a state for each, which is forgotten when the flow is silent for too long.
//!
//! The keys are spread over parts, each with a lock of its own, so that threads seldom meet. Flows that have
//! timed out are taken out when one is added, once an interval and part, and when somebody asks how many there
//! are; what has timed out is never found.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use millrace_core::Timestamp;

/// States by key.
pub(crate) struct Flows<K, V> {
    parts: Box<[Mutex<Part<K, V>>]>,
    hasher: RandomState,
    flows: AtomicUsize,
    capacity: usize,
    /// Milliseconds after the last packet; 0 for ever.
    timeout: u64,
    /// Milliseconds between looks for flows that have timed out.
    interval: u64,
}

struct Part<K, V> {
    flows: HashMap<K, Flow<V>, RandomState>,
    swept: u64,
    /// No flow in it times out before.
    due: u64,
}

struct Flow<V> {
    state: V,
    /// When its last packet came, in milliseconds.
    last: u64,
}

/// How many locks there are.
const PARTS: usize = 16;

/// Milliseconds, as the table counts.
pub(crate) fn millis(time: Timestamp) -> u64 {
    time.as_millis().max(0).unsigned_abs()
}

impl<K: Copy + Eq + Hash, V> Flows<K, V> {
    /// A table for so many flows that forgets those that are silent for `timeout` milliseconds, which it looks
    /// for every `interval` milliseconds.
    pub(crate) fn new(capacity: usize, timeout: u64, interval: u64) -> Self {
        let part = || Mutex::new(Part { flows: HashMap::default(), swept: 0, due: 0 });
        Self {
            parts: (0..PARTS).map(|_| part()).collect(),
            hasher: RandomState::default(),
            flows: 0.into(),
            capacity,
            timeout,
            interval,
        }
    }

    /// Gives `act` the state of a flow of which a packet came; `new` makes that of a flow not known. None when
    /// there is no room for the flow, or `new` gives none. What is forgotten on the way goes to `gone`.
    pub(crate) fn with<R>(
        &self,
        key: K,
        now: u64,
        new: impl FnOnce() -> Option<V>,
        gone: impl FnMut(V),
        act: impl FnOnce(&mut V) -> R,
    ) -> Option<R> {
        let mut gone = gone;
        let mut part = self.part(key);
        // Sooner than what is due already only if the clock was set back.
        part.due = part.due.min(now.saturating_add(self.timeout));
        if let Some(flow) = part.flows.get_mut(&key) {
            if !self.is_over(flow, now) {
                flow.last = now;
                return Some(act(&mut flow.state));
            }
            self.flows.fetch_sub(1, Relaxed);
            part.flows.remove(&key).into_iter().for_each(|flow| gone(flow.state));
        }
        let due = now.saturating_sub(part.swept) >= self.interval;
        if due || self.flows.load(Relaxed) >= self.capacity {
            self.sweep(&mut part, now, &mut gone);
        }
        if self.flows.load(Relaxed) >= self.capacity {
            drop(part);
            self.sweep_all(now, &mut gone);
            part = self.part(key);
            if self.flows.load(Relaxed) >= self.capacity {
                return None;
            }
        }
        let mut flow = Flow { state: new()?, last: now };
        let given = act(&mut flow.state);
        if part.flows.insert(key, flow).is_none() {
            self.flows.fetch_add(1, Relaxed);
        }
        Some(given)
    }

    /// How many flows there are at this time.
    pub(crate) fn count(&self, now: u64, gone: impl FnMut(V)) -> usize {
        let mut gone = gone;
        self.sweep_all(now, &mut gone);
        self.flows.load(Relaxed)
    }

    /// Forgets all flows.
    pub(crate) fn clear(&self) {
        for part in &self.parts {
            let flows = std::mem::take(&mut lock(part).flows);
            self.flows.fetch_sub(flows.len(), Relaxed);
        }
    }

    /// Takes over the flows of another table, as many as fit.
    pub(crate) fn take(&self, old: &Self) {
        for part in &old.parts {
            let flows = std::mem::take(&mut lock(part).flows);
            old.flows.fetch_sub(flows.len(), Relaxed);
            for (key, flow) in flows {
                if self.flows.load(Relaxed) < self.capacity {
                    let mut part = self.part(key);
                    part.due = part.due.min(flow.last.saturating_add(self.timeout));
                    if part.flows.insert(key, flow).is_none() {
                        self.flows.fetch_add(1, Relaxed);
                    }
                }
            }
        }
    }

    fn part(&self, key: K) -> MutexGuard<'_, Part<K, V>> {
        let at = self.hasher.hash_one(key) >> 32;
        lock(&self.parts[at as usize % self.parts.len()])
    }

    fn is_over(&self, flow: &Flow<V>, now: u64) -> bool {
        self.timeout > 0 && now.saturating_sub(flow.last) >= self.timeout
    }

    fn sweep_all(&self, now: u64, gone: &mut impl FnMut(V)) {
        for part in &self.parts {
            self.sweep(&mut lock(part), now, gone);
        }
    }

    fn sweep(&self, part: &mut Part<K, V>, now: u64, gone: &mut impl FnMut(V)) {
        part.swept = now;
        // Else each new flow that finds a full table would look through all of it.
        if self.timeout == 0 || now < part.due {
            return;
        }
        for (_, flow) in part.flows.extract_if(|_, flow| self.is_over(flow, now)) {
            self.flows.fetch_sub(1, Relaxed);
            gone(flow.state);
        }
        // Those whose packets come later time out later.
        let oldest = part.flows.values().map(|flow| flow.last).fold(now, u64::min);
        part.due = oldest.saturating_add(self.timeout);
    }
}

fn lock<K, V>(part: &Mutex<Part<K, V>>) -> MutexGuard<'_, Part<K, V>> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random packets of few flows, against a plain map that is searched through at every packet.
    #[test]
    fn as_a_map_that_forgets_at_once() {
        let mut random = fastrand::Rng::with_seed(7);
        for capacity in [3, 20, 1000] {
            let (table, mut plain) =
                (Flows::new(capacity, 50, 10), HashMap::<u8, (u32, u64)>::new());
            let (mut now, mut next, mut ended) = (0, 0u32, 0);
            for _ in 0..5000 {
                now += random.u64(0..8);
                let key = random.u8(0..60);
                plain.retain(|_, (_, last)| now - *last < 50);
                let room = plain.contains_key(&key) || plain.len() < capacity;
                next += 1;
                let expected = room.then(|| {
                    let flow = plain.entry(key).or_insert((next, now));
                    flow.1 = now;
                    flow.0
                });
                let given = table.with(key, now, || Some(next), |_| ended += 1, |number| *number);
                assert_eq!(given, expected);
                if random.u8(..) < 20 {
                    assert_eq!(table.count(now, |_| ended += 1), plain.len());
                }
            }
            assert!(ended > 0);
            table.count(now, |_| ());
            plain.retain(|_, (_, last)| now - *last < 50);
            let other = Flows::new(2, 50, 10);
            other.take(&table);
            assert_eq!(other.count(now, |_: u32| ()), plain.len().min(2));
            table.clear();
            assert_eq!(table.count(now, |_| ()), 0);
        }
    }

    #[test]
    fn flows_time_out_though_the_clock_was_set_back() {
        let table = Flows::new(1, 50, 10);
        let come = |key: u8, now| table.with(key, now, || Some(()), |()| (), |()| ()).is_some();
        assert!(come(1, 1_000_000));
        assert_eq!(table.count(1_000_050, |()| ()), 0);
        assert!(come(2, 1000));
        assert!(!come(3, 1049));
        assert!(come(3, 1050));
        assert_eq!(table.count(1100, |()| ()), 0);
    }

    #[test]
    fn threads_count_each_packet_once() {
        let table = Flows::new(1000, 0, 1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for packet in 0..20_000u64 {
                        let counted =
                            table.with(packet % 97, packet, || Some(0u64), |_| (), |n| *n += 1);
                        assert!(counted.is_some());
                    }
                });
            }
        });
        let counts =
            (0..97u64).map(|key| table.with(key, 0, || None, |_| (), |count| *count).unwrap());
        assert_eq!(counts.sum::<u64>(), 80_000);
    }
}

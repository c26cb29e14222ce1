//! Counters that one thread writes and every thread can read.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::drops::Reason;
use crate::moment::InRound;

/// The most threads that a router runs on.
pub const MAX_THREADS: usize = 64;

/// A counter with one writer at a time and any number of readers.
///
/// An addition is a plain load and store, without a locked instruction. Only one thread may add to it (keep
/// it in a [`PerThread`]), or counts are lost.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`; wraps at 2^64.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Replaces the value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// One `T` per thread, each on its own cache lines, made when a thread first asks for it. So only the threads
/// that reach the element have one.
pub struct PerThread<T> {
    slots: Box<[OnceLock<Box<Padded<T>>>]>,
}

/// A value that shares no pair of cache lines with another (processors fetch adjacent lines together).
#[repr(align(128))]
struct Padded<T>(T);

impl<T: Default> Default for PerThread<T> {
    fn default() -> Self {
        Self { slots: (0..MAX_THREADS).map(|_| OnceLock::new()).collect() }
    }
}

impl<T: Default> PerThread<T> {
    /// The running thread's value.
    #[inline]
    pub fn mine(&self, at: &impl InRound) -> &T {
        let slot = &self.slots[at.thread() % MAX_THREADS];
        &slot.get_or_init(Default::default).0
    }

    /// The values of all threads that have one.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.get().map(|padded| &padded.0))
    }
}

impl<T: Default> Default for Padded<T> {
    fn default() -> Self {
        Self(T::default())
    }
}

impl PerThread<Count> {
    /// The sum over threads.
    pub fn total(&self) -> u64 {
        self.iter().fold(0, |sum, count| sum.wrapping_add(count.get()))
    }
}

/// What the engine always counts for one element on one thread.
///
/// Packets are conserved: `received + created = sent + dropped + consumed + held`, where `held` is what the
/// element keeps ([`crate::Element::held`]) plus what waits at its inputs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct NodeStats {
    /// Packets that came in through a port.
    pub received: Tally,
    /// Batches in which they came.
    pub batches: Tally,
    /// Packets that left through a port.
    pub sent: Tally,
    /// Packets that the element made, a device received, or a hot swap took over.
    pub created: Tally,
    /// Packets that left the graph as intended: transmitted by a device, written to a file.
    pub consumed: Tally,
    /// Time stamp counter cycles spent in the element, excluding other elements.
    pub cycles: Tally,
    /// The same of runs of its tasks that found nothing to do, and of pulls that got no packet.
    pub polling: Tally,
    drops: Drops,
}

/// A [`Count`] for the engine itself. It always counts, except in a build with the feature `uncounted`, which
/// the benchmarks use to find the cost of counting.
#[derive(Debug, Default)]
pub struct Tally(Count);

impl Tally {
    /// Adds `n`; wraps at 2^64.
    #[inline]
    pub fn add(&self, n: u64) {
        if COUNTED {
            self.0.add(n);
        }
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// Whether the engine counts packets, batches, drops and cycles.
pub(crate) const COUNTED: bool = !cfg!(feature = "uncounted");

#[derive(Debug)]
struct Drops([Tally; Reason::COUNT]);

impl Default for Drops {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Tally::default()))
    }
}

impl NodeStats {
    /// Counts cycles: for packets, or of looking in vain for any.
    #[inline]
    pub(crate) fn spend(&self, cycles: u64, found: bool) {
        match found {
            true => self.cycles.add(cycles),
            false => self.polling.add(cycles),
        }
    }

    /// Counts `n` drops.
    #[inline]
    pub fn add_drops(&self, reason: Reason, n: u64) {
        self.drops.0[reason as usize].add(n);
    }

    /// Drops for one reason.
    pub fn drops(&self, reason: Reason) -> u64 {
        self.drops.0[reason as usize].get()
    }

    /// Drops for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.0.iter().fold(0, |sum, count| sum.wrapping_add(count.get()))
    }
}

/// The sum of an element's [`NodeStats`] over threads, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementStats {
    /// Packets in.
    pub received: u64,
    /// Batches in.
    pub batches: u64,
    /// Packets out.
    pub sent: u64,
    /// Packets made by the element.
    pub created: u64,
    /// Packets that left the graph at the element.
    pub consumed: u64,
    /// Cycles spent in the element, without `polling`.
    pub cycles: u64,
    /// Cycles of the element's tasks when they found nothing to do, and of pulls that got no packet.
    pub polling: u64,
    /// Packets that the element holds now.
    pub held: u64,
    /// Drops: each reason that occurred, once, in the order of [`Reason::ALL`].
    pub drops: Vec<(Reason, u64)>,
}

impl ElementStats {
    /// Adds the counts of one thread.
    pub fn add(&mut self, node: &NodeStats) {
        self.received += node.received.get();
        self.batches += node.batches.get();
        self.sent += node.sent.get();
        self.created += node.created.get();
        self.consumed += node.consumed.get();
        self.cycles += node.cycles.get();
        self.polling += node.polling.get();
        for &reason in Reason::ALL {
            let n = node.drops(reason);
            if n == 0 {
                continue;
            }
            match self.drops.binary_search_by_key(&reason, |drop| drop.0) {
                Ok(at) => self.drops[at].1 += n,
                Err(at) => self.drops.insert(at, (reason, n)),
            }
        }
    }

    /// Drops for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(|drop| drop.1).sum()
    }

    /// True when every packet is accounted for.
    pub fn balanced(&self) -> bool {
        self.received + self.created == self.sent + self.consumed + self.held + self.dropped()
    }
}

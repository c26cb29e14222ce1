//! A thread's way through a section.

use std::sync::Arc;

use millrace_core::{Batch, Context, Timestamp};

use super::Section;
use super::report::Counters;

/// A thread's way through a section: collects packets, has the device or the CPU twins treat them, gives them back in order.
pub struct Lane {
    section: Arc<Section>,
    counters: Arc<Counters>,
}

impl Lane {
    pub(super) fn new(section: Arc<Section>, counters: Arc<Counters>) -> Self {
        Self { section, counters }
    }

    /// Takes packets in, from the front of `batch`. What is left there found no [room](Self::room).
    pub fn add(&mut self, now: Timestamp, batch: &mut Batch) {
        let _ = (now, batch);
    }

    /// How many packets it has room for, as long as they are not many bytes.
    pub fn room(&self) -> usize {
        self.section.settings().length * self.section.plan().capacity - self.held()
    }

    /// Looks after what is under way: ends the batch that is being collected when it is due, sees what the device has done,
    /// waits for it when the lane is full. To be called every round by whoever [takes](Self::take). Returns
    /// whether there is more to come soon, so that the thread must not sleep.
    pub fn tick(&mut self, now: Timestamp) -> bool {
        let _ = now;
        false
    }

    /// Gives the oldest batch to `sink`, if it is done: packets, at most an engine batch at a time, and the predicate word of
    /// each. The stages have delivered their results to the packets before. Returns whether it was done.
    ///
    /// `sink` empties the batches that it gets; what it leaves is dropped as unclaimed.
    pub fn take(
        &mut self,
        cx: &mut Context,
        sink: impl FnMut(&mut Context, &mut Batch, &[u32]),
    ) -> bool {
        let _ = (cx, sink);
        false
    }

    /// Ends the batch that is being collected.
    pub fn flush(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// Ends the batch that is being collected and waits until all that is on the device is done, or has failed:
    /// afterwards [`take`](Self::take) gives everything.
    pub fn finish(&mut self, now: Timestamp) {
        self.flush(now);
    }

    /// Takes all packets out, in order and as they came.
    pub fn take_packets(&mut self) -> Vec<Batch> {
        Vec::new()
    }

    /// Packets that it holds.
    pub fn held(&self) -> usize {
        self.counters.held.get() as usize
    }
}

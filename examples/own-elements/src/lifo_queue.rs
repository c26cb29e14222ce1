//! LIFOQueue - stores packets and gives the newest first
//!
//! # Synopsis
//! `LIFOQueue([CAPACITY])`
//!
//! # Description
//! Stores pushed packets until they are pulled, the newest first. When it is full, the oldest packet is dropped to make
//! room. Under overload, packets that leave are fresh; those that nobody waits for any more are the ones dropped.
//!
//! Elements that watch queues, such as RED, can watch this one.
//!
//! # Arguments
//! - CAPACITY: maximum number of packets. Positional, default 1000.
//!
//! # Ports
//! One push input, one pull output.
//!
//! # Handlers
//! - `length` (read): number of stored packets.
//! - `highwater_length` (read): the largest number of packets stored so far.
//! - `capacity` (read): CAPACITY.
//! - `drops` (read): packets dropped.
//!
//! # Drops
//! - queue full: the packet was the oldest when the queue was full.
//!
//! # Example
//! ```click
//! RatedSource(RATE 2000, LIMIT 1000) -> RED(5, 50, 0.1) -> LIFOQueue(100) -> RatedUnqueue(1000) -> Discard;
//! ```
//!
//! # See also
//! Queue, FrontDropQueue, RED

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Notifier, Offers, Packet, Reason,
    Setup, register,
};
use millrace_elements::capability::Storage;

/// The element; its manual is at the top of the file.
pub struct LifoQueue {
    capacity: usize,
    /// The oldest first.
    packets: Lock<VecDeque<Packet>>,
    /// What handlers and other elements read, without the lock.
    length: AtomicUsize,
    highwater: AtomicUsize,
    drops: AtomicU64,
    /// Whether there are packets.
    notifier: Notifier,
}

register!(LifoQueue, "lifo_queue.rs");

impl Element for LifoQueue {
    const CLASS: Class = Class::new("LIFOQueue", "1/1", "h/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let capacity: u32 = setup.args.positional("CAPACITY", 1000);
        setup.args.complete()?;
        Ok(Self {
            capacity: capacity as usize,
            packets: Lock::default(),
            length: 0.into(),
            highwater: 0.into(),
            drops: 0.into(),
            notifier: Notifier::default(),
        })
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let mut packets = self.packets.lock();
        for packet in batch.drain() {
            packets.push_back(packet);
            if packets.len() > self.capacity
                && let Some(oldest) = packets.pop_front()
            {
                self.drops.fetch_add(1, Relaxed);
                cx.drop(oldest, Reason::QueueFull);
            }
        }
        self.show(packets.len());
    }

    fn pull(&self, _cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let mut packets = self.packets.lock();
        for _ in 0..max.min(batch.room()) {
            let Some(newest) = packets.pop_back() else { break };
            // There is room.
            drop(batch.push(newest));
        }
        self.show(packets.len());
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn Storage>(self.clone());
    }

    fn held(&self) -> usize {
        self.size()
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        let mut before = old.packets.lock();
        let excess = before.len().saturating_sub(self.capacity);
        let newest = before.split_off(excess);
        self.show(newest.len());
        *self.packets.lock() = newest;
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("length", |queue, _| queue.size());
        handlers.read("highwater_length", |queue, _| queue.highwater.load(Relaxed));
        handlers.read("capacity", |queue, _| queue.capacity);
        handlers.read("drops", |queue, _| queue.drops.load(Relaxed));
    }
}

impl LifoQueue {
    /// Publishes the number of packets. The caller holds the lock, so that pushers and pullers agree on who came first.
    fn show(&self, length: usize) {
        self.length.store(length, Relaxed);
        self.highwater.fetch_max(length, Relaxed);
        match length {
            0 => self.notifier.sleep(),
            _ => self.notifier.wake(),
        }
    }
}

/// What RED and similar elements read.
impl Storage for LifoQueue {
    fn size(&self) -> usize {
        self.length.load(Relaxed)
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn the_newest_packet_leaves_first_and_the_oldest_is_dropped() {
        let mut rig = Rig::new("LIFOQueue(3)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b", "c", "d"])[0], [b"d", b"c", b"b"]);
        assert_eq!(rig.stats().drops, [(Reason::QueueFull, 1)]);
        assert_eq!(rig.read("drops").unwrap(), "1");
        assert_eq!(rig.read("highwater_length").unwrap(), "3");
        assert_eq!(rig.read("length").unwrap(), "0");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn a_queue_without_capacity_drops_every_packet() {
        let mut rig = Rig::new("LIFOQueue(0)", 1, 1).unwrap();
        assert!(rig.push(0, &["a", "b"])[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::QueueFull, 2)]);
        assert!(rig.stats().balanced());
    }
}

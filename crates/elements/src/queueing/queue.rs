//! Queue - keeps packets until they are pulled
//!
//! # Synopsis
//! `Queue([CAPACITY])`
//!
//! # Description
//! Stores the packets that are pushed to it, up to CAPACITY, and gives them in the same order to
//! whoever pulls. When it is full it drops what comes. It tells pullers upstream and downstream of
//! it: an Unqueue rests while the queue is empty, an InfiniteSource while it is full.
//!
//! Any number of threads may push to it and pull from it. SimpleQueue, ThreadSafeQueue and
//! NotifierQueue are other names of the same element; where Click has differences between them,
//! they are about threads and notification, which this one always has.
//!
//! # Arguments
//! - CAPACITY: most packets that it keeps. Positional, default 1000.
//!
//! # Ports
//! One push input, one pull output.
//!
//! # Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): the most there have been since the last reset of counts.
//! - `capacity` (read, write): the capacity; packets beyond a smaller one are dropped.
//! - `drops` (read): packets dropped since the last reset of counts.
//! - `reset_counts` (write): sets `drops` and `highwater_length` to 0.
//! - `reset` (write): drops every packet in the queue.
//!
//! # Drops
//! - queue full: there was no room.
//! - discarded: by the handlers `reset` and `capacity`.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> q :: Queue(20) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! Unqueue, RatedUnqueue, FrontDropQueue, Pipeliner

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Notifier, Packet, Reason, Setup, register,
};

/// The element; its manual is at the top of the file.
pub struct Queue {
    store: Mutex<Store>,
    /// Whether there are packets.
    full: Notifier,
    /// Whether there is room.
    room: Notifier,
}

struct Store {
    packets: VecDeque<Packet>,
    capacity: usize,
    highwater: usize,
    drops: u64,
    /// Packets that a handler threw out, not yet counted as drops by a thread of the graph.
    thrown_out: usize,
}

register!(Queue, "queue.rs");

impl Element for Queue {
    const CLASS: Class = Class::new("Queue", "1/1", "h/l").aliases(&[
        "SimpleQueue",
        "ThreadSafeQueue",
        "NotifierQueue",
        "FullNoteQueue",
    ]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let capacity: u32 = setup.args.positional("CAPACITY", 1000);
        setup.args.complete()?;
        let queue = Self {
            store: Mutex::new(Store {
                packets: VecDeque::new(),
                capacity: capacity as usize,
                highwater: 0,
                drops: 0,
                thrown_out: 0,
            }),
            full: Notifier::default(),
            room: Notifier::default(),
        };
        queue.tell(&queue.store());
        Ok(queue)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let mut store = self.store();
        let free = store.capacity.saturating_sub(store.packets.len());
        let kept = free.min(batch.len());
        store.packets.extend(batch.drain_front(kept));
        store.highwater = store.highwater.max(store.packets.len());
        let refused = batch.len();
        let first_overflow = store.drops == 0 && refused > 0;
        store.drops += refused as u64;
        let thrown_out = std::mem::take(&mut store.thrown_out);
        self.tell(&store);
        drop(store);
        cx.dropped(thrown_out, Reason::Discarded);
        if refused > 0 {
            cx.drop_batch(batch, Reason::QueueFull);
        }
        if first_overflow {
            let router = cx.router();
            router.chatter(&format!("{} :: Queue: overflow", router.name_of(cx.element())));
        }
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let mut store = self.store();
        let n = max.min(batch.room()).min(store.packets.len());
        for packet in store.packets.drain(..n) {
            // There is room for n.
            let _ = batch.push(packet);
        }
        let thrown_out = std::mem::take(&mut store.thrown_out);
        self.tell(&store);
        drop(store);
        cx.dropped(thrown_out, Reason::Discarded);
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.full)
    }

    fn room_notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.room)
    }

    fn held(&self) -> usize {
        let store = self.store();
        store.packets.len() + store.thrown_out
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("length", |queue, _| queue.store().packets.len());
        handlers.read("highwater_length", |queue, _| queue.store().highwater);
        handlers.read("capacity", |queue, _| queue.store().capacity);
        handlers.write("capacity", |queue, call| {
            let capacity: u32 = call.parse()?;
            let mut store = queue.store();
            store.capacity = capacity as usize;
            queue.throw_out(&mut store, capacity as usize);
            Ok(())
        });
        handlers.read("drops", |queue, _| queue.store().drops);
        handlers.write("reset_counts", |queue, _| {
            let mut store = queue.store();
            store.drops = 0;
            store.highwater = 0;
            Ok(())
        });
        handlers.write("reset", |queue, _| {
            queue.throw_out(&mut queue.store(), 0);
            Ok(())
        });
    }
}

impl Queue {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops packets from the end until there are `keep`.
    fn throw_out(&self, store: &mut Store, keep: usize) {
        store.thrown_out += store.packets.len().saturating_sub(keep);
        store.packets.truncate(keep);
        self.tell(store);
    }

    /// Tells both sides how the queue stands.
    fn tell(&self, store: &Store) {
        match store.packets.is_empty() {
            true => self.full.sleep(),
            false => self.full.wake(),
        }
        match store.packets.len() < store.capacity {
            true => self.room.wake(),
            false => self.room.sleep(),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn gives_packets_in_order() {
        let mut rig = Rig::new("Queue", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b", "c"])[0], [b"a", b"b", b"c"]);
        assert_eq!(rig.read("highwater_length").unwrap(), "3");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn drops_what_it_has_no_room_for() {
        let mut rig = Rig::new("SimpleQueue(2)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b", "c"])[0], [b"a", b"b"]);
        assert_eq!(rig.stats().drops, [(Reason::QueueFull, 1)]);
        assert_eq!(rig.read("drops").unwrap(), "1");
        rig.write("reset_counts", "").unwrap();
        assert_eq!(rig.read("drops").unwrap(), "0");
    }

    #[test]
    fn a_queue_without_capacity_keeps_nothing() {
        let mut rig = Rig::new("Queue(0)", 1, 1).unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        rig.write("capacity", "1").unwrap();
        assert_eq!(rig.push(0, &["a"])[0].len(), 1);
        assert!(rig.write("capacity", "many").is_err());
    }
}

//! Queue - stores packets in first-in first-out order until they are pulled
//!
//! # Synopsis
//! `Queue([CAPACITY])`
//!
//! # Description
//! Stores pushed packets, up to CAPACITY, and gives them to its puller in order of arrival. When it is full, it drops
//! new packets. It notifies both sides: an Unqueue sleeps while the queue is empty, an InfiniteSource while it is full.
//! FullNoteQueue is another name for this element.
//!
//! Any number of threads can push to it and pull from it. Packets are not copied.
//!
//! # Arguments
//! - CAPACITY: maximum number of packets. Positional, default 1000.
//!
//! # Ports
//! One push input, one pull output. Packets that do not fit leave by push output 1 if it is connected.
//!
//! # Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): the largest `length` since the last reset of counts.
//! - `capacity` (read, write): the capacity; reducing it drops the packets that no longer fit.
//! - `config` (read, write): the arguments; the capacity changes with them.
//! - `drops` (read): packets that did not fit since the last reset of counts.
//! - `reset_counts` (write): sets `drops` and `highwater_length` to 0.
//! - `reset` (write): drops every packet in the queue.
//!
//! # Drops
//! - queue full: the queue was full, and output 1 is not connected.
//! - discarded: dropped by a write to `reset` or `capacity`, or by a hot swap to a smaller capacity.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> q :: Queue(20) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! SimpleQueue, NotifierQueue, QuickNoteQueue, FrontDropQueue, MixedQueue, CPUQueue, Unqueue, Pipeliner

use std::marker::PhantomData;
use std::sync::Arc;

use millrace_core::{
    Batch, Class, Context, Element, Failed, Footprint, Handlers, Init, Notifier, Offers, Setup,
    register,
};

use super::store::{End, PATIENCE, Store};

use crate::capability::Storage;

/// The class's discipline; its manual is at the top of the file.
pub struct TellsBoth;

/// The element.
pub type Queue = Kept<TellsBoth>;

register!(Queue, "queue.rs");

impl Discipline for TellsBoth {
    const CLASS: Class = Class::new("Queue", "1/1-2", "h/lh").aliases(&["FullNoteQueue"]);
    const TELLS_ROOM: bool = true;
}

/// The differences between classes of queues.
pub trait Discipline: Send + Sync + 'static {
    /// The class.
    const CLASS: Class;
    /// Whether pushers are notified when there is room.
    const TELLS_ROOM: bool = false;
    /// Whether pullers are notified when there are packets.
    const TELLS_PACKETS: bool = true;
    /// How many pulls can find the queue empty before its pullers are put to sleep.
    const PATIENCE: u32 = PATIENCE;
    /// Which end keeps its packets when a handler makes the queue smaller.
    const KEEPS: End = End::Front;

    /// Stores packets from input `port`; those that do not fit leave the queue.
    fn put(store: &Store, cx: &mut Context, _port: usize, batch: &mut Batch) {
        store.append(cx, batch);
    }
}

/// A queue with a discipline.
pub struct Kept<D> {
    store: Store,
    discipline: PhantomData<fn() -> D>,
}

impl<D: Discipline> Element for Kept<D> {
    const CLASS: Class = D::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Ok(Self { store: Store::configure(setup, D::KEEPS, D::PATIENCE)?, discipline: PhantomData })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        D::put(&self.store, cx, port, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        self.store.take(cx, max, batch);
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn Storage>(self.clone());
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        D::TELLS_PACKETS.then(|| self.store.packets())
    }

    fn room_notifier(&self, _port: usize) -> Option<&Notifier> {
        D::TELLS_ROOM.then(|| self.store.room())
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.store.take_state(&old.store);
    }

    fn held(&self) -> usize {
        self.store.held()
    }

    fn footprint(&self) -> Footprint {
        self.store.footprint()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Store::handlers(handlers, |queue| &queue.store);
    }
}

impl<D: Discipline> Storage for Kept<D> {
    fn size(&self) -> usize {
        self.store.len()
    }

    fn capacity(&self) -> usize {
        self.store.capacity()
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn packets_leave_in_order() {
        let mut rig = Rig::new("Queue", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b", "c"])[0], [b"a", b"b", b"c"]);
        assert_eq!(rig.read("highwater_length").unwrap(), "3");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn drops_packets_when_full() {
        let mut rig = Rig::new("SimpleQueue(2)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b", "c"])[0], [b"a", b"b"]);
        assert_eq!(rig.stats().drops, [(Reason::QueueFull, 1)]);
        assert_eq!(rig.read("drops").unwrap(), "1");
        rig.write("reset_counts", "").unwrap();
        assert_eq!(rig.read("drops").unwrap(), "0");
    }

    #[test]
    fn a_queue_without_capacity_stores_nothing() {
        let mut rig = Rig::new("Queue(0)", 1, 1).unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        rig.write("capacity", "1").unwrap();
        assert_eq!(rig.push(0, &["a"])[0].len(), 1);
        assert!(rig.write("capacity", "many").is_err());
    }

    #[test]
    fn overflow_leaves_by_output_1() {
        let mut rig = Rig::new("Queue(1)", 1, 2).unwrap();
        assert_eq!(
            rig.push(0, &["a", "b", "c"]),
            [vec![b"a".to_vec()], vec![b"b".to_vec(), b"c".to_vec()]]
        );
        assert_eq!((rig.read("drops").unwrap(), rig.stats().dropped()), ("2".to_owned(), 0));
        assert!(rig.stats().balanced());
    }
}

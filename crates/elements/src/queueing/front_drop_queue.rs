//! FrontDropQueue - keeps packets until they are pulled, the newest ones when there is no room for all
//!
//! # Synopsis
//! `FrontDropQueue([CAPACITY])`
//!
//! # Description
//! Stores the packets that are pushed to it, up to CAPACITY, and gives them in the same order to whoever
//! pulls. When it is full, the packet at its front goes for each one that comes: who waits long for packets
//! gets fresh ones. Any number of threads may push to it and pull from it.
//!
//! # Arguments
//! - CAPACITY: most packets that it keeps. Positional, default 1000.
//!
//! # Ports
//! One push input, one pull output. Packets that have to go leave by push output 1, if that is connected.
//!
//! # Handlers
//! - `length` (read): packets in the queue.
//! - `highwater_length` (read): the most there have been since the last reset of counts.
//! - `capacity` (read, write): the capacity; packets beyond a smaller one are dropped.
//! - `drops` (read): packets that found no room since the last reset of counts.
//! - `reset_counts` (write): sets `drops` and `highwater_length` to 0.
//! - `reset` (write): drops every packet in the queue.
//!
//! # Drops
//! - queue full: a packet made room for another, and output 1 is not connected.
//! - discarded: by the handlers `reset` and `capacity`.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> FrontDropQueue(20) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! Queue, MixedQueue

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Notifier, Setup, register,
};

use super::store::Store;

/// The element; its manual is at the top of the file.
pub struct FrontDropQueue(Store);

register!(FrontDropQueue, "front_drop_queue.rs");

impl Element for FrontDropQueue {
    const CLASS: Class = Class::new("FrontDropQueue", "1/1-2", "h/lh");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Store::configure(setup).map(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.0.append_all(cx, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        self.0.take(cx, max, batch);
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(self.0.packets())
    }

    fn room_notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(self.0.room())
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.0.take_state(&old.0);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Store::handlers(handlers, |queue| &queue.0);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn the_oldest_packets_go() {
        let mut rig = Rig::new("FrontDropQueue(2)", 1, 2).unwrap();
        let out = rig.push(0, &["a", "b", "c", "d"]);
        let text =
            |packets: &[&str]| packets.iter().map(|p| p.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(out, [text(&["c", "d"]), text(&["a", "b"])]);
        assert!(rig.stats().balanced());

        let mut rig = Rig::new("FrontDropQueue(0)", 1, 1).unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        assert_eq!(rig.read("drops").unwrap(), "1");
        assert!(rig.stats().balanced());
    }
}

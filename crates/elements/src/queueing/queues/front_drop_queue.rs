//! FrontDropQueue - keeps packets until they are pulled, the newest ones when there is no room for all
//!
//! # Synopsis
//! `FrontDropQueue([CAPACITY])`
//!
//! # Description
//! Stores the packets that are pushed to it, up to CAPACITY, and gives them in the same order to whoever
//! pulls. When it is full, the packet at its front goes for each one that comes: who waits long for packets
//! gets fresh ones. So it is when `capacity` is made smaller. Any number of threads may push to it and pull
//! from it.
//!
//! # Arguments
//! - CAPACITY: most packets that it keeps. Positional, default 1000.
//!
//! # Ports
//! One push input, one pull output. Packets that find no room leave by push output 1, if that is connected.
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
//! - queue full: there was no room, and output 1 is not connected.
//! - discarded: by the handlers `reset` and `capacity`.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> FrontDropQueue(20) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! Queue, MixedQueue

use millrace_core::{Batch, Class, Context, register};

use super::kept::{Discipline, Kept};
use super::store::{End, Store};

/// What distinguishes the class; its manual is at the top of the file.
pub struct FrontDrop;

/// The element.
pub type FrontDropQueue = Kept<FrontDrop>;

register!(FrontDropQueue, "front_drop_queue.rs");

impl Discipline for FrontDrop {
    const CLASS: Class = Class::new("FrontDropQueue", "1/1-2", "h/lh");
    const KEEPS: End = End::Back;

    fn put(store: &Store, cx: &mut Context, _port: usize, batch: &mut Batch) {
        store.append_all(cx, batch);
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

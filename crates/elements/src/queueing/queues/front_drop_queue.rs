//! FrontDropQueue - stores packets until they are pulled, and drops the oldest ones when full
//!
//! # Synopsis
//! `FrontDropQueue([CAPACITY])`
//!
//! # Description
//! Stores pushed packets, up to CAPACITY, and gives them to its puller in order of arrival. When it is full, each new
//! packet displaces the oldest one, so that a slow puller gets fresh packets. Reducing `capacity` also drops the oldest
//! packets. Any number of threads can push to it and pull from it.
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
//! InfiniteSource(LIMIT 100) -> FrontDropQueue(20) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! Queue, MixedQueue

use millrace_core::{Batch, Class, Context, register};

use super::queue::{Discipline, Kept};
use super::store::{End, Store};

/// The class's discipline; its manual is at the top of the file.
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
    fn the_oldest_packets_are_dropped() {
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

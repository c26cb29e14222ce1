//! MixedQueue - stores packets in first-in first-out order from input 0, last-in first-out from input 1
//!
//! # Synopsis
//! `MixedQueue([CAPACITY])`
//!
//! # Description
//! Stores pushed packets, up to CAPACITY. Packets from input 0 are added at the end, as in a Queue; when it is full
//! they do not fit. Packets from input 1 are added at the front, so that the last to arrive is the first to leave;
//! when it is full, each displaces the packet at the end. Any number of threads can push to it and pull from it.
//!
//! # Arguments
//! - CAPACITY: maximum number of packets. Positional, default 1000.
//!
//! # Ports
//! Two push inputs, one pull output. Packets that do not fit leave by push output 1 if it is connected.
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
//! InfiniteSource(LIMIT 100) -> q :: MixedQueue(20) -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 1) -> [1] q;
//! ```
//!
//! # See also
//! Queue, FrontDropQueue

use millrace_core::{Batch, Class, Context, register};

use super::queue::{Discipline, Kept};
use super::store::Store;

/// The class's discipline; its manual is at the top of the file.
pub struct Mixed;

/// The element.
pub type MixedQueue = Kept<Mixed>;

register!(MixedQueue, "mixed_queue.rs");

impl Discipline for Mixed {
    const CLASS: Class = Class::new("MixedQueue", "2/1-2", "h/lh");

    fn put(store: &Store, cx: &mut Context, port: usize, batch: &mut Batch) {
        match port {
            0 => store.append(cx, batch),
            _ => store.prepend(cx, batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn packets_from_input_1_leave_first() {
        let mut rig = Rig::new("MixedQueue(3)", 2, 2).unwrap();
        let text =
            |packets: &[&str]| packets.iter().map(|p| p.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(rig.push(1, &["a", "b"])[0], text(&["b", "a"]));
        // Each packet is added at the front; the ones at the end are displaced.
        assert_eq!(rig.push(1, &["a", "b", "c", "d"]), [text(&["d", "c", "b"]), text(&["a"])]);
        assert_eq!(rig.push(0, &["a", "b", "c", "d"]), [text(&["a", "b", "c"]), text(&["d"])]);
        assert!(rig.stats().balanced());
    }
}

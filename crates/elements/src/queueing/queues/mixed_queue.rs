//! MixedQueue - keeps packets until they are pulled; what comes by its second input goes first
//!
//! # Synopsis
//! `MixedQueue([CAPACITY])`
//!
//! # Description
//! Stores the packets that are pushed to it, up to CAPACITY. Those of input 0 go to its end, as in a Queue;
//! when it is full they find no room. Those of input 1 go to its front, so that the last one to come is the
//! first one to leave; when it is full, the packet at its end goes instead. Any number of threads may push
//! to it and pull from it.
//!
//! # Arguments
//! - CAPACITY: most packets that it keeps. Positional, default 1000.
//!
//! # Ports
//! Two push inputs, one pull output. Packets that find no room leave by push output 1, if that is connected.
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
//! InfiniteSource(LIMIT 100) -> q :: MixedQueue(20) -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 1) -> [1] q;
//! ```
//!
//! # See also
//! Queue, FrontDropQueue

use millrace_core::{Batch, Class, Context, register};

use super::kept::{Discipline, Kept};
use super::store::Store;

/// What distinguishes the class; its manual is at the top of the file.
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
    fn the_second_input_comes_first() {
        let mut rig = Rig::new("MixedQueue(3)", 2, 2).unwrap();
        let text =
            |packets: &[&str]| packets.iter().map(|p| p.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(rig.push(1, &["a", "b"])[0], text(&["b", "a"]));
        // One by one they are put in front; the last ones in the row go.
        assert_eq!(rig.push(1, &["a", "b", "c", "d"]), [text(&["d", "c", "b"]), text(&["a"])]);
        assert_eq!(rig.push(0, &["a", "b", "c", "d"]), [text(&["a", "b", "c"]), text(&["d"])]);
        assert!(rig.stats().balanced());
    }
}

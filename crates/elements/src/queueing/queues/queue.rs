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

use millrace_core::{Class, register};

use super::kept::{Discipline, Kept};

/// The class's discipline; its manual is at the top of the file.
pub struct TellsBoth;

/// The element.
pub type Queue = Kept<TellsBoth>;

register!(Queue, "queue.rs");

impl Discipline for TellsBoth {
    const CLASS: Class = Class::new("Queue", "1/1-2", "h/lh").aliases(&["FullNoteQueue"]);
    const TELLS_ROOM: bool = true;
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

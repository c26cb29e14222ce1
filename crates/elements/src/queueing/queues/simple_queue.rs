//! SimpleQueue - keeps packets until they are pulled
//!
//! # Synopsis
//! `SimpleQueue([CAPACITY])`
//!
//! # Description
//! Stores the packets that are pushed to it, up to CAPACITY, and gives them in the same order to
//! whoever pulls. When it is full it drops what comes. It tells nobody how it stands: who
//! pulls from it never rests.
//!
//! Any number of threads may push to it and pull from it. Packets are not copied.
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
//! InfiniteSource(LIMIT 100) -> SimpleQueue(20) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! Queue, NotifierQueue

use millrace_core::{Class, register};

use super::kept::{Discipline, Kept};

/// What distinguishes the class; its manual is at the top of the file.
pub struct TellsNobody;

/// The element.
pub type SimpleQueue = Kept<TellsNobody>;

register!(SimpleQueue, "simple_queue.rs");

impl Discipline for TellsNobody {
    const CLASS: Class = Class::new("SimpleQueue", "1/1-2", "h/lh");
    const TELLS_PACKETS: bool = false;
}

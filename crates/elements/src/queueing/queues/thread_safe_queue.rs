//! ThreadSafeQueue - stores packets until they are pulled, for any number of threads
//!
//! # Synopsis
//! `ThreadSafeQueue([CAPACITY])`
//!
//! # Description
//! Stores pushed packets, up to CAPACITY, and gives them to its puller in order of arrival. When it is full, it drops
//! new packets. It notifies both sides, as Queue does.
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
//! InfiniteSource(LIMIT 100) -> ThreadSafeQueue(20) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! Queue, MSQueue, Pipeliner

use millrace_core::{Class, register};

use super::queue::{Discipline, Kept};

/// The class's discipline; its manual is at the top of the file.
pub struct AmongThreads;

/// The element.
pub type ThreadSafeQueue = Kept<AmongThreads>;

register!(ThreadSafeQueue, "thread_safe_queue.rs");

impl Discipline for AmongThreads {
    const CLASS: Class = Class::new("ThreadSafeQueue", "1/1-2", "h/lh");
    const TELLS_ROOM: bool = true;
}

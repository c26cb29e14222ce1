//! BandwidthRatedUnqueue - pulls packets at a limited bandwidth and pushes them on
//!
//! # Synopsis
//! `BandwidthRatedUnqueue(RATE, keywords BURST_DURATION, BURST_BYTES, ACTIVE)`
//!
//! # Description
//! Pulls one packet at a time, up to RATE bytes per second, and pushes it on. A token bucket saves unused credit, up to
//! BURST_BYTES bytes; it is full at first. A packet is pulled while the bucket is not overdrawn, and overdraws it if it
//! is longer than the credit. Time counts in milliseconds, as in Click.
//!
//! # Arguments
//! - RATE: bandwidth, such as `10Mbps`. Positional, mandatory.
//! - BURST_DURATION: size of the bucket, as the time in which RATE fills it. Default 20ms.
//! - BURST_BYTES: size of the bucket in bytes. Cannot be combined with BURST_DURATION.
//! - ACTIVE: whether the element pulls. Default true.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `rate` (read, write), `active` (read, write): the RATE and ACTIVE arguments.
//! - `config` (read): the current rate. `config` (write): all arguments, while packets run.
//! - `calls` (read): statistics: task runs, empty runs, pushes, failed pulls and packets.
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> BandwidthRatedUnqueue(1MBps) -> Discard;
//! ```
//!
//! # See also
//! RatedUnqueue, BandwidthShaper, LinkUnqueue

use millrace_core::{Class, register};

use super::rated_unqueue::{Rated, RatedClass};
use crate::queueing::shapers::rate::pace::Unit;

/// The class; its manual is at the top of the file.
pub struct BandwidthRatedUnqueue;

register!(Rated<BandwidthRatedUnqueue>, "bandwidth_rated_unqueue.rs");

impl RatedClass for BandwidthRatedUnqueue {
    const CLASS: Class = Class::new("BandwidthRatedUnqueue", "1/1", "l/h");
    const UNIT: Unit = Unit::Bytes;
}

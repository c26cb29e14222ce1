//! Burster - pulls a burst of packets at regular intervals and pushes it on
//!
//! # Synopsis
//! `Burster(INTERVAL [, BURST])`
//!
//! # Description
//! A TimedUnqueue with a different default for BURST: pulls up to BURST packets at once, pushes them on, and repeats
//! after INTERVAL. If it finds no packets and the queues upstream report none, it sleeps until a packet arrives, and
//! pulls that one immediately.
//!
//! # Arguments
//! - INTERVAL: time between pulls, in whole milliseconds. Positional, mandatory.
//! - BURST: maximum number of packets at a time. Positional, default 8.
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Handlers
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled; the thread that runs the task.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Burster(10ms) -> Discard;
//! ```
//!
//! # See also
//! TimedUnqueue, Unqueue, RatedUnqueue, TimedSink

use millrace_core::{Class, register};

use super::timed_unqueue::{Timed, TimedClass};

/// The class; its manual is at the top of the file.
pub struct Burster;

register!(Timed<Burster>, "burster.rs");

impl TimedClass for Burster {
    const CLASS: Class = Class::new("Burster", "1/1", "l/h");
    const BURST: i32 = 8;
}

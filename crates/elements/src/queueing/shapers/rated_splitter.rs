//! RatedSplitter - limits a stream to a packet rate, and sends the excess to a second output
//!
//! # Synopsis
//! `RatedSplitter(RATE, keywords BURST_DURATION, BURST_SIZE)`
//!
//! # Description
//! Sends up to RATE packets per second to output 0, and those above that to output 1. A token bucket saves unused
//! credit; it is full at first. Time counts in milliseconds, as in Click.
//!
//! # Arguments
//! - RATE: packets per second. Positional, mandatory.
//! - BURST_DURATION: size of the bucket, as the time in which RATE fills it. Default 20ms.
//! - BURST_SIZE: size of the bucket in packets. Cannot be combined with BURST_DURATION.
//!
//! # Ports
//! One push input; one or two push outputs.
//!
//! # Handlers
//! - `rate` (read, write): the RATE argument.
//! - `config` (read): the current rate.
//!
//! # Drops
//! - unconnected: the packet was above the rate, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> s :: RatedSplitter(2000, BURST_SIZE 10) -> Discard;
//! s [1] -> Print("too many") -> Discard;
//! ```
//!
//! # See also
//! BandwidthRatedSplitter, Meter, Shaper, RatedUnqueue

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::rate::pace::Unit;
use super::splitting::Splitting;

/// The element; its manual is at the top of the file.
pub struct RatedSplitter(Splitting);

register!(RatedSplitter, "rated_splitter.rs");

impl Element for RatedSplitter {
    const CLASS: Class = Class::new("RatedSplitter", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Splitting::configure(setup, Unit::Packets).map(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.0.push(cx, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Splitting::handlers(handlers, |splitter| &splitter.0);
    }
}

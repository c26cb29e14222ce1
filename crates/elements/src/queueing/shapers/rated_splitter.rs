//! RatedSplitter - lets packets up to a rate pass, and sends the others elsewhere
//!
//! # Synopsis
//! `RatedSplitter(RATE, keywords BURST_DURATION, BURST_SIZE)`
//!
//! # Description
//! Sends RATE packets a second by output 0 and those above it by output 1. A token bucket holds the right to
//! what did not come in time; it is full at first. Time counts in milliseconds, as in Click.
//!
//! # Arguments
//! - RATE: packets a second. Positional, mandatory.
//! - BURST_DURATION: the bucket holds as many packets as come in this time. Default 20ms.
//! - BURST_SIZE: the bucket holds this many packets. Not together with BURST_DURATION.
//!
//! # Ports
//! One push input; one or two push outputs.
//!
//! # Handlers
//! - `rate` (read, write): the RATE argument.
//! - `config` (read): the current rate.
//!
//! # Drops
//! Packets above the rate when output 1 is not connected (unconnected).
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

use super::pace::Unit;
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

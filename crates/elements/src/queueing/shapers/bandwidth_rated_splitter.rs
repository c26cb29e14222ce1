//! BandwidthRatedSplitter - limits a stream to a bandwidth, and sends the excess to a second output
//!
//! # Synopsis
//! `BandwidthRatedSplitter(RATE, keywords BURST_DURATION, BURST_BYTES)`
//!
//! # Description
//! Sends up to RATE bytes per second to output 0, and packets above that to output 1. A token bucket saves unused
//! credit. It is full at first, and a packet can overdraw it. Time counts in milliseconds, as in Click.
//!
//! # Arguments
//! - RATE: bandwidth, such as `384kbps`. Positional, mandatory.
//! - BURST_DURATION: size of the bucket, as the time in which RATE fills it. Default 20ms.
//! - BURST_BYTES: size of the bucket in bytes. Cannot be combined with BURST_DURATION.
//!
//! # Ports
//! One push input; one or two push outputs.
//!
//! # Handlers
//! - `rate` (read, write): the RATE argument.
//! - `config` (read): the current rate. `config` (write): all arguments, while packets run.
//!
//! # Drops
//! - unconnected: the packet was above the rate, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> s :: BandwidthRatedSplitter(2MBps, BURST_BYTES 3000) -> Discard;
//! s [1] -> Print("too much") -> Discard;
//! ```
//!
//! # See also
//! RatedSplitter, BandwidthMeter, Shaper, RatedUnqueue

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::rate::pace::Unit;
use super::rated_splitter::Splitting;

/// The element; its manual is at the top of the file.
pub struct BandwidthRatedSplitter(Splitting);

register!(BandwidthRatedSplitter, "bandwidth_rated_splitter.rs");

impl Element for BandwidthRatedSplitter {
    const CLASS: Class = Class::new("BandwidthRatedSplitter", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Splitting::configure(setup, Unit::Bytes).map(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.0.push(cx, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Splitting::handlers(handlers, |splitter| &splitter.0);
    }
}

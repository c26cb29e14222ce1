//! BandwidthRatedSplitter - lets packets up to a bandwidth pass, and sends the others elsewhere
//!
//! # Synopsis
//! `BandwidthRatedSplitter(RATE, keywords BURST_DURATION, BURST_BYTES)`
//!
//! # Description
//! Sends packets of RATE bytes a second by output 0 and those above it by output 1. A token bucket holds the right to
//! what did not come in time; it is full at first, and a packet may overdraw it. Time counts in milliseconds, as in
//! Click.
//!
//! # Arguments
//! - RATE: bandwidth, such as `384kbps`. Positional, mandatory.
//! - BURST_DURATION: the bucket holds as many bytes as come in this time. Default 20ms.
//! - BURST_BYTES: the bucket holds this many bytes. Not together with BURST_DURATION.
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
//! InfiniteSource(LIMIT 100) -> s :: BandwidthRatedSplitter(2MBps, BURST_BYTES 3000) -> Discard;
//! s [1] -> Print("too much") -> Discard;
//! ```
//!
//! # See also
//! RatedSplitter, BandwidthMeter, Shaper, RatedUnqueue

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::pace::Unit;
use super::splitting::Splitting;

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

//! BandwidthMeter - sends packets by one of several outputs, by how many bytes come a second
//!
//! # Synopsis
//! `BandwidthMeter(RATE1, RATE2, ...)`
//!
//! # Description
//! Measures how many bytes come a second: an exponentially weighted moving average over milliseconds. As long as it
//! is below RATE1 all packets leave by output 0, from there on by output 1, from RATE2 on by output 2, and so on.
//!
//! # Arguments
//! - RATE1, RATE2, ...: bandwidths such as `384kbps`, each greater than the one before, at most 4194303 bytes a
//!   second; one less than there are outputs. Bytes a second when there is no unit, with a warning.
//!
//! # Ports
//! One push input, two or more push outputs.
//!
//! # Handlers
//! - `rate` (read): recent bytes a second.
//! - `meters` (read): the bandwidths in bytes a second, in the precision in which they are kept, one right after
//!   the other.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> m :: BandwidthMeter(20kBps) -> Discard;
//! m [1] -> Print("too much") -> Discard;
//! ```
//!
//! # See also
//! Meter, BandwidthRatedSplitter, BandwidthShaper, Counter

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::metering::Metering;

/// The element; its manual is at the top of the file.
pub struct BandwidthMeter(Metering);

register!(BandwidthMeter, "bandwidth_meter.rs");

impl Element for BandwidthMeter {
    const CLASS: Class = Class::new("BandwidthMeter", "1/2-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Metering::configure(setup).map(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let bytes = batch.iter().map(|packet| packet.len() as u64).sum();
        self.0.push(cx, bytes, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Metering::handlers(handlers, |meter| &meter.0);
    }
}

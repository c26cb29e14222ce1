//! BandwidthMeter - classifies packets by the measured bandwidth (bytes per second)
//!
//! # Synopsis
//! `BandwidthMeter(RATE1, RATE2, ...)`
//!
//! # Description
//! Measures bytes per second as an exponentially weighted moving average over milliseconds. While the average is below
//! RATE1, all packets leave by output 0; from RATE1 on they leave by output 1, from RATE2 on by output 2, and likewise
//! for the other rates.
//!
//! # Arguments
//! - RATE1, RATE2, ...: bandwidths such as `384kbps`, one fewer than there are outputs. Each is greater than the one
//!   before, and at most 4194303 bytes per second. A number without a unit means bytes per second, with a warning.
//!
//! # Ports
//! One push input, two or more push outputs.
//!
//! # Handlers
//! - `rate` (read): the average bytes per second.
//! - `meters` (read): the bandwidths in bytes per second, as rounded internally, concatenated without separators.
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

use super::meter::Metering;

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

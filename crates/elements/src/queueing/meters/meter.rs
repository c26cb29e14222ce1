//! Meter - classifies packets by the measured packet rate
//!
//! # Synopsis
//! `Meter(RATE1, RATE2, ...)`
//!
//! # Description
//! Measures packets per second as an exponentially weighted moving average over milliseconds, like Counter. While the
//! average is below RATE1, all packets leave by output 0; from RATE1 on they leave by output 1, from RATE2 on by output
//! 2, and likewise for the other rates. To limit a stream to a rate, use RatedSplitter.
//!
//! PacketMeter is another name for this element.
//!
//! # Arguments
//! - RATE1, RATE2, ...: packets per second, one fewer than there are outputs. Each is greater than the one before, and
//!   at most 4194303. They are parsed as bandwidths, as in Click, so a number without a unit causes a warning; it still
//!   means packets.
//!
//! # Ports
//! One push input, two or more push outputs.
//!
//! # Handlers
//! - `rate` (read): the average packets per second.
//! - `meters` (read): the rates, as rounded internally, concatenated without separators.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> m :: Meter(10000) -> Discard;
//! m [1] -> Print("too many") -> Discard;
//! ```
//!
//! # See also
//! BandwidthMeter, RatedSplitter, Shaper, Counter

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::metering::Metering;

/// The element; its manual is at the top of the file.
pub struct Meter(Metering);

register!(Meter, "meter.rs");

impl Element for Meter {
    const CLASS: Class = Class::new("Meter", "1/2-", "h/h").aliases(&["PacketMeter"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Metering::configure(setup).map(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.0.push(cx, batch.len() as u64, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Metering::handlers(handlers, |meter| &meter.0);
    }
}

//! Meter - sends packets by one of several outputs, by how many come a second
//!
//! # Synopsis
//! `Meter(RATE1, RATE2, ...)`
//!
//! # Description
//! Measures how many packets come a second: an exponentially weighted moving average over milliseconds, as Counter
//! does. As long as it is below RATE1 all packets leave by output 0, from there on by output 1, from RATE2 on by
//! output 2, and so on. To pass some of the packets of a stream, use RatedSplitter.
//!
//! PacketMeter is another name of it.
//!
//! # Arguments
//! - RATE1, RATE2, ...: rates, each greater than the one before, at most 4194303; one less than there are outputs.
//!   They are read as bandwidths, so that Click warns of a number without a unit; it is the number of packets.
//!
//! # Ports
//! One push input, two or more push outputs.
//!
//! # Handlers
//! - `rate` (read): recent packets a second.
//! - `meters` (read): the rates, in the precision in which they are kept, one right after the other.
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

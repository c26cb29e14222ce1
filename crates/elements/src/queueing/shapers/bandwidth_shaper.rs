//! BandwidthShaper - limits the bandwidth (bytes per second) at which packets can be pulled
//!
//! # Synopsis
//! `BandwidthShaper(RATE)`
//!
//! # Description
//! Lets at most RATE bytes per second be pulled, evenly spread: in each part of a second no more than its share, plus
//! what was left unused before. Other pulls get nothing. Pulls from a second output get the packets above the rate.
//!
//! # Arguments
//! - RATE: bandwidth, such as `10Mbps`; a number without a unit counts bytes per second. Above 4096000000 bytes per
//!   second it is reduced to that. Positional, mandatory.
//!
//! # Ports
//! One pull input, one pull output; an optional second one for packets above the rate.
//!
//! # Handlers
//! - `rate` (read, write): the RATE argument.
//! - `config` (read, write): the current rate.
//! - `reset` (write): forgets the packets that have passed.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> BandwidthShaper(1MBps) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! Shaper, BandwidthRatedSplitter, BandwidthRatedUnqueue

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::rate::pace::Unit;
use super::shaper::Shaping;

/// The element; its manual is at the top of the file.
pub struct BandwidthShaper(Shaping);

register!(BandwidthShaper, "bandwidth_shaper.rs");

impl Element for BandwidthShaper {
    const CLASS: Class = Class::new("BandwidthShaper", "1/1-2", "l/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Shaping::configure(setup, Unit::Bytes).map(Self)
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        self.0.pull(cx, port, max, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Shaping::handlers(handlers, |shaper| &shaper.0);
    }
}

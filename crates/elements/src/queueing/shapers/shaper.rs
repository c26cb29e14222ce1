//! Shaper - limits the rate (packets per second) at which packets can be pulled
//!
//! # Synopsis
//! `Shaper(RATE)`
//!
//! # Description
//! Lets at most RATE packets per second be pulled, evenly spread: in each part of a second no more than its share, plus
//! what was left unused before. Other pulls get nothing. Pulls from a second output get the packets above the rate.
//! PacketShaper is another name for this element.
//!
//! # Arguments
//! - RATE: packets per second; above 4096000000 it is reduced to that. Positional, mandatory.
//!
//! # Ports
//! One pull input, one pull output; an optional second one for packets above the rate.
//!
//! # Handlers
//! - `rate` (read, write): the RATE argument.
//! - `config` (read): the current rate.
//! - `reset` (write): forgets the packets that have passed.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> Queue -> Shaper(1000) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! BandwidthShaper, RatedSplitter, RatedUnqueue, DelayShaper

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::rate::pace::Unit;
use super::shaping::Shaping;

/// The element; its manual is at the top of the file.
pub struct Shaper(Shaping);

register!(Shaper, "shaper.rs");

impl Element for Shaper {
    const CLASS: Class = Class::new("Shaper", "1/1-2", "l/l").aliases(&["PacketShaper"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Shaping::configure(setup, Unit::Packets).map(Self)
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        self.0.pull(cx, port, max, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Shaping::handlers(handlers, |shaper| &shaper.0);
    }
}

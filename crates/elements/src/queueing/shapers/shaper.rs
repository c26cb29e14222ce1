//! Shaper - lets packets be pulled at a rate
//!
//! # Synopsis
//! `Shaper(RATE)`
//!
//! # Description
//! Passes pulls on as long as fewer than RATE packets a second have come through, evenly: in each part of a second no
//! more than that part's share, and what is over. Other pulls find nothing. With a second
//! output, pulls there get a packet when there are too many already. PacketShaper is another name of it.
//!
//! # Arguments
//! - RATE: packets a second; at most 4096000000. Positional, mandatory.
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

use super::pace::Unit;
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

//! AggregatePaint - sets the aggregate annotation from the paint annotation
//!
//! # Synopsis
//! `AggregatePaint([BITS, keyword INCREMENTAL])`
//!
//! # Description
//! Sets the aggregate annotation of each packet to the lowest BITS bits of its paint annotation.
//!
//! # Arguments
//! - BITS: how many bits of the paint to use, 1 to 8. Positional, default 8.
//! - INCREMENTAL: combine with the old aggregate: it becomes old * 2^BITS + paint. Keyword, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> Paint(3) -> AggregatePaint -> AggregateCounter -> Discard;
//! ```
//!
//! # See also
//! Paint, AggregateIP, AggregateCounter

use millrace_core::args::Kind;
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct AggregatePaint {
    bits: u32,
    incremental: bool,
}

register!(AggregatePaint, "aggregate_paint.rs");

impl Element for AggregatePaint {
    const CLASS: Class = Class::new("AggregatePaint", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let bits = setup.args.in_range("BITS", Kind::Positional, 1..=8).unwrap_or(8);
        let incremental = setup.args.keyword("INCREMENTAL", false);
        setup.args.complete()?;
        Ok(Self { bits, incremental })
    }
}

impl PerPacket for AggregatePaint {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let paint = u32::from(packet.paint()) & ((1 << self.bits) - 1);
        let old = if self.incremental { packet.aggregate() << self.bits } else { 0 };
        packet.set_aggregate(old.wrapping_add(paint));
        Way::ON
    }
}

//! AggregateLength - sets the aggregate annotation to the packet length
//!
//! # Synopsis
//! `AggregateLength([keywords IP, EXTRA_LENGTH])`
//!
//! # Description
//! Sets the aggregate annotation of each packet to its length in bytes.
//!
//! # Arguments
//! - IP: count from the start of the IP header; packets without one leave by output 1. Keyword, default false.
//! - EXTRA_LENGTH: also count the bytes that a capture cut off (the extra length annotation, which FromDump sets).
//!   Keyword, default true.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for packets without an IP header.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: IP is true, the IP header's position is not known, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5) -> AggregateLength -> AggregateCounter -> Discard;
//! ```
//!
//! # See also
//! AggregateIP, AggregateCounter

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::length::Length;

/// The element; its manual is at the top of the file.
pub struct AggregateLength {
    length: Length,
}

register!(AggregateLength, "aggregate_length.rs");

impl Element for AggregateLength {
    const CLASS: Class = Class::new("AggregateLength", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let length = Length::configure(&mut setup.args, "IP");
        setup.args.complete()?;
        Ok(Self { length })
    }
}

impl PerPacket for AggregateLength {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let network = packet.network_offset();
        if self.length.is_of_ip() && network.is_none() {
            return Way::output_or_drop(1, Reason::NoHeader);
        }
        packet.set_aggregate(self.length.of(packet.len(), packet.extra_length(), network));
        Way::ON
    }
}

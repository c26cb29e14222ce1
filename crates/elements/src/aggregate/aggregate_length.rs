//! AggregateLength - makes the packet's length its aggregate
//!
//! # Synopsis
//! `AggregateLength([keywords IP, EXTRA_LENGTH])`
//!
//! # Description
//! Sets the aggregate annotation of each packet to its length in bytes.
//!
//! # Arguments
//! - IP: count from the IP header on; packets without one leave by output 1. Keyword, default false.
//! - EXTRA_LENGTH: add the bytes that a capture has cut off (the extra length annotation, which
//!   FromDump sets). Keyword, default true.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for packets without an IP header.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: IP is true, the IP header is not known, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 5) -> AggregateLength -> AggregateCounter -> Discard;
//! ```
//!
//! # See also
//! AggregateIP, AggregateCounter

use millrace_core::{
    Args, Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

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

/// What of a packet's length counts: the arguments IP and EXTRA_LENGTH that several elements have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// Not what stands in front of the IP header.
    ip: bool,
    /// With the bytes that were cut off when the packet was captured.
    extra: bool,
}

impl Length {
    /// Reads the arguments; `ip` is how the element calls the first.
    pub(super) fn configure(args: &mut Args<'_>, ip: &str) -> Self {
        Self { ip: args.keyword(ip, false), extra: args.keyword("EXTRA_LENGTH", true) }
    }

    /// Whether bytes count from the IP header on.
    pub(super) fn is_of_ip(self) -> bool {
        self.ip
    }

    /// Bytes of a packet that has `len` of them, had `extra` more, and whose IP header is at `network`. Wraps round
    /// at 2^32, as the annotation does.
    pub(super) fn of(self, len: usize, extra: u32, network: Option<usize>) -> u32 {
        let extra = if self.extra { extra } else { 0 };
        let link = network.filter(|_| self.ip).unwrap_or(0);
        (len as u32).wrapping_add(extra).wrapping_sub(link as u32)
    }
}

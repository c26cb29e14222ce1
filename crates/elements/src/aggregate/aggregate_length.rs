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

/// Which bytes of a packet's length count: the arguments IP and EXTRA_LENGTH of several elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// Whether to leave out what precedes the IP header.
    ip: bool,
    /// Whether to include the bytes that the capture cut off.
    extra: bool,
}

impl Length {
    /// Reads the arguments; `ip` is the element's name for the first.
    pub(super) fn configure(args: &mut Args<'_>, ip: &str) -> Self {
        Self { ip: args.keyword(ip, false), extra: args.keyword("EXTRA_LENGTH", true) }
    }

    /// Whether bytes count from the start of the IP header.
    pub(super) fn is_of_ip(self) -> bool {
        self.ip
    }

    /// The bytes counted for a packet that has `len` bytes, had `extra` more, and whose IP header is at `network`.
    /// Wraps around at 2^32, as the annotation does.
    pub(super) fn of(self, len: usize, extra: u32, network: Option<usize>) -> u32 {
        let extra = if self.extra { extra } else { 0 };
        let link = network.filter(|_| self.ip).unwrap_or(0);
        (len as u32).wrapping_add(extra).wrapping_sub(link as u32)
    }
}

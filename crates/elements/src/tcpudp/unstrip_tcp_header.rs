//! UnstripTCPHeader - restores the TCP header that StripTCPHeader removed
//!
//! # Synopsis
//! `UnstripTCPHeader()`
//!
//! # Description
//! Restores the TCP header to the front of packets from which StripTCPHeader removed it. Packets that begin at or
//! before their transport header pass unchanged.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: the transport header position is not set, or the header is no longer in front of the packet.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true)
//!     -> Strip(14) -> CheckIPHeader -> CheckTCPHeader
//!     -> StripIPHeader -> StripTCPHeader -> UnstripTCPHeader -> UnstripIPHeader
//!     -> Discard;
//! ```
//!
//! # See also
//! StripTCPHeader, UnstripIPHeader

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

use crate::ip::unstrip_to;

/// The element; its manual is at the top of the file.
pub struct UnstripTcpHeader;

register!(UnstripTcpHeader, "unstrip_tcp_header.rs");

impl Element for UnstripTcpHeader {
    const CLASS: Class = Class::new("UnstripTCPHeader", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for UnstripTcpHeader {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        unstrip_to(packet, packet.transport_header())
    }
}

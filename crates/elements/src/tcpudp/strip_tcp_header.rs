//! StripTCPHeader - removes the TCP header from packets
//!
//! # Synopsis
//! `StripTCPHeader()`
//!
//! # Description
//! Removes the length of the TCP header, including options, from the front of each packet. Packets should begin with
//! their TCP header: put a StripIPHeader upstream. UnstripTCPHeader restores the header.
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
//! - header not set: the transport header position is not set, or the header goes beyond the packet.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true)
//!     -> Strip(14) -> CheckIPHeader -> CheckTCPHeader
//!     -> StripIPHeader -> StripTCPHeader
//!     -> Discard;
//! ```
//!
//! # See also
//! UnstripTCPHeader, StripIPHeader, CheckTCPHeader

use millrace_core::headers::{Header, TcpHeader};
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct StripTcpHeader;

register!(StripTcpHeader, "strip_tcp_header.rs");

impl Element for StripTcpHeader {
    const CLASS: Class = Class::new("StripTCPHeader", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for StripTcpHeader {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let tcp = packet.transport_data().and_then(TcpHeader::view);
        match tcp.map(|(tcp, _)| tcp.header_len()) {
            Some(len) if packet.strip(len) => Way::ON,
            _ => Way::drop(Reason::NoHeader),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("StripTCPHeader", 1);
        withstands("UnstripTCPHeader", 1);
    }
}

//! StripIPHeader - removes the IP header from packets
//!
//! # Synopsis
//! `StripIPHeader()`
//!
//! # Description
//! Removes the IP header with its options, and everything before it, so that packets begin with their transport header.
//! Packets that begin at or after their transport header pass unchanged. UnstripIPHeader restores the header.
//!
//! The network header must be set: use CheckIPHeader or MarkIPHeader first.
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
//! - header not set: the packet's network header is not set, or ends beyond the packet.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> CheckIPHeader
//!     -> StripIPHeader
//!     -> Discard;
//! ```
//!
//! # See also
//! UnstripIPHeader, CheckIPHeader, MarkIPHeader, Strip

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct StripIpHeader;

register!(StripIpHeader, "strip_ip_header.rs");

impl Element for StripIpHeader {
    const CLASS: Class = Class::new("StripIPHeader", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for StripIpHeader {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match packet.transport_header() {
            Some(..0) => Way::ON,
            Some(offset) if packet.strip(offset as usize) => Way::ON,
            _ => Way::drop(Reason::NoHeader),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::{Datagram, withstands};

    #[test]
    fn unstrip_restores_the_stripped_header() {
        let datagram = Datagram { options: vec![1, 1, 1, 0], ..Datagram::default() };
        let mut strip = Rig::new("StripIPHeader", 1, 1).unwrap();
        let mut unstrip = Rig::new("UnstripIPHeader", 1, 1).unwrap();
        let stripped = strip.push_packets(0, vec![datagram.packet()]).remove(0);
        assert_eq!(stripped[0].data(), datagram.payload);
        assert_eq!(unstrip.push_packets(0, stripped)[0][0].data(), datagram.bytes());
    }

    #[test]
    fn withstands_anything() {
        withstands("StripIPHeader", 1);
        withstands("UnstripIPHeader", 1);
    }
}

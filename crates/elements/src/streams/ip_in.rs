//! IPIn - begins a path of IP packets in front of TCPIn
//!
//! # Synopsis
//! `IPIn`
//!
//! # Description
//! Forwards packets with an IPv4 header. In FastClick's files it stands in front of TCPIn or UDPIn; CheckIPHeader or
//! MarkIPHeader must come before it.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: the packet's network header position is not set.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true) -> Strip(14) -> CheckIPHeader -> CTXManager -> IPIn -> IPOut -> Discard;
//! ```
//!
//! # See also
//! IPOut, TCPIn, UDPIn

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct IpIn;

register!(IpIn, "ip_in.rs");

impl Element for IpIn {
    const CLASS: Class = Class::new("IPIn", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for IpIn {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match packet.network_offset() {
            Some(_) => Way::ON,
            None => Way::drop(Reason::NoHeader),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip::Datagram;

    #[test]
    fn only_packets_with_a_header_pass() {
        let mut rig = Rig::new("IPIn", 1, 1).unwrap();
        let bare = Packet::from_bytes(b"bytes").unwrap();
        let out = rig.push_packets(0, vec![Datagram::default().packet(), bare]);
        assert_eq!(out[0].len(), 1);
        assert_eq!(rig.stats().drops, [(Reason::NoHeader, 1)]);
    }
}

//! FixIPSrc - sets the source address of packets that have the "fix IP source" annotation
//!
//! # Synopsis
//! `FixIPSrc(IPADDR)`
//!
//! # Description
//! Gives packets whose "fix IP source" annotation is set the source address IPADDR and a new header checksum, and
//! clears the annotation. Other packets pass unchanged.
//!
//! Packets that a router itself originates must carry the address of the interface that they leave by (RFC 1812,
//! 4.3.2.4), which is known only after the route lookup. So ICMPError sets the annotation, and a FixIPSrc belongs in
//! front of each outgoing interface.
//!
//! # Arguments
//! - IPADDR: the interface's address. Positional, mandatory.
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
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> CheckIPHeader
//!     -> FixIPSrc(18.26.4.24)
//!     -> Discard;
//! ```
//!
//! # See also
//! ICMPError

use std::net::Ipv4Addr;

use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::{
    Class, Element, Failed, Moment, Packet, PerPacket, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct FixIpSrc {
    address: Ipv4Addr,
}

register!(FixIpSrc, "fix_ip_src.rs");

impl Element for FixIpSrc {
    const CLASS: Class = Class::new("FixIPSrc", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let address = setup.args.mandatory("IPADDR");
        setup.args.complete()?;
        Ok(Self { address })
    }
}

impl PerPacket for FixIpSrc {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        if packet.fix_ip_src() {
            packet.with_packet(|packet| self.fix(packet));
        }
        Way::ON
    }
}

impl FixIpSrc {
    pub(super) fn new(address: Ipv4Addr) -> Self {
        Self { address }
    }

    #[cold]
    pub(super) fn fix(&self, packet: &mut Packet) {
        let Some(bytes) = packet.network_data_mut() else { return };
        let Some((ip, _)) = Ipv4Header::view_mut(bytes) else { return };
        ip.src = self.address.octets();
        Ipv4Header::fill_checksum(bytes);
        packet.set_fix_ip_src(false);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::{Datagram, read, withstands};

    #[test]
    fn only_packets_with_the_annotation_are_changed() {
        let datagram = Datagram { options: vec![1, 1, 1, 0], ..Datagram::default() };
        let mut asks = datagram.packet();
        asks.set_fix_ip_src(true);
        let mut rig = Rig::new("FixIPSrc(18.26.4.24)", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![asks, datagram.packet()]);
        let fixed = Datagram { source: [18, 26, 4, 24].into(), ..datagram.clone() };
        assert_eq!(out[0][0].data(), fixed.bytes());
        assert!(!out[0][0].fix_ip_src());
        assert_eq!(out[0][1].data(), datagram.bytes());
        read(out[0][0].data());
    }

    #[test]
    fn a_shared_packet_is_copied_before_a_change() {
        let mut asks = Datagram::default().packet();
        asks.set_fix_ip_src(true);
        let twin = asks.share().unwrap();
        let mut rig = Rig::new("FixIPSrc(18.26.4.24)", 1, 1).unwrap();
        rig.push_packets(0, vec![asks]);
        assert_eq!(twin.data(), Datagram::default().bytes());
    }

    #[test]
    fn withstands_anything() {
        withstands("FixIPSrc(18.26.4.24)", 1);
    }
}

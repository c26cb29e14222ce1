//! ResetIPChecksum - computes IP checksums, and those of TCP and UDP
//!
//! # Synopsis
//! `ResetIPChecksum([keyword L4])`
//!
//! # Description
//! Computes the checksum of each packet's IPv4 header and stores it, like SetIPChecksum. With L4, it also computes the
//! checksum of a TCP segment or UDP datagram that is not fragmented. In FastClick, this class leaves that to the
//! card; on the wire, the packets are the same.
//!
//! A UDP checksum of 0, which means none, stays 0.
//!
//! # Arguments
//! - L4: whether to compute the checksums of TCP and UDP, too. Keyword, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: the network header position is not set.
//! - truncated: the packet has no complete IPv4 header.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234)
//!     -> StoreIPAddress(3.0.0.3, src)
//!     -> ResetIPChecksum(L4 true)
//!     -> CheckIPHeader
//!     -> CheckUDPHeader
//!     -> Discard;
//! ```
//!
//! # See also
//! SetIPChecksum, SetTCPChecksum, SetUDPChecksum

use millrace_core::headers::Ipv4Header;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::flows::words::make_headers_right;

/// The element; its manual is at the top of the file.
pub struct ResetIpChecksum {
    transport: bool,
}

register!(ResetIpChecksum, "reset_ip_checksum.rs");

impl Element for ResetIpChecksum {
    const CLASS: Class = Class::new("ResetIPChecksum", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let transport = setup.args.keyword("L4", false);
        setup.args.complete()?;
        Ok(Self { transport })
    }
}

impl PerPacket for ResetIpChecksum {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some(header) = packet.network_data_mut() else { return Way::drop(Reason::NoHeader) };
        if !Ipv4Header::fill_checksum(header) {
            return Way::drop(Reason::Truncated);
        }
        if self.transport {
            make_headers_right(packet, 0);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip::{Datagram, withstands};

    /// A datagram with wrong checksums, and what it should be.
    fn wrong(datagram: &Datagram) -> (Packet, Vec<u8>) {
        let right = datagram.bytes();
        let mut packet = datagram.packet();
        let bytes = packet.network_data_mut().unwrap();
        bytes[10] ^= 0x55;
        bytes[26] ^= 0x55;
        (packet, right)
    }

    #[test]
    fn both_checksums_are_made_right() {
        let (packet, right) = wrong(&Datagram::udp(b"some data"));
        let mut rig = Rig::new("ResetIPChecksum(L4 true)", 1, 1).unwrap();
        assert_eq!(rig.push_packets(0, vec![packet])[0][0].data(), right);
    }

    #[test]
    fn without_l4_the_transport_checksum_stays() {
        let (packet, mut right) = wrong(&Datagram::udp(b"some data"));
        right[26] ^= 0x55;
        let mut rig = Rig::new("ResetIPChecksum", 1, 1).unwrap();
        assert_eq!(rig.push_packets(0, vec![packet])[0][0].data(), right);
    }

    #[test]
    fn packets_without_a_header_are_dropped() {
        let mut cut = Datagram::udp(b"").packet();
        cut.truncate(12);
        let mut rig = Rig::new("ResetIPChecksum", 1, 1).unwrap();
        rig.push_packets(0, vec![Packet::from_bytes(&[0x45; 40]).unwrap(), cut]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1), (Reason::NoHeader, 1)]);
    }

    #[test]
    fn withstands_anything() {
        withstands("ResetIPChecksum(L4 true)", 1);
    }
}

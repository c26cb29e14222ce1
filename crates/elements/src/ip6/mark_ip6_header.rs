//! MarkIP6Header - sets the network header position of IPv6 packets
//!
//! # Synopsis
//! `MarkIP6Header([OFFSET])`
//!
//! # Description
//! Marks packets as IPv6 packets: sets the network header position to OFFSET, and the transport header position 40
//! bytes after it. Does not check or shorten packets; CheckIP6Header does.
//!
//! If a packet ends before its IPv6 header begins, both positions are cleared and the packet is forwarded.
//!
//! # Arguments
//! - OFFSET: bytes before the IPv6 header. Positional, default 0.
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
//! InfiniteSource(DATA \<6000000000001140 20010db8000000000000000000000001
//!                       20010db8000100000000000000000002>, LIMIT 10)
//!     -> MarkIP6Header
//!     -> SetIP6DSCP(46)
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckIP6Header, MarkIPHeader

use millrace_core::headers::{Header, Ipv6Header};
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct MarkIp6Header {
    offset: u32,
}

register!(MarkIp6Header, "mark_ip6_header.rs");

impl Element for MarkIp6Header {
    const CLASS: Class = Class::new("MarkIP6Header", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset = setup.args.positional("OFFSET", 0);
        setup.args.complete()?;
        Ok(Self { offset })
    }
}

impl PerPacket for MarkIp6Header {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        if packet.data().len() > self.offset as usize {
            packet.set_network_header(self.offset as isize, Ipv6Header::LEN);
        } else {
            packet.clear_network_header();
            packet.clear_transport_header();
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip6::withstands;

    #[test]
    fn marks_network_and_transport_header() {
        let mut rig = Rig::new("MarkIP6Header(2)", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![Packet::from_bytes(&[0x60; 60]).unwrap()]);
        assert_eq!(out[0][0].network_header(), Some(2));
        assert_eq!(out[0][0].transport_header(), Some(42));
    }

    #[test]
    fn a_packet_without_the_header_loses_its_header_positions() {
        let mut rig = Rig::new("MarkIP6Header(OFFSET 14)", 1, 1).unwrap();
        let mut packet = Packet::from_bytes(&[0x60; 14]).unwrap();
        packet.set_network_header(0, 4);
        let out = rig.push_packets(0, vec![packet]);
        assert_eq!((out[0][0].network_header(), out[0][0].transport_header()), (None, None));
    }

    #[test]
    fn withstands_anything() {
        withstands("MarkIP6Header(3)", 1);
    }
}

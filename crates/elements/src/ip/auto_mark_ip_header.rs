//! AutoMarkIPHeader - finds the IP header in an Ethernet frame and sets its position
//!
//! # Synopsis
//! `AutoMarkIPHeader`
//!
//! # Description
//! Records where the IPv4 or IPv6 header of an Ethernet frame starts, with or without VLAN tags, and that the transport
//! header follows it. Does not check or shorten the packet; CheckIPHeader and CheckIP6Header do that.
//!
//! If the frame has no IP header, its network and transport header positions are cleared.
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
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234)
//!     -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
//!     -> VLANEncap(5)
//!     -> AutoMarkIPHeader
//!     -> IPPrint
//!     -> Discard;
//! ```
//!
//! # See also
//! MarkIPHeader, MarkIP6Header, CheckIPHeader

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct AutoMarkIpHeader;

register!(AutoMarkIpHeader, "auto_mark_ip_header.rs");

impl Element for AutoMarkIpHeader {
    const CLASS: Class = Class::new("AutoMarkIPHeader", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for AutoMarkIpHeader {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match find(packet.data()) {
            Some((offset, length)) => packet.set_network_header(offset as isize, length),
            None => {
                packet.clear_network_header();
                packet.clear_transport_header();
            }
        }
        Way::ON
    }
}

/// Where the IP header of a frame starts, and its length without IPv6's extension headers.
fn find(frame: &[u8]) -> Option<(usize, usize)> {
    let ether_type =
        |at: usize| frame.get(at..)?.first_chunk().map(|field| u16::from_be_bytes(*field));
    let mut at = 12;
    while let Some(0x8100 | 0x88a8 | 0x9100) = ether_type(at) {
        at += 4;
    }
    let kind = ether_type(at)?;
    let first = *frame.get(at + 2)?;
    match kind {
        0x0800 => Some((at + 2, usize::from(first & 0xf) * 4)),
        0x86dd => Some((at + 2, 40)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::withstands;

    #[test]
    fn finds_the_header_behind_tags() {
        let frame = |types: &[u8], rest: usize| {
            let mut packet =
                Packet::from_bytes(&[&[2; 12], types, &vec![0x46; rest]].concat()).unwrap();
            packet.set_network_header(1, 2);
            packet
        };
        let packets = vec![
            frame(&[8, 0], 40),
            frame(&[0x81, 0, 0, 5, 8, 0], 40),
            frame(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd], 80),
            frame(&[8, 6], 40),
            frame(&[8, 0], 0),
        ];
        let out = Rig::new("AutoMarkIPHeader", 1, 1).unwrap().push_packets(0, packets);
        let marks: Vec<_> = out[0]
            .iter()
            .map(|packet| Some((packet.network_header()?, packet.transport_header()?)))
            .collect();
        assert_eq!(marks, [Some((14, 38)), Some((18, 42)), Some((22, 62)), None, None]);
    }

    #[test]
    fn withstands_anything() {
        withstands("AutoMarkIPHeader", 1);
    }
}

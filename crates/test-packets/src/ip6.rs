//! Packets for the tests of IPv6 elements: valid ones built by etherparse, and hostile ones.

use std::net::Ipv6Addr;

use etherparse::{IpNumber, Ipv6FlowLabel};
use millrace_core::Packet;
use proptest::prelude::*;

use super::ip::withstands_all;

/// The fields of a packet to build. The default is a UDP datagram with 20 bytes of payload.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The source address.
    pub source: Ipv6Addr,
    /// The destination address.
    pub destination: Ipv6Addr,
    /// The traffic class.
    pub traffic_class: u8,
    /// The flow label.
    pub flow_label: u32,
    /// The hop limit.
    pub hop_limit: u8,
    /// The protocol of what follows.
    pub next_header: u8,
    /// What follows the IPv6 header.
    pub payload: Vec<u8>,
}

impl Datagram {
    /// The source unless another one is chosen.
    pub const SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    /// The destination unless another one is chosen.
    pub const DESTINATION: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6);

    /// A UDP datagram with this payload and a correct checksum.
    pub fn udp(source: u16, destination: u16, payload: &[u8]) -> Self {
        let ip = Self {
            source: Self::SOURCE,
            destination: Self::DESTINATION,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            next_header: 17,
            payload: Vec::new(),
        };
        ip.with_udp(source, destination, payload)
    }

    /// The same packet with another UDP datagram in it, whose checksum is correct.
    #[must_use]
    pub fn with_udp(self, source: u16, destination: u16, payload: &[u8]) -> Self {
        let udp =
            etherparse::UdpHeader::with_ipv6_checksum(source, destination, &self.header(), payload);
        Self { next_header: 17, payload: [&udp.unwrap().to_bytes(), payload].concat(), ..self }
    }

    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        [self.header().to_bytes().as_slice(), &self.payload].concat()
    }

    fn header(&self) -> etherparse::Ipv6Header {
        etherparse::Ipv6Header {
            traffic_class: self.traffic_class,
            flow_label: Ipv6FlowLabel::try_new(self.flow_label).unwrap(),
            payload_length: self.payload.len() as u16,
            next_header: IpNumber(self.next_header),
            hop_limit: self.hop_limit,
            source: self.source.octets(),
            destination: self.destination.octets(),
        }
    }

    /// A packet as CheckIP6Header emits it.
    pub fn packet(&self) -> Packet {
        let mut packet = Packet::from_bytes(&self.bytes()).unwrap();
        packet.set_network_header(0, 40);
        packet
    }
}

impl Default for Datagram {
    fn default() -> Self {
        Self::udp(1234, 5678, b"twenty bytes of data")
    }
}

/// Pushes random, malformed, truncated and wrongly marked packets to an element, some of them shared. The
/// element must not panic, and must account for each packet.
pub fn withstands(element: &str, outputs: usize) {
    withstands_all(element, outputs, damaged());
}

/// A valid packet with some bytes changed, possibly truncated.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let next_header = prop_oneof![Just(17u8), Just(6), Just(58), Just(0), Just(44), any::<u8>()];
    let payload = prop::collection::vec(any::<u8>(), 0..300);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let cut = prop_oneof![2 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    let sound = (next_header, payload, 0u8..4, any::<[u8; 16]>());
    (sound, edits, cut).prop_map(|((next_header, payload, hop_limit, source), edits, cut)| {
        let source = source.into();
        let datagram = Datagram { next_header, payload, hop_limit, source, ..Datagram::default() };
        let mut bytes = datagram.bytes();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        bytes
    })
}

//! Frames as the hosts of the lab make and read them.

use std::net::Ipv4Addr;

use millrace_core::checksum::{Sum, checksum};
use millrace_core::headers::{
    ArpHeader, EthernetHeader, Header, Ipv4Header, U16, ether_type, protocol,
};
use millrace_core::net::EtherAddress;

/// An Ethernet frame.
pub(super) type Frame = Vec<u8>;

/// The Ethernet header of a frame and what follows it.
pub(super) fn ethernet(frame: &[u8]) -> Option<(&EthernetHeader, &[u8])> {
    EthernetHeader::view(frame)
}

/// A frame around a payload.
pub(super) fn framed(src: EtherAddress, dst: EtherAddress, kind: u16, payload: &[u8]) -> Frame {
    let header = EthernetHeader { dst, src, ether_type: U16::new(kind) };
    let mut frame = zerocopy::IntoBytes::as_bytes(&header).to_vec();
    frame.extend(payload);
    frame
}

/// A frame with an ARP message.
pub(super) fn arp(dst: EtherAddress, message: &ArpHeader) -> Frame {
    framed(message.sender_ether, dst, ether_type::ARP, zerocopy::IntoBytes::as_bytes(message))
}

/// An IP packet as the lab sends it.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
    pub(super) ttl: u8,
    pub(super) protocol: u8,
    pub(super) dont_fragment: bool,
    pub(super) id: u16,
    /// A multiple of 4 bytes, at most 40.
    pub(super) options: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Datagram {
    /// A packet with the usual fields.
    pub(super) fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, payload: Vec<u8>) -> Self {
        let (ttl, dont_fragment, id, options) = (64, false, 0, Vec::new());
        Self { src, dst, ttl, protocol, dont_fragment, id, options, payload }
    }

    /// The packet's bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let header_len = Ipv4Header::LEN + self.options.len();
        let total = u16::try_from(header_len + self.payload.len()).unwrap_or(u16::MAX);
        let mut header = Ipv4Header {
            version_ihl: 0x40,
            tos: 0,
            total_len: U16::new(total),
            id: U16::new(self.id),
            flags_fragment: U16::new(if self.dont_fragment {
                Ipv4Header::DONT_FRAGMENT
            } else {
                0
            }),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: U16::new(0),
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        header.set_header_len(header_len);
        let mut bytes = zerocopy::IntoBytes::as_bytes(&header).to_vec();
        bytes.extend(&self.options);
        Ipv4Header::fill_checksum(&mut bytes);
        bytes.extend(&self.payload);
        bytes
    }
}

/// An ICMP message: type, code, the rest of the header, payload.
pub(super) fn icmp(kind: u8, code: u8, rest: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(rest);
    bytes.extend(payload);
    let sum = checksum(&bytes).to_be_bytes();
    bytes[2..4].copy_from_slice(&sum);
    bytes
}

/// A UDP datagram.
pub(super) fn udp(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).unwrap_or(u16::MAX);
    let mut bytes = Vec::with_capacity(len.into());
    bytes.extend(src.1.to_be_bytes());
    bytes.extend(dst.1.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    let sum = Sum::of_pseudo_v4(src.0, dst.0, protocol::UDP, len).add_bytes(&bytes).finish_udp();
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    bytes
}

//! Neighbour discovery messages (RFC 4861, 4.3 and 4.4) in their Ethernet frames, as IP6NDSolicitor and
//! IP6NDAdvertiser send and read them: with one option, an Ethernet address.

use std::net::Ipv6Addr;

use millrace_core::Packet;
use millrace_core::headers::{EthernetHeader, Header, Ipv6Header, ether_type, protocol};
use millrace_core::net::EtherAddress;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::outer::{fill_icmp6_checksum, header};

/// A neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct NeighborMessage {
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) checksum: [u8; 2],
    /// The flags of advertisements; zero in solicitations.
    pub(super) flags: [u8; 4],
    pub(super) target: [u8; 16],
    pub(super) option_kind: u8,
    /// In units of 8 bytes.
    pub(super) option_len: u8,
    pub(super) ether: EtherAddress,
}

/// Option types.
pub(super) const SOURCE_LINK_ADDRESS: u8 = 1;
pub(super) const TARGET_LINK_ADDRESS: u8 = 2;

const LEN: usize = size_of::<NeighborMessage>();

/// The source and destination of a frame.
pub(super) struct Ends {
    pub(super) source: (Ipv6Addr, EtherAddress),
    pub(super) destination: (Ipv6Addr, EtherAddress),
}

impl NeighborMessage {
    /// A message with this option; the checksum is not set yet.
    pub(super) fn new(kind: u8, flags: u8, target: Ipv6Addr, option: (u8, EtherAddress)) -> Self {
        Self {
            kind,
            code: 0,
            checksum: [0; 2],
            flags: [flags, 0, 0, 0],
            target: target.octets(),
            option_kind: option.0,
            option_len: 1,
            ether: option.1,
        }
    }

    /// The message in its frame; `None` if there is no memory.
    pub(super) fn in_frame(&self, ends: &Ends) -> Option<Packet> {
        let ip = header(ends.source.0, ends.destination.0, protocol::ICMPV6, LEN as u16);
        let mut message = [0; LEN];
        message.copy_from_slice(self.as_bytes());
        fill_icmp6_checksum(&ip, &mut message);
        let frame = EthernetHeader {
            dst: ends.destination.1,
            src: ends.source.1,
            ether_type: ether_type::IPV6.into(),
        };
        let mut packet = Packet::with_room(128, 0, EthernetHeader::LEN + Ipv6Header::LEN + LEN)?;
        packet.push_back(frame.as_bytes());
        packet.push_back(ip.as_bytes());
        packet.push_back(&message);
        packet.set_link_header(0, EthernetHeader::LEN);
        packet.set_network_header(EthernetHeader::LEN as isize, Ipv6Header::LEN);
        Some(packet)
    }

    /// Splits a frame that may hold a message; `None` if it is too short.
    pub(super) fn split(frame: &[u8]) -> Option<(&EthernetHeader, &Ipv6Header, &Self, &[u8])> {
        let (ether, rest) = EthernetHeader::view(frame)?;
        let (ip, payload) = Ipv6Header::view(rest)?;
        let (message, _) = Self::ref_from_prefix(payload).ok()?;
        Some((ether, ip, message, payload))
    }
}

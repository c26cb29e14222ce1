//! FORCE_LEN: gives packets a length other than the captured one.

use millrace_core::Packet;
use millrace_core::checksum::update;
use millrace_io::pcap::{LinkType, MAX_CAPTURED};

/// The length to give to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForceLen {
    /// The packet's length before the capture truncated it.
    Original,
    /// This many bytes including an Ethernet header, so 14 fewer for raw IP packets.
    Bytes(usize),
}

const ETHERNET_HEADER: usize = 14;

impl ForceLen {
    /// The forced length of a packet that originally had `original` bytes.
    pub(crate) fn of(self, original: usize, link_type: LinkType) -> usize {
        match self {
            Self::Original => original.min(MAX_CAPTURED as usize),
            Self::Bytes(length) if link_type == LinkType::IP => length - ETHERNET_HEADER,
            Self::Bytes(length) => length,
        }
    }
}

/// Sets the length field of the IP header, if there is one, to match the packet.
pub(crate) fn fit_ip_header(packet: &mut Packet, link_type: LinkType) {
    let Some(ip) = link_type.ip_offset(packet.data()) else { return };
    let Some(header) = packet.data_mut().get_mut(ip..) else { return };
    let length = header.len();
    match header {
        [first, _, a, b, _, _, _, _, _, _, c, d, ..] if *first >> 4 == 4 => {
            let old = u16::from_be_bytes([*a, *b]);
            let new = u16::try_from(length).unwrap_or(u16::MAX);
            let sum = update(u16::from_be_bytes([*c, *d]), old, new);
            [*a, *b] = new.to_be_bytes();
            [*c, *d] = sum.to_be_bytes();
        }
        [first, _, _, _, a, b, ..] if *first >> 4 == 6 => {
            const IPV6_HEADER: usize = 40;
            let payload = u16::try_from(length.saturating_sub(IPV6_HEADER)).unwrap_or(u16::MAX);
            [*a, *b] = payload.to_be_bytes();
        }
        _ => {}
    }
}

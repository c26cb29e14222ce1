//! The UDP and IP headers that UDPIPEncap and DynamicUDPIPEncap prepend to packets.

use std::net::Ipv4Addr;

use millrace_core::Packet;
use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, Ipv4Header, UdpHeader, protocol};
use zerocopy::IntoBytes;

use crate::ip::header::outer::{Choice, Destination, OuterHeader};

/// The header fields that differ between elements.
#[derive(Clone)]
pub(super) struct UdpOuter {
    pub(super) ip: OuterHeader,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
}

impl UdpOuter {
    pub(super) fn new(
        (source, src_port): (Ipv4Addr, u16),
        (destination, dst_port): (Destination, u16),
    ) -> Self {
        let ip = OuterHeader::new(&Choice {
            protocol: protocol::UDP,
            source,
            destination,
            tos: 0,
            ttl: 250,
            dont_fragment: false,
        });
        Self { ip, src_port, dst_port }
    }

    /// The headers for a packet; `None` if the datagram would be too long.
    #[inline(always)]
    pub(super) fn headers(
        &self,
        packet: &mut Packet,
        id: u16,
        checksum: bool,
    ) -> Option<[u8; HEADERS_LEN]> {
        let len = packet.len() + UdpHeader::LEN;
        let ip = self.ip.for_packet(packet, len, id)?;
        let mut udp = UdpHeader {
            src_port: self.src_port.into(),
            dst_port: self.dst_port.into(),
            // The datagram is shorter than the IP datagram, whose length was checked.
            len: (len as u16).into(),
            checksum: 0.into(),
        };
        if checksum {
            let (source, destination) = (ip.source(), ip.destination());
            let sum = Sum::of_pseudo_v4(source, destination, protocol::UDP, len as u16);
            let sum = sum.add_bytes(udp.as_bytes()).add_bytes(packet.data());
            udp.checksum.set(sum.finish_udp());
        }
        let mut headers = [0; HEADERS_LEN];
        let (ip_bytes, udp_bytes) = headers.split_at_mut(Ipv4Header::LEN);
        ip_bytes.copy_from_slice(ip.as_bytes());
        udp_bytes.copy_from_slice(udp.as_bytes());
        Some(headers)
    }
}

/// Length of both headers in bytes.
const HEADERS_LEN: usize = Ipv4Header::LEN + UdpHeader::LEN;

//! A packet described by one line of text.

use std::net::Ipv4Addr;

use millrace_core::checksum::{Sum, checksum};
use millrace_core::headers::{Header, Ipv4Header, protocol};
use millrace_core::{Packet, Timestamp};

/// The length of the IP header.
pub(crate) const IP_LEN: usize = Ipv4Header::LEN;

/// A packet as a line describes it.
pub(crate) struct Told {
    pub(crate) timestamp: Timestamp,
    /// The headers.
    pub(crate) bytes: Vec<u8>,
    /// The length of the payload, if the line gives it.
    pub(crate) payload_len: Option<u32>,
}

impl Told {
    pub(crate) fn set(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    pub(crate) fn byte(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or_default()
    }

    fn address(&self, offset: usize) -> Ipv4Addr {
        let octets = self.bytes.get(offset..).and_then(|bytes| bytes.first_chunk::<4>());
        octets.copied().unwrap_or_default().into()
    }

    /// The flags and fragment offset.
    pub(crate) fn fragment(&self) -> u16 {
        u16::from_be_bytes([self.byte(6), self.byte(7)])
    }

    pub(crate) fn protocol(&self) -> u8 {
        self.byte(9)
    }

    pub(crate) fn into_packet(mut self, checksums: bool) -> Option<Packet> {
        let extra = self.payload_len.unwrap_or_default();
        let length = (self.bytes.len() as u32).wrapping_add(extra) as u16;
        self.set(2, &length.to_be_bytes());
        if self.protocol() == protocol::UDP && self.fragment() & Ipv4Header::OFFSET_MASK == 0 {
            let udp_len = length.wrapping_sub(IP_LEN as u16);
            self.set(IP_LEN + 4, &udp_len.to_be_bytes());
        }
        if checksums {
            self.set_checksums();
        }
        let mut packet = Packet::from_bytes(&self.bytes)?;
        packet.set_network_header(0, IP_LEN);
        packet.set_timestamp(self.timestamp);
        packet.set_extra_length(extra);
        Some(packet)
    }

    fn set_checksums(&mut self) {
        let sum = checksum(self.bytes.get(..IP_LEN).unwrap_or_default());
        self.set(10, &sum.to_be_bytes());
        let place = match self.protocol() {
            _ if self.fragment() & (Ipv4Header::OFFSET_MASK | Ipv4Header::MORE_FRAGMENTS) != 0 => {
                return;
            }
            protocol::TCP => IP_LEN + 16,
            protocol::UDP => IP_LEN + 6,
            _ => return,
        };
        let transport = self.bytes.get(IP_LEN..).unwrap_or_default();
        let (src, dst) = (self.address(12), self.address(16));
        let sum = Sum::of_pseudo_v4(src, dst, self.protocol(), transport.len() as u16);
        let sum = sum.add_bytes(transport).finish();
        self.set(place, &sum.to_be_bytes());
    }
}

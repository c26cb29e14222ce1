//! A packet that is being built from the fields of a summary.
//!
//! A header is created when the first of its fields is set. A field may be set beyond the packet's current end: its
//! bytes appear when something after it makes the packet longer.

use std::net::Ipv4Addr;

use millrace_core::args::Scope;
use millrace_core::checksum::{Sum, checksum};
use millrace_core::headers::{Header, Ipv4Header, protocol};
use millrace_core::{Packet, Timestamp};

/// A packet under construction.
pub(crate) struct Draft<'s> {
    /// The scope in which names in texts are resolved.
    pub(crate) scope: Scope<'s>,
    /// The version of the dump.
    pub(crate) minor_version: u32,
    pub(crate) protocol: u8,
    /// Whether packets have IP and transport headers even if no field belongs to them.
    pub(crate) has_flow: bool,
    pub(crate) timestamp: Timestamp,
    pub(crate) first_timestamp: Timestamp,
    pub(crate) extra_packets: u32,
    pub(crate) paint: u8,
    pub(crate) aggregate: Option<u32>,
    /// The original length of the packet, from its first byte; 0 if not known.
    pub(crate) wanted_len: u32,
    /// Whether the packet carries IP.
    pub(crate) is_ip: bool,
    pub(crate) has_icmp_type: bool,
    pub(crate) has_icmp_code: bool,
    pub(crate) has_ip_options: bool,
    pub(crate) has_tcp_options: bool,
    has_ether: bool,
    /// The offset of the network header.
    network: Option<usize>,
    transport: usize,
    /// The packet, and what was set beyond its end.
    bytes: Vec<u8>,
    len: usize,
}

impl<'s> Draft<'s> {
    pub(crate) fn new(scope: Scope<'s>, minor_version: u32, protocol: u8) -> Self {
        Self {
            scope,
            minor_version,
            protocol,
            has_flow: false,
            timestamp: Timestamp::ZERO,
            first_timestamp: Timestamp::ZERO,
            extra_packets: 0,
            paint: 0,
            aggregate: None,
            wanted_len: 0,
            is_ip: true,
            has_icmp_type: false,
            has_icmp_code: false,
            has_ip_options: false,
            has_tcp_options: false,
            has_ether: false,
            network: None,
            transport: 0,
            bytes: Vec::with_capacity(128),
            len: 0,
        }
    }

    /// Extends the packet.
    pub(crate) fn grow(&mut self, count: usize) {
        self.len += count;
        if self.bytes.len() < self.len {
            self.bytes.resize(self.len, 0);
        }
    }

    /// Extends the packet to `count` bytes after `offset`, if it is shorter.
    pub(crate) fn reach(&mut self, offset: usize, count: usize) {
        self.grow((offset + count).saturating_sub(self.len));
    }

    /// Sets bytes at `offset`, which may be beyond the end.
    pub(crate) fn set(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        if let Some(place) = self.bytes.get_mut(offset..end) {
            place.copy_from_slice(bytes);
        }
    }

    /// Moves the bytes after `offset` by `count`, and zeroes the gap. Bytes that move beyond the end are lost.
    pub(crate) fn insert(&mut self, offset: usize, count: usize) {
        if let Some(rest) = self.bytes.get_mut(offset..self.len)
            && count <= rest.len()
        {
            rest.rotate_right(count);
            rest.iter_mut().take(count).for_each(|byte| *byte = 0);
        }
    }

    pub(crate) fn byte(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or_default()
    }

    pub(crate) fn half(&self, offset: usize) -> u16 {
        u16::from_be_bytes([self.byte(offset), self.byte(offset + 1)])
    }

    /// The offset of the Ethernet header, which is created if there is none.
    pub(crate) fn ether(&mut self) -> usize {
        if !self.has_ether {
            self.has_ether = true;
            self.bytes.splice(0..0, [0; 14]);
            self.len += 14;
            self.network = Some(14);
            self.transport = 14;
            self.set(12, &[8, 0]);
        }
        0
    }

    /// The offset of the network header, 0 if there is none.
    pub(crate) fn network(&self) -> usize {
        self.network.unwrap_or_default()
    }

    /// The offset of the first byte after the IP header.
    pub(crate) fn transport(&self) -> usize {
        self.transport
    }

    fn network_len(&self) -> usize {
        self.len.saturating_sub(self.network())
    }

    pub(crate) fn transport_len(&self) -> usize {
        self.len.saturating_sub(self.transport)
    }

    fn has_ip_header(&self) -> bool {
        self.is_ip && self.network.is_some() && self.network_len() >= Ipv4Header::LEN
    }

    /// Creates an IP header if there is none. Returns its offset if the packet is of this protocol, or its protocol is
    /// not known yet.
    pub(crate) fn ip(&mut self, protocol: Option<u8>) -> Option<usize> {
        if !self.is_ip {
            return None;
        }
        let at = *self.network.get_or_insert_default();
        if !self.has_ip_header() {
            self.reach(at, Ipv4Header::LEN);
            self.transport = at + Ipv4Header::LEN;
            self.set(at, &[0x45]);
            self.set(at + 2, &[0, 0]);
            self.set(at + 6, &[0, 0, 100, self.protocol]);
        }
        let found = self.ip_protocol();
        protocol.is_none_or(|wanted| found == 0 || found == wanted).then_some(at)
    }

    pub(crate) fn ip_protocol(&self) -> u8 {
        self.byte(self.network() + 9)
    }

    pub(crate) fn ip_header_len(&self) -> usize {
        usize::from(self.byte(self.network()) & 0xf) * 4
    }

    /// Sets the length of the IP header in bytes.
    pub(crate) fn set_ip_header_len(&mut self, length: usize) {
        self.set(self.network(), &[0x40 | (length / 4) as u8 & 0xf]);
    }

    /// Sets the offset of the first byte after the IP header.
    pub(crate) fn set_transport(&mut self, offset: usize) {
        self.transport = offset;
    }

    pub(crate) fn ip_len(&self) -> usize {
        self.half(self.network() + 2).into()
    }

    pub(crate) fn is_first_fragment(&self) -> bool {
        self.half(self.network() + 6) & Ipv4Header::OFFSET_MASK == 0
    }

    /// Creates the protocol's transport header if there is none. Returns its offset; later fragments have none.
    pub(crate) fn transport_header(&mut self) -> Option<usize> {
        if !self.is_first_fragment() {
            return None;
        }
        let at = self.transport;
        let header: i64 = match self.ip_protocol() {
            _ if self.transport_len() >= 8 => return Some(at),
            protocol::TCP => 20,
            protocol::UDP | protocol::UDP_LITE => 8,
            protocol::DCCP => 12,
            protocol::ICMP => 8,
            _ => return Some(at),
        };
        let wanted = i64::from(self.wanted_len);
        let header = if wanted > 0 { header.min(wanted - at as i64) } else { header };
        if (self.transport_len() as i64) < header {
            // Ports are always created whole.
            let with_ports = header.max(4) as usize;
            self.reach(at, with_ports);
            if self.ip_protocol() == protocol::TCP && header >= 13 {
                self.set(at + 12, &[0x50 | self.byte(at + 12) & 0xf]);
            }
            if self.has_flow {
                self.set(at, &[0; 4]);
            }
            self.len -= with_ports - header as usize;
        }
        Some(at)
    }

    /// Fills in what no field has set, and creates the packet; `None` when there is no memory for it.
    pub(crate) fn finish(mut self, checksums: bool) -> Option<Packet> {
        if self.has_flow {
            self.ip(None);
        }
        let mut dst = None;
        if self.is_ip && self.network.is_some() {
            self.transport_header();
            dst = Some(self.finish_ip(checksums));
        }
        let mut packet = Packet::from_bytes(self.bytes.get(..self.len)?)?;
        if self.has_ether {
            packet.set_mac_header(0);
        }
        if let Some(network) = self.network {
            packet.set_network_header(network as isize, self.transport - network);
        }
        if let Some(dst) = dst {
            packet.set_dst_ip(dst);
        }
        packet.set_timestamp(self.timestamp);
        packet.set_paint(self.paint);
        if let Some(aggregate) = self.aggregate {
            packet.set_aggregate(aggregate);
        }
        packet.set_extra_packets(self.extra_packets);
        packet.set_first_timestamp(self.first_timestamp);
        packet.set_extra_length(self.wanted_len.saturating_sub(self.len as u32));
        Some(packet)
    }

    /// Sets lengths and checksums of IP and of its payload. Returns the destination address.
    fn finish_ip(&mut self, checksums: bool) -> Ipv4Addr {
        let at = self.network();
        let mut length = self.ip_len();
        if length == 0 {
            length = self.wanted_len as usize;
            if length >= at {
                length -= at;
            }
            length = match length {
                0 => self.network_len(),
                length => length.min(0xffff),
            };
            self.set(at + 2, &(length as u16).to_be_bytes());
        }
        let transport = self.transport;
        if self.ip_protocol() == protocol::UDP
            && self.is_first_fragment()
            && self.half(transport + 4) == 0
        {
            let length = length.wrapping_sub(transport - at) as u16;
            self.set(transport + 4, &length.to_be_bytes());
        }
        if checksums {
            self.reach(at, length);
            self.set_checksums();
        }
        self.address(at + 16)
    }

    fn address(&self, offset: usize) -> Ipv4Addr {
        let mut octets = [0; 4];
        if let Some(bytes) = self.bytes.get(offset..offset + 4) {
            octets.copy_from_slice(bytes);
        }
        octets.into()
    }

    fn set_checksums(&mut self) {
        let (at, transport) = (self.network(), self.transport);
        self.set(at + 10, &[0, 0]);
        let header = self.bytes.get(at..at + self.ip_header_len());
        let sum = checksum(header.unwrap_or_default());
        self.set(at + 10, &sum.to_be_bytes());
        if self.half(at + 6) & (Ipv4Header::OFFSET_MASK | Ipv4Header::MORE_FRAGMENTS) != 0 {
            return;
        }
        let protocol = self.ip_protocol();
        let place = match protocol {
            protocol::TCP => transport + 16,
            protocol::UDP => transport + 6,
            protocol::ICMP => transport + 2,
            _ => return,
        };
        self.set(place, &[0, 0]);
        let length = self.transport_len() as u16;
        let sum = match protocol {
            protocol::ICMP => Sum::default(),
            _ => Sum::of_pseudo_v4(self.address(at + 12), self.final_dst(), protocol, length),
        };
        let sum = sum.add_bytes(self.bytes.get(transport..self.len).unwrap_or_default());
        self.set(place, &sum.finish().to_be_bytes());
    }

    /// The destination of a source route.
    fn final_dst(&self) -> Ipv4Addr {
        let at = self.network();
        let mut options = at + Ipv4Header::LEN..at + self.ip_header_len();
        while let Some(option) = options.next() {
            match (self.byte(option), usize::from(self.byte(option + 1))) {
                (0, _) => break,
                (1, _) => {}
                (131 | 137, length) if length >= 7 && option + length <= options.end => {
                    return self.address(option + length - 4);
                }
                (_, length @ 2..) => options.start = option + length,
                _ => break,
            }
        }
        self.address(at + 16)
    }
}

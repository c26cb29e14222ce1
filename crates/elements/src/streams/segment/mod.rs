//! A TCP segment in a packet: where its parts are, and changes to them.
//!
//! Elements may make a segment longer than an IP packet can be. Until TCPOut divides it, the length in its IP header is
//! 0, and the segment ends where the packet does.

use std::net::IpAddr;

use millrace_core::headers::{
    Header, Ipv4Header, Ipv6Header, Options, TcpHeader, protocol, tcp_option,
};
use millrace_core::{Packet, checksum};

use crate::flows::key::WideKey;

/// The parts of a segment, in a packet whose network header is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset of the IP header in the packet.
    pub(crate) ip: usize,
    /// Offset of the TCP header.
    pub(crate) tcp: usize,
    /// Offset of the payload.
    pub(crate) payload: usize,
    /// Where the IP packet ends.
    pub(crate) end: usize,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
}

/// The options that matter to streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) segment_size: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    /// The sender's timestamp, and the one that it echoes.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) sack_permitted: bool,
}

impl Segment {
    /// The segment in a packet that has a whole one.
    pub(crate) fn of(packet: &Packet) -> Option<Self> {
        Self::read(packet, false)
    }

    /// The same on a path, where a segment may be too long for an IP packet.
    pub(crate) fn on_path(packet: &Packet) -> Option<Self> {
        Self::read(packet, true)
    }

    fn read(packet: &Packet, may_be_long: bool) -> Option<Self> {
        let bytes = packet.network_data()?;
        let ip_at = packet.len().checked_sub(bytes.len())?;
        let (header, total) = match extent(bytes)? {
            (header, 0) if may_be_long => (header, bytes.len()),
            known => known,
        };
        let transport = bytes.get(header..total)?;
        let (tcp, _, payload) = TcpHeader::split(transport)?;
        Some(Self {
            ip: ip_at,
            tcp: ip_at + header,
            payload: ip_at + total - payload.len(),
            end: ip_at + total,
            sequence: tcp.sequence.get(),
            acknowledgment: tcp.acknowledgment.get(),
            flags: tcp.flags,
            window: tcp.window.get(),
        })
    }

    /// The addresses.
    pub(crate) fn ends(&self, packet: &Packet) -> Option<(IpAddr, IpAddr)> {
        let bytes = packet.data().get(self.ip..)?;
        Some(match bytes.first()? >> 4 {
            6 => {
                let (ip, _) = Ipv6Header::view(bytes)?;
                (ip.source().into(), ip.destination().into())
            }
            _ => {
                let (ip, _) = Ipv4Header::view(bytes)?;
                (ip.source().into(), ip.destination().into())
            }
        })
    }

    /// The addresses and ports as a key; versions have spaces of their own.
    pub(crate) fn flow(&self, packet: &Packet) -> Option<WideKey> {
        let ports = packet.data().get(self.tcp..)?.first_chunk()?;
        let bits = |address| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let (source, destination) = self.ends(packet)?;
        let space = u32::from(source.is_ipv6());
        let ports = u32::from_be_bytes(*ports);
        Some(WideKey { source: bits(source), destination: bits(destination), ports, space })
    }

    /// Whether it is too long for an IP packet.
    pub(crate) fn is_long(&self) -> bool {
        self.end - self.ip > LONGEST_PACKET
    }

    /// The number of bytes of payload.
    pub(crate) fn len(&self) -> usize {
        self.end - self.payload
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload.
    pub(crate) fn bytes<'p>(&self, packet: &'p Packet) -> &'p [u8] {
        packet.data().get(self.payload..self.end).unwrap_or_default()
    }

    /// Whether the TCP checksum is right.
    pub(crate) fn is_intact(&self, packet: &Packet) -> bool {
        let bytes = packet.data().get(self.tcp..self.end);
        let sum = self.pseudo_header(packet);
        bytes.zip(sum).is_some_and(|(bytes, sum)| sum.add_bytes(bytes).is_right())
    }

    /// The sum of what the TCP checksum covers of the IP header.
    fn pseudo_header(&self, packet: &Packet) -> Option<checksum::Sum> {
        let length = u16::try_from(self.end - self.tcp).unwrap_or(u16::MAX);
        match self.ends(packet)? {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                Some(checksum::Sum::of_pseudo_v4(from, to, protocol::TCP, length))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                Some(checksum::Sum::of_pseudo_v6(from, to, protocol::TCP, length.into()))
            }
            _ => None,
        }
    }

    /// The options that matter.
    pub(crate) fn announced(&self, packet: &Packet) -> Announced {
        let mut announced = Announced::default();
        let area = packet.data().get(self.tcp + TcpHeader::LEN..self.payload).unwrap_or_default();
        for option in Options::new(area).map_while(Result::ok) {
            match (option.kind, option.bytes) {
                (tcp_option::MAXIMUM_SEGMENT_SIZE, &[_, _, high, low]) => {
                    announced.segment_size = Some(u16::from_be_bytes([high, low]));
                }
                // Scales beyond 14 count as 14 (RFC 7323, 2.3).
                (tcp_option::WINDOW_SCALE, &[_, _, scale]) => {
                    announced.window_scale = Some(scale.min(14));
                }
                (tcp_option::SACK_PERMITTED, _) => announced.sack_permitted = true,
                (tcp_option::TIMESTAMPS, &[_, _, a, b, c, d, e, f, g, h]) => {
                    let own = u32::from_be_bytes([a, b, c, d]);
                    announced.timestamps = Some((own, u32::from_be_bytes([e, f, g, h])));
                }
                _ => {}
            }
        }
        announced
    }

    /// Removes `n` bytes from the front of the payload, and moves the sequence number on. The checksum becomes wrong.
    pub(crate) fn trim_front(&mut self, packet: &mut Packet, n: usize) {
        let n = n.min(self.len());
        let (payload, end) = (self.payload, self.end);
        if let Some(bytes) = packet.data_mut().get_mut(payload..end) {
            bytes.copy_within(n.., 0);
        }
        self.set_end(packet, end - n);
        self.sequence = self.sequence.wrapping_add(n as u32);
        self.write(packet);
    }

    /// Puts bytes behind the payload. The checksum becomes wrong.
    pub(crate) fn push_back(&mut self, packet: &mut Packet, bytes: &[u8]) {
        let old = self.end;
        packet.truncate(old);
        packet.append(bytes.len());
        self.set_end(packet, old + bytes.len());
        if let Some(place) = packet.data_mut().get_mut(old..old + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Puts bytes before and behind the payload. The checksum becomes wrong.
    pub(crate) fn frame(&mut self, packet: &mut Packet, before: &[u8], behind: &[u8]) {
        let (payload, old) = (self.payload, self.end);
        packet.truncate(old);
        packet.append(before.len() + behind.len());
        self.set_end(packet, old + before.len() + behind.len());
        let Some(place) = packet.data_mut().get_mut(payload..) else { return };
        place.copy_within(..old - payload, before.len());
        if let Some((place, rest)) = place.split_at_mut_checked(before.len()) {
            place.copy_from_slice(before);
            if let Some(place) = rest.get_mut(old - payload..) {
                place.copy_from_slice(behind);
            }
        }
    }

    /// Moves the identification of an IPv4 packet on.
    pub(crate) fn shift_id(&self, packet: &mut Packet, by: u16) {
        if by == 0 {
            return;
        }
        let Some(bytes) = packet.data_mut().get_mut(self.ip..) else { return };
        if bytes.first().is_some_and(|first| first >> 4 == 4)
            && let Some((ip, _)) = Ipv4Header::view_mut(bytes)
        {
            let id = ip.id.get().wrapping_add(by);
            ip.checksum.set(checksum::update(ip.checksum.get(), ip.id.get(), id));
            ip.id.set(id);
        }
    }

    /// Replaces the payload.
    pub(crate) fn set_payload(&mut self, packet: &mut Packet, bytes: &[u8]) {
        let end = self.payload + bytes.len();
        if end > packet.len() {
            let more = end - packet.len();
            packet.append(more);
        }
        self.set_end(packet, end);
        if let Some(place) = packet.data_mut().get_mut(self.payload..end) {
            place.copy_from_slice(bytes);
        }
    }

    /// Cuts the packet off, and corrects the IP header. The payload ends there.
    pub(crate) fn set_end(&mut self, packet: &mut Packet, end: usize) {
        packet.truncate(end);
        self.end = end;
        let length = end - self.ip;
        let Some(bytes) = packet.data_mut().get_mut(self.ip..) else { return };
        if bytes.first().is_some_and(|first| first >> 4 == 6) {
            let Some((ip, _)) = Ipv6Header::view_mut(bytes) else { return };
            ip.payload_len.set(u16::try_from(length.saturating_sub(Ipv6Header::LEN)).unwrap_or(0));
            return;
        }
        let length = u16::try_from(length).unwrap_or(0);
        let Some((ip, _)) = Ipv4Header::view_mut(bytes) else { return };
        if ip.total_len.get() != length {
            let sum = checksum::update(ip.checksum.get(), ip.total_len.get(), length);
            ip.total_len.set(length);
            ip.checksum.set(sum);
        }
    }

    /// Writes sequence number, acknowledgment, flags and window into the header. The checksum becomes wrong.
    pub(crate) fn write(&self, packet: &mut Packet) {
        let Some(bytes) = packet.data_mut().get_mut(self.tcp..) else { return };
        let Some((tcp, _)) = TcpHeader::view_mut(bytes) else { return };
        tcp.sequence.set(self.sequence);
        tcp.acknowledgment.set(self.acknowledgment);
        tcp.flags = self.flags;
        tcp.window.set(self.window);
    }

    /// Makes the TCP checksum right.
    pub(crate) fn sum(&self, packet: &mut Packet) {
        let Some(sum) = self.pseudo_header(packet) else { return };
        let Some(bytes) = packet.data_mut().get_mut(self.tcp..self.end) else { return };
        if let Some((tcp, _)) = TcpHeader::view_mut(bytes) {
            tcp.checksum.set(0);
        }
        let sum = sum.add_bytes(bytes).finish();
        if let Some((tcp, _)) = TcpHeader::view_mut(bytes) {
            tcp.checksum.set(sum);
        }
    }

    /// The blocks of the SACK option (RFC 2018).
    pub(crate) fn sack(&self, packet: &Packet) -> Vec<(u32, u32)> {
        let area = packet.data().get(self.tcp + TcpHeader::LEN..self.payload).unwrap_or_default();
        let mut options = Options::new(area).map_while(Result::ok);
        let Some(option) = options.find(|option| option.kind == tcp_option::SACK) else {
            return Vec::new();
        };
        let word = |block: &[u8], at: usize| {
            block.get(at..).and_then(<[u8]>::first_chunk).map(|word| u32::from_be_bytes(*word))
        };
        let blocks = option.bytes.get(2..).unwrap_or_default().chunks_exact(8);
        blocks.filter_map(|block| Some((word(block, 0)?, word(block, 4)?))).collect()
    }

    /// Replaces the SACK option by one with these blocks, as many as there is room for, or removes it. Returns whether
    /// the packet changed; its checksum is wrong then.
    pub(crate) fn set_sack(&mut self, packet: &mut Packet, blocks: &[(u32, u32)]) -> bool {
        let old = self.sack(packet);
        if old == blocks {
            return false;
        }
        let area = packet.data().get(self.tcp + TcpHeader::LEN..self.payload).unwrap_or_default();
        let mut options = Vec::with_capacity(40);
        for option in Options::new(area).map_while(Result::ok) {
            if !matches!(option.kind, tcp_option::SACK | tcp_option::NO_OPERATION) {
                options.extend_from_slice(option.bytes);
            }
        }
        write_sack(&mut options, blocks);
        let header = TcpHeader::LEN + options.len();
        let payload = self.bytes(packet).to_vec();
        let end = self.tcp + header + payload.len();
        if end - self.ip > LONGEST_PACKET {
            return false;
        }
        if end > packet.len() {
            let more = end - packet.len();
            packet.append(more);
        }
        self.payload = self.tcp + header;
        self.set_end(packet, end);
        let Some(bytes) = packet.data_mut().get_mut(self.tcp..) else { return true };
        let Some((tcp, rest)) = TcpHeader::view_mut(bytes) else { return true };
        tcp.data_offset = ((header / 4) << 4) as u8 | tcp.data_offset & 0xf;
        if let Some((area, place)) = rest.split_at_mut_checked(options.len()) {
            area.copy_from_slice(&options);
            place.copy_from_slice(&payload);
        }
        true
    }
}

/// The longest IP packet.
const LONGEST_PACKET: usize = 65_535;

/// Where the TCP header and the end of an IP packet are, as its headers say. `None` if there is no TCP header.
fn extent(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes.first()? >> 4 {
        4 => {
            let (ip, _) = Ipv4Header::view(bytes)?;
            let is_whole = ip.protocol == protocol::TCP && !ip.is_fragment();
            let header = ip.header_len();
            (is_whole && header >= Ipv4Header::LEN)
                .then_some((header, usize::from(ip.total_len.get())))
        }
        6 => {
            let (ip, rest) = Ipv6Header::view(bytes)?;
            let length = usize::from(ip.payload_len.get());
            let payload = if length == 0 { rest } else { rest.get(..length)? };
            let mut extensions = ip.extensions(payload);
            let is_fragment = extensions.by_ref().any(|one| one.fragment().is_some());
            let (kind, at) = extensions.reached();
            let total = if length == 0 { 0 } else { Ipv6Header::LEN + length };
            (kind == protocol::TCP && !is_fragment).then_some((Ipv6Header::LEN + at, total))
        }
        _ => None,
    }
}

/// Whether an IP packet without a whole segment may bring a receiver bytes of TCP: a fragment, or a header that is cut
/// off.
pub(crate) fn may_be_tcp(packet: &Packet) -> bool {
    let Some(bytes) = packet.network_data() else { return false };
    let hidden = [
        protocol::TCP,
        protocol::HOP_BY_HOP,
        protocol::ROUTING,
        protocol::FRAGMENT,
        protocol::AH,
        protocol::DESTINATION_OPTIONS,
    ];
    match bytes.first().map(|first| first >> 4) {
        Some(6) => Ipv6Header::view(bytes).is_some_and(|(ip, rest)| {
            let mut extensions = ip.extensions(rest);
            // What follows in a later fragment is no header.
            extensions.by_ref().find_map(|one| one.fragment().filter(|(one, _)| one.offset() > 0));
            hidden.contains(&extensions.reached().0)
        }),
        _ => Ipv4Header::view(bytes).is_some_and(|(ip, _)| ip.protocol == protocol::TCP),
    }
}

/// Adds a SACK option with as many blocks as there is room for, and pads the options.
fn write_sack(options: &mut Vec<u8>, blocks: &[(u32, u32)]) {
    /// Bytes of options that a header has room for.
    const MOST: usize = 40;
    while !options.len().is_multiple_of(4) {
        options.push(tcp_option::NO_OPERATION);
    }
    let blocks = blocks.iter().take(MOST.saturating_sub(options.len() + 4) / 8);
    if blocks.len() > 0 {
        let length = 2 + 8 * blocks.len() as u8;
        let padding = tcp_option::NO_OPERATION;
        options.extend_from_slice(&[padding, padding, tcp_option::SACK, length]);
        for (left, right) in blocks {
            options.extend_from_slice(&left.to_be_bytes());
            options.extend_from_slice(&right.to_be_bytes());
        }
    }
}

/// What a segment without a packet to start from consists of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blank {
    /// What stands before the IP header.
    pub(crate) link: Vec<u8>,
    /// The addresses.
    pub(crate) ends: Option<(IpAddr, IpAddr)>,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// The two timestamps, if the connection uses them.
    pub(crate) timestamps: Option<(u32, u32)>,
}

impl Blank {
    /// The segment as a packet, with headers set and checksums right. `None` when there is no memory.
    pub(crate) fn packet(&self) -> Option<Packet> {
        let mut options = Vec::new();
        if let Some((own, echoed)) = self.timestamps {
            options.extend_from_slice(&[1, 1, tcp_option::TIMESTAMPS, 10]);
            options.extend_from_slice(&own.to_be_bytes());
            options.extend_from_slice(&echoed.to_be_bytes());
        }
        let header = TcpHeader::LEN + options.len();
        let ends = self.ends?;
        let ip_header = if ends.0.is_ipv6() { Ipv6Header::LEN } else { Ipv4Header::LEN };
        let mut packet = Packet::with_len(self.link.len() + ip_header + header)?;
        let (link, data) = packet.data_mut().split_at_mut_checked(self.link.len())?;
        link.copy_from_slice(&self.link);
        match ends {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let (ip, _) = Ipv4Header::view_mut(data)?;
                ip.set_header_len(Ipv4Header::LEN);
                ip.total_len.set((ip_header + header) as u16);
                ip.flags_fragment.set(Ipv4Header::DONT_FRAGMENT);
                ip.ttl = 64;
                ip.protocol = protocol::TCP;
                (ip.src, ip.dst) = (from.octets(), to.octets());
                Ipv4Header::fill_checksum(data);
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let (ip, _) = Ipv6Header::view_mut(data)?;
                ip.set_version_class_flow(0, 0);
                ip.payload_len.set(header as u16);
                ip.hop_limit = 64;
                ip.next_header = protocol::TCP;
                (ip.src, ip.dst) = (from.octets(), to.octets());
            }
            _ => return None,
        }
        let (tcp, area) = TcpHeader::view_mut(data.get_mut(ip_header..)?)?;
        tcp.src_port.set(self.source_port);
        tcp.dst_port.set(self.destination_port);
        tcp.data_offset = ((header / 4) << 4) as u8;
        area.copy_from_slice(&options);
        packet.set_network_header(self.link.len() as isize, ip_header);
        match ends.1 {
            IpAddr::V4(to) => packet.set_dst_ip(to),
            IpAddr::V6(to) => packet.set_dst_ip6(to),
        }
        let mut segment = Segment::of(&packet)?;
        segment.sequence = self.sequence;
        segment.acknowledgment = self.acknowledgment;
        segment.flags = self.flags;
        segment.window = self.window;
        segment.write(&mut packet);
        segment.sum(&mut packet);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_packets::ip::{Datagram, read};
    use millrace_core::headers::tcp_flags;

    #[test]
    fn payloads_are_replaced_and_trimmed() {
        let mut packet = Datagram::tcp(b"some bytes").packet();
        let mut segment = Segment::of(&packet).unwrap();
        assert!(segment.is_intact(&packet));
        assert_eq!(segment.bytes(&packet), b"some bytes");
        for text in [&b"fewer"[..], b"many more bytes than there were before", b""] {
            segment.set_payload(&mut packet, text);
            segment.sum(&mut packet);
            let again = Segment::of(&packet).unwrap();
            assert_eq!(again, segment);
            assert!(again.is_intact(&packet) && again.bytes(&packet) == text);
            read(packet.data());
        }
        segment.set_payload(&mut packet, b"nt and");
        segment.frame(&mut packet, b"fro", b" b");
        segment.push_back(&mut packet, b"ack");
        segment.sum(&mut packet);
        assert_eq!(Segment::of(&packet).unwrap().bytes(&packet), b"front and back");
        let sequence = segment.sequence;
        segment.trim_front(&mut packet, 10);
        assert!(!segment.is_intact(&packet));
        segment.sum(&mut packet);
        let again = Segment::of(&packet).unwrap();
        assert_eq!((again.bytes(&packet), again.sequence), (&b"back"[..], sequence + 10));
    }

    #[test]
    fn what_is_no_whole_segment_is_none() {
        let good = Datagram::tcp(b"data");
        for wrong in [
            Datagram::udp(b"data"),
            Datagram { more_fragments: true, ..good.clone() },
            Datagram { fragment_offset: 1, ..good.clone() },
            Datagram { payload: good.payload[..19].to_vec(), ..good.clone() },
        ] {
            assert_eq!(Segment::of(&wrong.packet()), None);
        }
        for length in 0..good.bytes().len() {
            let mut packet = good.packet();
            packet.truncate(length);
            assert_eq!(Segment::of(&packet), None, "{length} bytes");
        }
        let mut header = good.packet();
        header.data_mut()[32] = 0xf0;
        assert_eq!(Segment::of(&header), None, "options beyond the end");
        let mut padded = good.packet();
        padded.push_back(b"padding");
        assert_eq!(Segment::of(&padded).unwrap().bytes(&padded), b"data");
    }

    #[test]
    fn a_blank_has_its_options() {
        let blank = Blank {
            link: b"some link header".to_vec(),
            ends: Some(([1, 2, 3, 4].into(), [5, 6, 7, 8].into())),
            source_port: 9,
            destination_port: 10,
            sequence: 11,
            acknowledgment: 12,
            flags: tcp_flags::ACK,
            window: 13,
            timestamps: Some((14, 15)),
        };
        let mut packet = blank.packet().unwrap();
        let mut segment = Segment::of(&packet).unwrap();
        assert!(segment.is_intact(&packet));
        assert_eq!((segment.sequence, segment.acknowledgment, segment.window), (11, 12, 13));
        assert_eq!(segment.announced(&packet).timestamps, Some((14, 15)));
        segment.set_payload(&mut packet, b"payload");
        let many: Vec<(u32, u32)> = (0..9).map(|n| (n * 2, n * 2 + 1)).collect();
        for (blocks, left) in [(&many[..], 3), (&many[4..5], 1), (&[], 0), (&many[..2], 2)] {
            assert!(segment.set_sack(&mut packet, blocks));
            segment.sum(&mut packet);
            assert_eq!(Segment::of(&packet), Some(segment));
            assert!(segment.is_intact(&packet) && segment.bytes(&packet) == b"payload");
            assert_eq!(segment.sack(&packet), blocks[..left]);
            assert_eq!(segment.announced(&packet).timestamps, Some((14, 15)));
            read(packet.data().strip_prefix(b"some link header").unwrap());
        }
        assert!(!segment.set_sack(&mut packet, &many[..2]), "nothing to do");
    }
}

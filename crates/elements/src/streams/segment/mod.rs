//! A TCP segment over IPv4 in a packet: where its parts are, and changes to them.

use millrace_core::headers::{Header, Ipv4Header, Options, TcpHeader, protocol, tcp_option};
use millrace_core::{Packet, checksum};

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
        let bytes = packet.network_data()?;
        let ip_at = packet.len().checked_sub(bytes.len())?;
        let (ip, _) = Ipv4Header::view(bytes)?;
        let (header, total) = (ip.header_len(), usize::from(ip.total_len.get()));
        if ip.protocol != protocol::TCP || ip.is_fragment() || header < Ipv4Header::LEN {
            return None;
        }
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
        let data = packet.data();
        let Some((ip, _)) = data.get(self.ip..).and_then(Ipv4Header::view) else { return false };
        let Some(bytes) = data.get(self.tcp..self.end) else { return false };
        let sum = checksum::Sum::of_pseudo_v4(
            ip.source(),
            ip.destination(),
            protocol::TCP,
            u16::try_from(bytes.len()).unwrap_or(u16::MAX),
        );
        sum.add_bytes(bytes).is_right()
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
        let length = u16::try_from(end - self.ip).unwrap_or(u16::MAX);
        let Some(bytes) = packet.data_mut().get_mut(self.ip..) else { return };
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
        let data = packet.data_mut();
        let Some((ip, _)) = data.get(self.ip..).and_then(Ipv4Header::view) else { return };
        let (source, destination) = (ip.source(), ip.destination());
        let Some(bytes) = data.get_mut(self.tcp..self.end) else { return };
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        if let Some((tcp, _)) = TcpHeader::view_mut(bytes) {
            tcp.checksum.set(0);
        }
        let sum = checksum::Sum::of_pseudo_v4(source, destination, protocol::TCP, length);
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
    pub(crate) source: [u8; 4],
    pub(crate) destination: [u8; 4],
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
        let total = Ipv4Header::LEN + header;
        let mut packet = Packet::with_len(self.link.len() + total)?;
        let (link, data) = packet.data_mut().split_at_mut_checked(self.link.len())?;
        link.copy_from_slice(&self.link);
        let (ip, rest) = Ipv4Header::view_mut(data)?;
        ip.set_header_len(Ipv4Header::LEN);
        ip.total_len.set(total as u16);
        ip.flags_fragment.set(Ipv4Header::DONT_FRAGMENT);
        ip.ttl = 64;
        ip.protocol = protocol::TCP;
        (ip.src, ip.dst) = (self.source, self.destination);
        let (tcp, area) = TcpHeader::view_mut(rest)?;
        tcp.src_port.set(self.source_port);
        tcp.dst_port.set(self.destination_port);
        tcp.data_offset = ((header / 4) << 4) as u8;
        area.copy_from_slice(&options);
        Ipv4Header::fill_checksum(data);
        packet.set_network_header(self.link.len() as isize, Ipv4Header::LEN);
        packet.set_dst_ip(self.destination.into());
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
        segment.set_payload(&mut packet, b"front and back");
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
            source: [1, 2, 3, 4],
            destination: [5, 6, 7, 8],
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

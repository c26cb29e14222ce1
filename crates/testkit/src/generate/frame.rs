//! Ethernet frames, made from the seven fields of a [`Header`] and a payload.

use super::rules::{Header, ICMP, IPV4, TCP, UDP};

/// The shortest frame of Ethernet, without its checksum; shorter ones are padded with zeros.
pub const SHORTEST: usize = 60;

/// The longest frame without VLAN tags, without its checksum.
pub const LONGEST: usize = 1514;

const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];

/// A frame to be made. Its checksums will be right.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The seven fields.
    pub header: Header,
    /// Its VLAN tags, the outer one first: priority and number of each.
    pub vlans: &'a [u16],
    /// Words of IP options, up to 10: all of them `NOP`.
    pub options: u8,
    /// The data after the header of TCP, UDP or ICMP; after the IP header for other protocols; and after the Ethernet
    /// header without IPv4.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A frame without VLAN tags and IP options.
    #[must_use]
    pub fn new(header: Header, payload: &'a [u8]) -> Self {
        Self { header, vlans: &[], options: 0, payload }
    }

    /// The number of bytes before the payload.
    #[must_use]
    pub fn headers(&self) -> usize {
        let ethernet = 14 + 4 * self.vlans.len();
        if self.header.ether_type != IPV4 {
            return ethernet;
        }
        ethernet + self.ip_header() + transport_header(self.header.protocol)
    }

    /// The frame's bytes, at least [`SHORTEST`] of them, without the checksum at the end.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let Header { ethernet: [source, destination], ether_type, .. } = self.header;
        let mut bytes = Vec::with_capacity((self.headers() + self.payload.len()).max(SHORTEST));
        bytes.extend_from_slice(&destination);
        bytes.extend_from_slice(&source);
        for (at, tag) in self.vlans.iter().enumerate() {
            // Only the innermost tag is the customer's (IEEE 802.1Q).
            let is_inner = at + 1 == self.vlans.len();
            bytes.extend_from_slice(&VLAN_TAGS[usize::from(!is_inner)].to_be_bytes());
            bytes.extend_from_slice(&tag.to_be_bytes());
        }
        bytes.extend_from_slice(&ether_type.to_be_bytes());
        match ether_type {
            IPV4 => self.push_ip(&mut bytes),
            _ => bytes.extend_from_slice(self.payload),
        }
        bytes.resize(bytes.len().max(SHORTEST), 0);
        bytes
    }

    fn ip_header(&self) -> usize {
        20 + 4 * usize::from(self.options.min(10))
    }

    fn push_ip(&self, bytes: &mut Vec<u8>) {
        let Header { addresses: [source, destination], protocol, .. } = self.header;
        let header = self.ip_header();
        let length = header + transport_header(protocol) + self.payload.len();
        let start = bytes.len();
        bytes.extend_from_slice(&[0x40 | (header / 4) as u8, 0]);
        bytes.extend_from_slice(&(length as u16).to_be_bytes());
        // Identification 0, don't fragment, 64 hops.
        bytes.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
        bytes.extend_from_slice(&source.to_be_bytes());
        bytes.extend_from_slice(&destination.to_be_bytes());
        bytes.resize(start + header, 1);
        put_checksum(&mut bytes[start..], 10, 0);
        self.push_transport(bytes);
    }

    fn push_transport(&self, bytes: &mut Vec<u8>) {
        let Header { addresses: [source, destination], protocol, ports: [from, to], .. } =
            self.header;
        let start = bytes.len();
        let length = transport_header(protocol) + self.payload.len();
        let mut header = [0; 20];
        header[0..2].copy_from_slice(&from.to_be_bytes());
        header[2..4].copy_from_slice(&to.to_be_bytes());
        let checksum_at = match protocol {
            TCP => {
                // Sequence number 1, acknowledgement 1; ACK and PSH; a window of 8 KiB.
                header[4..16].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0]);
                Some(16)
            }
            UDP => {
                header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
                Some(6)
            }
            ICMP => {
                // Echo.
                header[..4].copy_from_slice(&[8, 0, 0, 0]);
                Some(2)
            }
            _ => None,
        };
        bytes.extend_from_slice(&header[..transport_header(protocol)]);
        bytes.extend_from_slice(self.payload);
        let Some(checksum_at) = checksum_at else { return };
        let pseudo_header = match protocol {
            ICMP => 0,
            _ => {
                let words =
                    [source >> 16, source & 0xffff, destination >> 16, destination & 0xffff];
                words.iter().sum::<u32>() + u32::from(protocol) + length as u32
            }
        };
        put_checksum(&mut bytes[start..], checksum_at, pseudo_header);
        // Zero would mean that there is no checksum (RFC 768).
        if protocol == UDP && bytes[start + 6..start + 8] == [0, 0] {
            bytes[start + 6..start + 8].fill(0xff);
        }
    }
}

/// The payload of a frame that [`Frame`] made: after VLAN tags, the IP header, and the header of TCP, UDP or ICMP;
/// without padding. `None` if the frame is truncated.
#[must_use]
pub fn payload(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    let word = |at: usize| {
        let bytes = frame.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    while VLAN_TAGS.contains(&word(at)?) {
        at += 4;
    }
    let ip = at + 2;
    if word(at)? != IPV4 {
        return frame.get(ip..);
    }
    let header = usize::from(frame.get(ip)? & 0xf) * 4;
    let transport = match *frame.get(ip + 9)? {
        // The TCP header contains its own length.
        TCP => usize::from(frame.get(ip + header + 12)? >> 4) * 4,
        protocol => transport_header(protocol),
    };
    frame.get(ip + header + transport..ip + usize::from(word(ip + 2)?))
}

fn transport_header(protocol: u8) -> usize {
    match protocol {
        TCP => 20,
        UDP | ICMP => 8,
        _ => 0,
    }
}

/// Writes the Internet checksum (RFC 1071) of the bytes and a start value into a field that is zero.
fn put_checksum(bytes: &mut [u8], at: usize, start: u32) {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])));
    let mut sum = start + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    bytes[at..at + 2].copy_from_slice(&(!sum as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice, checksum::Sum16BitWords};

    use super::super::trace;
    use super::*;

    fn header(protocol: u8) -> Header {
        Header { protocol, ..trace::anything(&mut fastrand::Rng::with_seed(3)) }
    }

    #[test]
    fn a_packet_library_reads_the_fields_of_frames() {
        let long: Vec<u8> = (0..1472).map(|byte| byte as u8).collect();
        for protocol in [TCP, UDP, ICMP, 47] {
            for payload in [&b"abc"[..], b"", &long[..1000], &long[..1001], &long] {
                for (vlans, options) in [(&[][..], 0), (&[7], 3), (&[100, 4095], 10)] {
                    let frame = Frame { header: header(protocol), vlans, options, payload };
                    let bytes = frame.bytes();
                    let read = SlicedPacket::from_ethernet(&bytes).unwrap();
                    assert_eq!(read.link_exts.len(), vlans.len());
                    let Some(NetSlice::Ipv4(ip)) = read.net else { panic!("{bytes:02x?}") };
                    assert_eq!(ip.header().source(), frame.header.addresses[0].to_be_bytes());
                    assert_eq!(ip.header().destination(), frame.header.addresses[1].to_be_bytes());
                    assert_eq!(ip.header().options().len(), usize::from(options) * 4);
                    let whole = Sum16BitWords::new().add_slice(ip.header().slice());
                    assert_eq!(whole.ones_complement(), 0, "{bytes:02x?}");
                    let [from, to] = frame.header.ports;
                    match read.transport {
                        Some(TransportSlice::Tcp(tcp)) => {
                            assert_eq!((tcp.source_port(), tcp.destination_port()), (from, to));
                            let sum = tcp
                                .to_header()
                                .calc_checksum_ipv4(&ip.header().to_header(), payload);
                            assert_eq!(sum.unwrap(), tcp.checksum());
                            assert_eq!(tcp.payload(), payload);
                        }
                        Some(TransportSlice::Udp(udp)) => {
                            assert_eq!((udp.source_port(), udp.destination_port()), (from, to));
                            let sum = udp
                                .to_header()
                                .calc_checksum_ipv4(&ip.header().to_header(), payload);
                            assert_eq!(sum.unwrap(), udp.checksum());
                            assert_eq!(udp.payload(), payload);
                        }
                        Some(TransportSlice::Icmpv4(icmp)) => {
                            let whole = Sum16BitWords::new().add_slice(icmp.slice());
                            assert_eq!(whole.ones_complement(), 0);
                            assert_eq!(icmp.payload(), payload);
                        }
                        _ => assert_eq!((protocol, ip.payload().payload), (47, payload)),
                    }
                    assert_eq!(super::payload(&bytes), Some(payload));
                    assert_eq!(bytes.len(), (frame.headers() + payload.len()).max(SHORTEST));
                }
            }
        }
    }

    #[test]
    fn frames_without_ip_are_payload() {
        let ethernet = [*b"source", *b"target"];
        let header = Header { ethernet, ether_type: 0x88cc, ..header(0) };
        let bytes = Frame::new(header, b"chassis").bytes();
        assert_eq!(&bytes[..22], b"targetsource\x88\xccchassis\0");
        assert_eq!(bytes.len(), SHORTEST);
    }

    #[test]
    fn a_frame_that_is_cut_has_no_payload() {
        let bytes = Frame::new(header(TCP), &[b'x'; 100]).bytes();
        for length in 0..bytes.len() {
            assert_eq!(payload(&bytes[..length]), None, "{length}");
        }
    }
}

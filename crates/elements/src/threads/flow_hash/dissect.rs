//! Finds the flow that a packet belongs to, through VLAN tags and tunnels.
//!
//! | layer | how it is recognized | source |
//! |---|---|---|
//! | VLAN, QinQ | EtherType 8100, 88a8, 9100 | IEEE 802.1Q, 802.1ad |
//! | IPv4, IPv6 | EtherType 0800, 86dd; protocol 4, 41 (IP in IP) | RFC 791, 8200, 2003, 2473 |
//! | GRE | protocol 47, version 0; also with Ethernet inside | RFC 2784, 2890 |
//! | VXLAN | UDP to port 4789 | RFC 7348 |
//! | GTP-U | UDP to port 2152, user data | 3GPP TS 29.281 |
//!
//! No packet content makes this fail. A truncated or invalid header ends the search, and the
//! innermost flow found so far is the result.

/// The source and destination of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) kind: Kind,
    /// Addresses as numbers, with the last byte lowest.
    pub(super) source: u128,
    pub(super) destination: u128,
    /// The ports of TCP, UDP, SCTP, DCCP or UDP-Lite, unless the packet is a fragment: all
    /// fragments of a datagram have the same addresses, but only one has the ports.
    pub(super) ports: Option<(u16, u16)>,
    /// The IP protocol, or the EtherType if the packet is not IP.
    pub(super) protocol: u16,
}

/// The kind of a flow's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Ether,
    V4,
    V6,
}

impl Kind {
    /// Length of an address in bytes.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Ether => 6,
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }
}

/// The header that a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Ether,
    /// IPv4 or IPv6.
    Ip,
}

/// What a header contains: the kind of the next header, and its bytes.
type Inside<'a> = Option<(Start, &'a [u8])>;

/// Maximum number of headers to parse: more than any sane packet has.
const DEEPEST: usize = 12;

const TCP: u8 = 6;
const UDP: u8 = 17;
const VXLAN_PORT: u16 = 4789;
const GTP_PORT: u16 = 2152;

/// The innermost flow of a packet, or the outermost one if `outer`; None if there is not even an
/// Ethernet header.
#[inline]
pub(super) fn flow_of(bytes: &[u8], start: Start, outer: bool) -> Option<Flow> {
    let packet = match start {
        Start::Ether => bytes.get(14..).filter(|_| bytes.get(12..14) == Some(&[8, 0])),
        Start::Ip => Some(bytes),
    };
    packet.and_then(plain).or_else(|| search(bytes, start, outer))
}

/// Fast path for the most common packets: the flow of TCP or UDP in IPv4 without options, neither a
/// fragment nor a tunnel.
#[inline]
fn plain(packet: &[u8]) -> Option<Flow> {
    let header = packet.first_chunk::<24>()?;
    let protocol = header[9];
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let to = u16::from_be_bytes([header[22], header[23]]);
    let tunnel = protocol == UDP && matches!(to, VXLAN_PORT | GTP_PORT);
    let plain = header[0] == 0x45 && !fragment && matches!(protocol, TCP | UDP) && !tunnel;
    plain.then(|| Flow {
        kind: Kind::V4,
        source: u32::from_be_bytes([header[12], header[13], header[14], header[15]]).into(),
        destination: u32::from_be_bytes([header[16], header[17], header[18], header[19]]).into(),
        ports: Some((u16::from_be_bytes([header[20], header[21]]), to)),
        protocol: protocol.into(),
    })
}

/// Parses one header after the other.
fn search(bytes: &[u8], start: Start, outer: bool) -> Option<Flow> {
    let mut flow = Flow::default();
    let mut inside = Some((start, bytes));
    for _ in 0..DEEPEST {
        inside = match inside {
            None => break,
            Some((Start::Ether, bytes)) => ether(bytes),
            Some((Start::Ip, bytes)) => ip(&mut flow, bytes),
        };
        if outer && flow.kind != Kind::Ether {
            break;
        }
    }
    // The addresses of the frame are the flow only if no IP header was found.
    match (flow.kind, start) {
        (Kind::Ether, Start::Ether) => frame_of(bytes),
        (Kind::Ether, Start::Ip) => None,
        _ => Some(flow),
    }
}

fn ether(bytes: &[u8]) -> Inside<'_> {
    let (kind, inside) = ether_type(bytes)?;
    matches!(kind, 0x0800 | 0x86dd).then_some((Start::Ip, inside))
}

/// The EtherType after all tags, and the bytes after it.
fn ether_type(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (header, mut rest) = bytes.split_first_chunk::<14>()?;
    let mut kind = u16::from_be_bytes([header[12], header[13]]);
    let mut tags = 0;
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) && tags < DEEPEST {
        let Some((tag, after)) = rest.split_first_chunk::<4>() else { break };
        kind = u16::from_be_bytes([tag[2], tag[3]]);
        rest = after;
        tags += 1;
    }
    Some((kind, rest))
}

/// The flow of a frame that is not IP.
#[cold]
fn frame_of(bytes: &[u8]) -> Option<Flow> {
    let (protocol, _) = ether_type(bytes)?;
    let address = |octets: &[u8]| octets.iter().fold(0, |all, &byte| all << 8 | u128::from(byte));
    let (destination, source) = bytes.get(..12)?.split_at(6);
    Some(Flow {
        kind: Kind::Ether,
        source: address(source),
        destination: address(destination),
        ports: None,
        protocol,
    })
}

fn ip<'a>(flow: &mut Flow, bytes: &'a [u8]) -> Inside<'a> {
    match bytes.first()? >> 4 {
        4 => ipv4(flow, bytes),
        6 => ipv6(flow, bytes),
        _ => None,
    }
}

fn ipv4<'a>(flow: &mut Flow, bytes: &'a [u8]) -> Inside<'a> {
    let header = bytes.first_chunk::<20>()?;
    let length = usize::from(header[0] & 0xf) * 4;
    let inside = bytes.get(length..).filter(|_| length >= 20).unwrap_or_default();
    // More fragments, or an offset.
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    flow.kind = Kind::V4;
    flow.source = u32::from_be_bytes([header[12], header[13], header[14], header[15]]).into();
    flow.destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]).into();
    transport(flow, header[9], fragment, inside)
}

fn ipv6<'a>(flow: &mut Flow, bytes: &'a [u8]) -> Inside<'a> {
    let (fixed, rest) = bytes.split_first_chunk::<8>()?;
    let (source, rest) = rest.split_first_chunk::<16>()?;
    let (destination, mut inside) = rest.split_first_chunk::<16>()?;
    let mut protocol = fixed[6];
    let mut fragment = false;
    for _ in 0..DEEPEST {
        if !matches!(protocol, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140) {
            break;
        }
        let Some(&[next, length, high, low]) = inside.first_chunk::<4>() else { break };
        let length = match protocol {
            // Authentication.
            51 => (usize::from(length) + 2) * 4,
            44 => {
                // An offset, or more fragments.
                fragment |= u16::from_be_bytes([high, low]) & 0xfff9 != 0;
                8
            }
            // Hop-by-hop options, routing, destination options, mobility, HIP, shim6.
            _ => (usize::from(length) + 1) * 8,
        };
        protocol = next;
        inside = inside.get(length..).unwrap_or_default();
    }
    flow.kind = Kind::V6;
    flow.source = u128::from_be_bytes(*source);
    flow.destination = u128::from_be_bytes(*destination);
    transport(flow, protocol, fragment, inside)
}

/// Parses what follows an IP header.
fn transport<'a>(flow: &mut Flow, protocol: u8, fragment: bool, bytes: &'a [u8]) -> Inside<'a> {
    flow.protocol = protocol.into();
    flow.ports = None;
    if fragment {
        return None;
    }
    match protocol {
        // Also SCTP, DCCP, UDP-Lite.
        TCP | UDP | 33 | 132 | 136 => {
            flow.ports = ports(bytes);
            match flow.ports {
                Some((_, VXLAN_PORT)) if protocol == UDP => vxlan(bytes),
                Some((_, GTP_PORT)) if protocol == UDP => gtp(bytes),
                _ => None,
            }
        }
        4 | 41 => Some((Start::Ip, bytes)),
        47 => gre(bytes),
        _ => None,
    }
}

fn ports(bytes: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *bytes.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

fn gre(bytes: &[u8]) -> Inside<'_> {
    const CHECKSUM: u16 = 0x8000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    let mut rest = bytes;
    let flags = take_u16(&mut rest)?;
    let kind = take_u16(&mut rest)?;
    // Reject routing and other versions.
    if flags & 0x4007 != 0 {
        return None;
    }
    let fields = [CHECKSUM, KEY, SEQUENCE].iter().filter(|&&flag| flags & flag != 0).count();
    let rest = rest.get(fields * 4..)?;
    match kind {
        0x0800 | 0x86dd => Some((Start::Ip, rest)),
        0x6558 => Some((Start::Ether, rest)),
        _ => None,
    }
}

/// Parses VXLAN after the UDP header at the start of `bytes`.
fn vxlan(bytes: &[u8]) -> Inside<'_> {
    let valid = bytes.get(8)? & 0x08 != 0;
    Some((Start::Ether, bytes.get(16..)?)).filter(|_| valid)
}

/// Parses GTP-U after the UDP header at the start of `bytes`.
fn gtp(bytes: &[u8]) -> Inside<'_> {
    const USER_DATA: u8 = 255;
    let &[flags, kind] = bytes.get(8..)?.first_chunk::<2>()?;
    // Version 1, no charging.
    if flags & 0xf0 != 0x30 || kind != USER_DATA {
        return None;
    }
    let mut rest = bytes.get(16..)?;
    if flags & 0x07 != 0 {
        let (optional, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        let mut extension = if flags & 0x04 != 0 { optional[3] } else { 0 };
        while extension != 0 {
            // The length is in 32-bit words; the last byte is the type of the next extension.
            let length = usize::from(*rest.first()?) * 4;
            extension = *rest.get(..length)?.last()?;
            rest = rest.get(length..)?;
        }
    }
    Some((Start::Ip, rest))
}

fn take_u16(bytes: &mut &[u8]) -> Option<u16> {
    let (number, rest) = bytes.split_first_chunk::<2>()?;
    *bytes = rest;
    Some(u16::from_be_bytes(*number))
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used, reason = "helpers of tests")]

    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::*;

    /// A flow to build test packets of.
    #[derive(Clone, Debug)]
    pub(in crate::threads) struct Wanted {
        pub(in crate::threads) v6: bool,
        pub(in crate::threads) tcp: bool,
        pub(in crate::threads) hosts: (u8, u8),
        pub(in crate::threads) ports: (u16, u16),
    }

    impl Wanted {
        pub(in crate::threads) fn reversed(&self) -> Self {
            let ((a, b), (c, d)) = (self.hosts, self.ports);
            Self { hosts: (b, a), ports: (d, c), ..self.clone() }
        }

        /// The expected flow.
        fn flow(&self) -> Flow {
            let address = |host: u8| match self.v6 {
                true => u128::from_be_bytes(v6(host)),
                false => u32::from_be_bytes([10, 0, 0, host]).into(),
            };
            Flow {
                kind: if self.v6 { Kind::V6 } else { Kind::V4 },
                source: address(self.hosts.0),
                destination: address(self.hosts.1),
                ports: Some(self.ports),
                protocol: if self.tcp { 6 } else { 17 },
            }
        }

        /// The IP packet, built by an independent library.
        pub(in crate::threads) fn packet(&self) -> Vec<u8> {
            let builder = match self.v6 {
                true => PacketBuilder::ipv6(v6(self.hosts.0), v6(self.hosts.1), 64),
                false => {
                    PacketBuilder::ipv4([10, 0, 0, self.hosts.0], [10, 0, 0, self.hosts.1], 64)
                }
            };
            let mut bytes = Vec::new();
            match self.tcp {
                true => builder.tcp(self.ports.0, self.ports.1, 1, 1024).write(&mut bytes, b"data"),
                false => builder.udp(self.ports.0, self.ports.1).write(&mut bytes, b"data"),
            }
            .unwrap();
            bytes
        }
    }

    fn v6(host: u8) -> [u8; 16] {
        [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]
    }

    pub(in crate::threads) fn wanted() -> impl Strategy<Value = Wanted> {
        // Ports that no tunnel uses.
        (any::<bool>(), any::<bool>(), any::<(u8, u8)>(), (1u16..2000, 1u16..2000))
            .prop_map(|(v6, tcp, hosts, ports)| Wanted { v6, tcp, hosts, ports })
    }

    /// Ways to encapsulate an IP packet.
    pub(in crate::threads) const WRAPS: &[&str] = &[
        "none",
        "ipip",
        "ip in ipv6",
        "gre",
        "gre with all",
        "gre ether",
        "vxlan",
        "gtp",
        "gtp extended",
    ];

    pub(in crate::threads) fn wrap(packet: &[u8], how: &str) -> Vec<u8> {
        let number = if packet[0] >> 4 == 4 { 4u8 } else { 41 };
        let kind = if number == 4 { [8, 0] } else { [0x86, 0xdd] };
        match how {
            "ipip" => in_ipv4(number, packet),
            "ip in ipv6" => {
                let mut outer = vec![0x60, 0, 0, 0, 0, 0, 60, 64];
                outer.extend([v6(200), v6(201)].concat());
                // Destination options, then a fragment header of an unfragmented packet.
                outer.extend([44, 0, 1, 4, 0, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 9]);
                [outer, packet.to_vec()].concat()
            }
            "gre" => in_ipv4(47, &[&[0, 0, kind[0], kind[1]], packet].concat()),
            "gre with all" => {
                in_ipv4(47, &[&[0xb0, 0, kind[0], kind[1]], &[7; 12][..], packet].concat())
            }
            "gre ether" => in_ipv4(47, &[&[0, 0, 0x65, 0x58], &frame(packet, 1)[..]].concat()),
            "vxlan" => {
                let header = [8, 0, 0, 0, 0, 0, 42, 0];
                in_ipv4(17, &[&udp(50_000, 4789)[..], &header, &frame(packet, 0)].concat())
            }
            "gtp" => {
                let header = [0x30, 255, 0, 0, 0, 0, 0, 1];
                in_ipv4(17, &[&udp(2152, 2152)[..], &header, packet].concat())
            }
            "gtp extended" => {
                let header = [0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85];
                let extensions = [1, 0, 9, 0xc0, 2, 1, 2, 3, 4, 5, 6, 0];
                in_ipv4(17, &[&udp(1, 2152)[..], &header, &extensions, packet].concat())
            }
            _ => packet.to_vec(),
        }
    }

    fn in_ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0x46, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        header.extend([192, 0, 2, 1, 192, 0, 2, 2, 1, 1, 1, 0]);
        [&header, payload].concat()
    }

    fn udp(from: u16, to: u16) -> Vec<u8> {
        [from.to_be_bytes(), to.to_be_bytes(), [0, 0], [0, 0]].concat()
    }

    /// A frame with this many VLAN tags.
    pub(in crate::threads) fn frame(packet: &[u8], tags: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for tag in 0..tags {
            frame.extend([if tag == 0 { [0x88, 0xa8] } else { [0x81, 0] }, [0, 7]].concat());
        }
        frame.extend(if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
        [frame, packet.to_vec()].concat()
    }

    proptest! {
        #[test]
        fn the_innermost_flow_is_found(
            wanted in wanted(),
            inner in 0..WRAPS.len(),
            outer in 0..WRAPS.len(),
            tags in 0usize..3,
        ) {
            let packet = wrap(&wrap(&wanted.packet(), WRAPS[inner]), WRAPS[outer]);
            let found = flow_of(&frame(&packet, tags), Start::Ether, false);
            prop_assert_eq!(found, Some(wanted.flow()), "{} in {}", WRAPS[inner], WRAPS[outer]);
            prop_assert_eq!(flow_of(&packet, Start::Ip, false), Some(wanted.flow()));
            // The flow of a tunnel is found if requested.
            if outer > 0 {
                prop_assert_ne!(flow_of(&packet, Start::Ip, true), Some(wanted.flow()));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
            wanted in wanted(),
            how in 0..WRAPS.len(),
            cut in any::<usize>(),
            outer in any::<bool>(),
        ) {
            flow_of(&bytes, Start::Ether, outer);
            flow_of(&bytes, Start::Ip, outer);
            let packet = frame(&wrap(&wanted.packet(), WRAPS[how]), 1);
            let cut = cut % (packet.len() + 1);
            flow_of(&packet[..cut], Start::Ether, outer);
            bytes.splice(0..0, packet[..cut].iter().copied());
            flow_of(&bytes, Start::Ether, outer);
        }
    }

    #[test]
    fn a_truncated_packet_has_the_last_complete_flow() {
        let inner = Wanted { v6: false, tcp: false, hosts: (1, 2), ports: (7, 8) };
        let packet = frame(&wrap(&inner.packet(), "gre"), 0);
        let at = |length: usize| flow_of(&packet[..length], Start::Ether, false);
        assert_eq!(at(13), None);
        assert_eq!(at(14).unwrap().protocol, 0x800);
        // Ethernet 14, IPv4 with options 24, GRE 4, IPv4 20.
        assert_eq!(at(14 + 24 + 4 + 19).unwrap().protocol, 47);
        let without_ports = at(14 + 24 + 4 + 20).unwrap();
        assert_eq!((without_ports.protocol, without_ports.ports), (17, None));
        assert_eq!(at(14 + 24 + 4 + 24).unwrap().ports, Some((7, 8)));
    }

    #[test]
    fn fragments_have_no_ports() {
        let wanted = Wanted { v6: false, tcp: false, hosts: (1, 2), ports: (7, 8) };
        let mut packet = wanted.packet();
        packet[6] = 0x20;
        let first = flow_of(&packet, Start::Ip, false).unwrap();
        packet[6..8].copy_from_slice(&[0, 185]);
        let last = flow_of(&packet, Start::Ip, false).unwrap();
        assert_eq!((first, first.ports), (last, None));

        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 44, 64];
        packet.extend([v6(1), v6(2)].concat());
        packet.extend([17, 0, 0, 1, 0, 0, 0, 5]);
        packet.extend(udp(7, 8));
        let first = flow_of(&packet, Start::Ip, false).unwrap();
        packet[42..44].copy_from_slice(&[1, 0]);
        assert_eq!(flow_of(&packet, Start::Ip, false), Some(first));
        assert_eq!((first.ports, first.protocol), (None, 17));
    }
}

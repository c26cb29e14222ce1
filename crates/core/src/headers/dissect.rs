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
//!
//! Elements that know where the IP header is and want only IPv4 use [`Ipv4Header::transport`] and [`ports`] instead.

use super::{
    EthernetHeader, Header, Ipv4Header, Ipv6Header, VlanHeader, ether_type, ports, protocol,
};

/// The source and destination of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The kind of the addresses.
    pub kind: Kind,
    /// The source address as a number, with the last byte lowest.
    pub source: u128,
    /// The destination address as a number, with the last byte lowest.
    pub destination: u128,
    /// The ports of TCP, UDP, SCTP, DCCP or UDP-Lite, unless the packet is a fragment: all
    /// fragments of a datagram have the same addresses, but only one has the ports.
    pub ports: Option<(u16, u16)>,
    /// The IP protocol, or the EtherType if the packet is not IP.
    pub protocol: u16,
}

/// The kind of a flow's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Ethernet addresses: the packet is not IP.
    #[default]
    Ether,
    /// IPv4 addresses.
    V4,
    /// IPv6 addresses.
    V6,
}

impl Kind {
    /// Length of an address in bytes.
    #[must_use]
    pub fn address_len(self) -> usize {
        match self {
            Self::Ether => 6,
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }
}

/// The header that a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An Ethernet header.
    Ether,
    /// IPv4 or IPv6.
    Ip,
}

/// What a header contains: the kind of the next header, and its bytes.
type Inside<'a> = Option<(Start, &'a [u8])>;

/// Maximum number of headers to parse: more than any sane packet has.
const DEEPEST: usize = 12;

/// Marks a service tag in devices older than IEEE 802.1ad.
const OLD_SERVICE_VLAN: u16 = 0x9100;
const VXLAN_PORT: u16 = 4789;
const GTP_PORT: u16 = 2152;

/// The innermost flow of a packet, or the outermost one if `outer`; None if there is not even an
/// Ethernet header.
#[inline]
pub fn flow_of(bytes: &[u8], start: Start, outer: bool) -> Option<Flow> {
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
    let tunnel = protocol == protocol::UDP && matches!(to, VXLAN_PORT | GTP_PORT);
    let plain = header[0] == 0x45
        && !fragment
        && matches!(protocol, protocol::TCP | protocol::UDP)
        && !tunnel;
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
    let (kind, inside) = behind_tags(bytes)?;
    matches!(kind, ether_type::IPV4 | ether_type::IPV6).then_some((Start::Ip, inside))
}

/// The EtherType after all tags, and the bytes after it.
fn behind_tags(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (header, mut rest) = EthernetHeader::view(bytes)?;
    let mut kind = header.ether_type.get();
    while ether_type::is_tag(kind) || kind == OLD_SERVICE_VLAN {
        let Some((tag, after)) = VlanHeader::view(rest) else { break };
        (kind, rest) = (tag.ether_type.get(), after);
    }
    Some((kind, rest))
}

/// The flow of a frame that is not IP.
#[cold]
fn frame_of(bytes: &[u8]) -> Option<Flow> {
    let (protocol, _) = behind_tags(bytes)?;
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
    let (header, _) = Ipv4Header::view(bytes)?;
    let is_valid = header.header_len() >= Ipv4Header::LEN;
    let inside = bytes.get(header.header_len()..).filter(|_| is_valid).unwrap_or_default();
    flow.kind = Kind::V4;
    flow.source = header.source().to_bits().into();
    flow.destination = header.destination().to_bits().into();
    transport(flow, header.protocol, header.is_fragment(), inside)
}

fn ipv6<'a>(flow: &mut Flow, bytes: &'a [u8]) -> Inside<'a> {
    let (header, payload) = Ipv6Header::view(bytes)?;
    flow.kind = Kind::V6;
    flow.source = header.source().to_bits();
    flow.destination = header.destination().to_bits();
    let mut extensions = header.extensions(payload);
    // All fragments of a packet name the header behind the fragment header, but only one has it.
    let mut fragments = extensions.by_ref().filter_map(|extension| extension.fragment());
    if let Some((part, _)) = fragments.find(|(part, _)| part.more() || part.offset() > 0) {
        return transport(flow, part.next_header, true, &[]);
    }
    let (protocol, at) = extensions.reached();
    transport(flow, protocol, false, payload.get(at..).unwrap_or_default())
}

/// Parses what follows an IP header.
fn transport<'a>(flow: &mut Flow, protocol: u8, fragment: bool, bytes: &'a [u8]) -> Inside<'a> {
    flow.protocol = protocol.into();
    flow.ports = None;
    if fragment {
        return None;
    }
    match protocol {
        protocol::IPIP | protocol::IPV6 => Some((Start::Ip, bytes)),
        protocol::GRE => gre(bytes),
        _ if protocol::has_ports(protocol) => {
            flow.ports = ports(bytes);
            match flow.ports {
                Some((_, VXLAN_PORT)) if protocol == protocol::UDP => vxlan(bytes),
                Some((_, GTP_PORT)) if protocol == protocol::UDP => gtp(bytes),
                _ => None,
            }
        }
        _ => None,
    }
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
        ether_type::IPV4 | ether_type::IPV6 => Some((Start::Ip, rest)),
        ether_type::TRANSPARENT => Some((Start::Ether, rest)),
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
mod tests {
    use etherparse::{LaxNetSlice, LaxSlicedPacket, PacketBuilder, TransportSlice};
    use millrace_testkit::generate::tunnel::{TUNNELS, tagged, wrap};
    use proptest::prelude::*;

    use super::*;

    /// A flow to build test packets of.
    #[derive(Clone, Debug)]
    struct Wanted {
        v6: bool,
        tcp: bool,
        hosts: (u8, u8),
        ports: (u16, u16),
    }

    impl Wanted {
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
        fn packet(&self) -> Vec<u8> {
            let (from, to) = self.hosts;
            let builder = match self.v6 {
                true => PacketBuilder::ipv6(v6(from), v6(to), 64),
                false => PacketBuilder::ipv4([10, 0, 0, from], [10, 0, 0, to], 64),
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

    fn wanted() -> impl Strategy<Value = Wanted> {
        // Ports that no tunnel uses.
        (any::<bool>(), any::<bool>(), any::<(u8, u8)>(), (1u16..2000, 1u16..2000))
            .prop_map(|(v6, tcp, hosts, ports)| Wanted { v6, tcp, hosts, ports })
    }

    /// Puts extension headers or options behind the IP header, and makes a fragment of the packet.
    fn varied(mut packet: Vec<u8>, options: bool, fragment: u16) -> Vec<u8> {
        if packet[0] >> 4 == 4 {
            if options {
                packet[0] += 1;
                packet.splice(20..20, [1, 1, 1, 0]);
                packet[3] += 4;
            }
            packet[6..8].copy_from_slice(&(fragment & 0x3fff).to_be_bytes());
            return packet;
        }
        let mut next = packet[6];
        let [high, low] = (fragment << 3 | fragment >> 15).to_be_bytes();
        let mut headers = vec![next, 0, high, low, 0, 0, 0, 7];
        next = 44;
        if options {
            // Hop-by-hop, then destination options.
            headers.splice(0..0, [60, 0, 1, 4, 0, 0, 0, 0, next, 1, 1, 12]);
            headers.splice(12..12, [0; 12]);
            next = 0;
        }
        packet[5] += headers.len() as u8;
        packet[6] = next;
        packet.splice(40..40, headers);
        packet
    }

    /// What etherparse finds in a frame, and whether it found the transport header.
    fn oracle(frame: &[u8]) -> Option<(Flow, bool)> {
        let packet = LaxSlicedPacket::from_ethernet(frame).ok()?;
        let (kind, source, destination, payload) = match packet.net.as_ref()? {
            LaxNetSlice::Ipv4(ip) => {
                let (from, to) = (ip.header().source_addr(), ip.header().destination_addr());
                (Kind::V4, from.to_bits().into(), to.to_bits().into(), ip.payload())
            }
            LaxNetSlice::Ipv6(ip) => {
                let (from, to) = (ip.header().source_addr(), ip.header().destination_addr());
                (Kind::V6, from.to_bits(), to.to_bits(), ip.payload())
            }
            LaxNetSlice::Arp(_) => return None,
        };
        let ports = match &packet.transport {
            Some(TransportSlice::Tcp(tcp)) => Some((tcp.source_port(), tcp.destination_port())),
            Some(TransportSlice::Udp(udp)) => Some((udp.source_port(), udp.destination_port())),
            _ => None,
        };
        let protocol = payload.ip_number.0.into();
        Some((Flow { kind, source, destination, ports, protocol }, ports.is_some()))
    }

    proptest! {
        #[test]
        fn an_independent_library_finds_the_same_flow(
            wanted in wanted(),
            tags in 0usize..3,
            options in any::<bool>(),
            fragment in prop_oneof![2 => Just(0u16), 1 => any::<u16>()],
            cut in prop_oneof![1 => Just(usize::MAX), 1 => 0usize..140],
        ) {
            let mut frame = tagged(&varied(wanted.packet(), options, fragment), tags);
            frame.truncate(cut);
            let found = flow_of(&frame, Start::Ether, true);
            match oracle(&frame) {
                Some((expected, true)) => prop_assert_eq!(found, Some(expected)),
                // Ports are also found where the rest of the transport header is cut off.
                Some((expected, false)) => {
                    let found = found.map(|flow| Flow { ports: None, ..flow });
                    prop_assert_eq!(found, Some(expected));
                }
                // Addresses are also found where the options behind them are cut off.
                None => prop_assert!(found.is_none_or(|flow| flow.ports.is_none())),
            }
        }

        #[test]
        fn the_innermost_flow_is_found(
            wanted in wanted(),
            inner in 0..TUNNELS.len(),
            outer in 0..TUNNELS.len(),
            tags in 0usize..3,
        ) {
            let packet = wrap(&wrap(&wanted.packet(), TUNNELS[inner]), TUNNELS[outer]);
            let found = flow_of(&tagged(&packet, tags), Start::Ether, false);
            prop_assert_eq!(found, Some(wanted.flow()), "{} in {}", TUNNELS[inner], TUNNELS[outer]);
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
            how in 0..TUNNELS.len(),
            cut in any::<usize>(),
            outer in any::<bool>(),
        ) {
            flow_of(&bytes, Start::Ether, outer);
            flow_of(&bytes, Start::Ip, outer);
            let packet = tagged(&wrap(&wanted.packet(), TUNNELS[how]), 1);
            let cut = cut % (packet.len() + 1);
            flow_of(&packet[..cut], Start::Ether, outer);
            bytes.splice(0..0, packet[..cut].iter().copied());
            flow_of(&bytes, Start::Ether, outer);
        }
    }

    #[test]
    fn a_truncated_packet_has_the_last_complete_flow() {
        let inner = Wanted { v6: false, tcp: false, hosts: (1, 2), ports: (7, 8) };
        let packet = tagged(&wrap(&inner.packet(), "gre"), 0);
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
    fn fragments_of_a_packet_have_one_flow_without_ports() {
        for v6 in [false, true] {
            let packet = Wanted { v6, tcp: false, hosts: (1, 2), ports: (7, 8) }.packet();
            // More fragments, then an offset; in IPv6 the flag comes from the top.
            let flows = [0x2000 | u16::from(v6) << 15, 185].map(|fragment| {
                flow_of(&varied(packet.clone(), true, fragment), Start::Ip, false).unwrap()
            });
            assert_eq!(flows[0], flows[1]);
            assert_eq!((flows[0].ports, flows[0].protocol), (None, 17));
        }
        // Behind the fragment header stand options, of which only the first fragment has the header.
        let mut packet = vec![0x60, 0, 0, 0, 0, 16, 44, 64];
        packet.extend([v6(1), v6(2)].concat());
        packet.extend([60, 0, 0, 1, 0, 0, 0, 5, 17, 0, 1, 4, 0, 0, 0, 0]);
        let first = flow_of(&packet, Start::Ip, false);
        packet[42] = 1;
        assert_eq!(flow_of(&packet, Start::Ip, false), first);
    }
}

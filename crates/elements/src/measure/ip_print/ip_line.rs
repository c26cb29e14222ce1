//! An IP packet as a line of text, in the words of Click's IPPrint, which follows tcpdump.

use std::fmt::Write;
use std::net::Ipv4Addr;

use millrace_core::Packet;
use millrace_core::headers::{
    EthernetHeader, Header, IcmpHeader, Ipv4Header, TcpHeader, UdpHeader, icmp_type, ports,
    protocol, tcp_flags,
};
use millrace_core::names::{NumberKind, name_of};

/// What a line shows in addition to the addresses and the transport header.
pub(super) struct IpLine {
    pub(super) ether: bool,
    pub(super) id: bool,
    pub(super) paint: bool,
    pub(super) tos: bool,
    pub(super) ttl: bool,
    pub(super) swap: bool,
    pub(super) length: bool,
    pub(super) aggregate: bool,
}

// Writing to a string cannot fail, so the results of `write!` are ignored throughout.
impl IpLine {
    /// Appends the packet's line. Returns false if the IP header is truncated.
    pub(super) fn write(&self, line: &mut String, packet: &Packet) -> bool {
        self.write_annotations(line, packet);
        let network = packet.network_data().unwrap_or_default();
        let Some((ip, _)) = Ipv4Header::view(network) else {
            line.push_str("truncated-ip");
            return false;
        };
        let total = usize::from(ip.total_len.get());
        if self.id {
            let _ = write!(line, "id {} ", ip.id);
        }
        if self.ttl {
            let _ = write!(line, "ttl {} ", ip.ttl);
        }
        if self.tos {
            let _ = write!(line, "tos {} ", ip.tos);
        }
        if self.length {
            let _ = write!(line, "length {total} ");
        }
        // A total length that is too small for the header is printed unchanged.
        let payload_len = i32::from(ip.total_len.get()) - ip.header_len() as i32;
        let transport = network.get(ip.header_len()..).unwrap_or_default();
        let transport_len = usize::try_from(payload_len).unwrap_or(0);
        let transport = transport.get(..transport_len).unwrap_or(transport);
        match ip.protocol {
            protocol::TCP => write_tcp(line, packet, ip, transport),
            protocol::UDP => write_udp(line, ip, transport),
            protocol::ICMP => self.write_icmp(line, ip, transport),
            other => {
                let _ = write!(line, "{}: ip-proto-{other}", Pair(ip));
            }
        }
        if ip.is_fragment() {
            let more = if ip.more_fragments() { "+" } else { "" };
            let offset = ip.fragment_offset();
            let _ = write!(line, " (frag {}:{payload_len}@{offset}{more})", ip.id);
        }
        true
    }

    fn write_annotations(&self, line: &mut String, packet: &Packet) {
        if self.aggregate {
            let _ = write!(line, "#{}", packet.aggregate());
        }
        if self.paint {
            let word = if self.aggregate { "." } else { "paint " };
            let _ = write!(line, "{word}{}", packet.paint());
        }
        if self.aggregate || self.paint {
            line.push_str(": ");
        }
        let whole = packet.mac_header_len().is_some_and(|len| len >= EthernetHeader::LEN);
        let frame = packet.mac_data().and_then(EthernetHeader::view);
        if let Some((ether, _)) = frame.filter(|_| self.ether && whole) {
            let _ = write!(line, "{} > {}: ", ether.src, ether.dst);
        }
    }

    fn write_icmp(&self, line: &mut String, ip: &Ipv4Header, transport: &[u8]) {
        let _ = write!(line, "{}: ", Pair(ip));
        if !ip.is_first_fragment() {
            line.push_str("icmp");
            return;
        }
        let (Some(&kind), Some(&code)) = (transport.first(), transport.get(1)) else {
            line.push_str("truncated-icmp");
            return;
        };
        let icmp = IcmpHeader::view(transport);
        match kind {
            icmp_type::ECHO_REPLY | icmp_type::ECHO_REQUEST => {
                let reply = if kind == icmp_type::ECHO_REPLY { "-reply" } else { "" };
                let _ = write!(line, "icmp echo{reply} ");
                match icmp {
                    Some((echo, _)) => {
                        let (id, sequence) = (self.order(echo.id()), self.order(echo.sequence()));
                        let _ = write!(line, "({id}, {sequence})");
                    }
                    None => line.push_str("truncated-icmp"),
                }
            }
            icmp_type::UNREACHABLE => write_unreachable(line, code, icmp),
            _ => write_other_icmp(line, kind, code),
        }
    }

    /// The fields of echo messages are printed as a little-endian host reads them, unless SWAP corrects them.
    fn order(&self, field: u16) -> u16 {
        if self.swap { field } else { field.swap_bytes() }
    }
}

/// The bytes after the transport header of a packet with a network header.
pub(super) fn payload(packet: &Packet) -> &[u8] {
    let network = packet.network_data().unwrap_or_default();
    let Some((ip, _)) = Ipv4Header::view(network) else { return &[] };
    network.get(ip.headers_len(network)..).unwrap_or_default()
}

/// `1.0.0.1 > 2.0.0.2`.
struct Pair<'a>(&'a Ipv4Header);

impl std::fmt::Display for Pair<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} > {}", self.0.source(), self.0.destination())
    }
}

/// Appends addresses and ports, or a replacement text if there are no ports. Returns whether there are ports.
fn write_ports(line: &mut String, ip: &Ipv4Header, transport: &[u8], name: &str) -> bool {
    let first = ip.is_first_fragment();
    let Some((from, to)) = ports(transport).filter(|_| first) else {
        let truncated = if first { "truncated-" } else { "" };
        let _ = write!(line, "{}: {truncated}{name}", Pair(ip));
        return false;
    };
    let _ = write!(line, "{}.{from} > {}.{to}: ", ip.source(), ip.destination());
    true
}

fn write_udp(line: &mut String, ip: &Ipv4Header, transport: &[u8]) {
    if !write_ports(line, ip, transport, "udp") {
        return;
    }
    match UdpHeader::view(transport) {
        Some((udp, _)) => {
            let _ = write!(line, "udp {}", udp.len);
        }
        None => line.push_str("truncated-udp"),
    }
}

fn write_tcp(line: &mut String, packet: &Packet, ip: &Ipv4Header, transport: &[u8]) {
    /// Bytes up to and including the flags, and up to and including the window.
    const TO_FLAGS: usize = 14;
    const TO_WINDOW: usize = 16;
    if !write_ports(line, ip, transport, "tcp") {
        return;
    }
    // A truncated header is read as far as it goes.
    let mut whole = [0; TcpHeader::LEN];
    let known = transport.len().min(whole.len());
    whole[..known].copy_from_slice(&transport[..known]);
    let Some((tcp, _)) = TcpHeader::view(&whole).filter(|_| transport.len() >= TO_FLAGS) else {
        line.push_str("truncated-tcp");
        return;
    };
    let total = i64::from(ip.total_len.get());
    let headers = ip.header_len() + tcp.header_len();
    let mut length = total - i64::try_from(headers).unwrap_or(0);
    let flagged = |flag| tcp.flags & flag != 0;
    let mut any = false;
    for (flag, letter, counts) in [
        (tcp_flags::SYN, 'S', true),
        (tcp_flags::FIN, 'F', true),
        (tcp_flags::RST, 'R', false),
        (tcp_flags::PSH, 'P', false),
    ] {
        if flagged(flag) {
            line.push(letter);
            length += i64::from(counts);
            any = true;
        }
    }
    if !any {
        line.push('.');
    }
    let first = tcp.sequence.get();
    // Sequence numbers wrap around.
    let last = first.wrapping_add(length as u32);
    let _ = write!(line, " {first}:{last}({length},{},{total})", packet.len());
    if flagged(tcp_flags::ACK) {
        let _ = write!(line, " ack {}", tcp.acknowledgment);
    }
    if transport.len() >= TO_WINDOW {
        let _ = write!(line, " win {}", tcp.window);
    } else {
        line.push_str("truncated-tcp");
    }
}

fn write_unreachable(line: &mut String, code: u8, icmp: Option<(&IcmpHeader, &[u8])>) {
    const PROTOCOL: u8 = 2;
    const PORT: u8 = 3;
    const NEED_FRAGMENTATION: u8 = 4;
    let word = name_of(NumberKind::IcmpCode(icmp_type::UNREACHABLE), code.into())
        .map_or_else(|| format!("code {code}"), str::to_owned);
    let quoted = icmp.and_then(|(icmp, quote)| Some((icmp, Ipv4Header::view(quote)?, quote)));
    let Some((icmp, (inner, _), quote)) = quoted else {
        let _ = write!(line, "icmp unreachable {word} truncated-icmp");
        return;
    };
    let to: Ipv4Addr = inner.destination();
    let _ = write!(line, "icmp {to} unreachable {word}");
    let protocol = name_of(NumberKind::IpProtocol, inner.protocol.into());
    match code {
        PROTOCOL => {
            let number = inner.protocol.to_string();
            let _ = write!(line, " {}", protocol.unwrap_or(&number));
        }
        PORT => {
            let number = format!("protocol {}", inner.protocol);
            let _ = write!(line, " {}", protocol.unwrap_or(&number));
            match quote.get(inner.header_len()..).and_then(ports) {
                Some((_, to)) => {
                    let _ = write!(line, "/{to}");
                }
                None => line.push_str("truncated-icmp"),
            }
        }
        NEED_FRAGMENTATION => {
            let [_, _, high, low] = icmp.rest;
            match u16::from_be_bytes([high, low]) {
                0 => {}
                mtu => {
                    let _ = write!(line, " (mtu {mtu})");
                }
            }
        }
        _ => {}
    }
}

fn write_other_icmp(line: &mut String, kind: u8, code: u8) {
    match name_of(NumberKind::IcmpType, kind.into()) {
        Some(name) => {
            let _ = write!(line, "icmp {name}");
        }
        None => {
            let _ = write!(line, "icmp type {kind}");
        }
    }
    match name_of(NumberKind::IcmpCode(kind), code.into()) {
        Some(name) => {
            let _ = write!(line, " {name}");
        }
        None if code != 0 => {
            let _ = write!(line, " code {code}");
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(protocol: u8, flags: u16, transport: &[u8]) -> String {
        let total = 20 + u16::try_from(transport.len()).unwrap();
        let mut bytes = vec![0x45, 0];
        bytes.extend(total.to_be_bytes());
        bytes.extend([0, 7]);
        bytes.extend(flags.to_be_bytes());
        bytes.extend([64, protocol, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2]);
        bytes.extend(transport);
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        packet.set_network_header(0, 20);
        let shown = IpLine {
            ether: false,
            id: false,
            paint: false,
            tos: false,
            ttl: true,
            swap: true,
            length: false,
            aggregate: false,
        };
        let mut line = String::new();
        shown.write(&mut line, &packet);
        line
    }

    #[test]
    fn lines_describe_the_transport_header() {
        let tcp =
            b"\x00\x50\x10\x00\x00\x00\x00\x09\x00\x00\x00\x05\x50\x12\x02\x00\x00\x00\x00\x00";
        let cases: [(u8, u16, &[u8], &str); 10] = [
            (17, 0, b"\x00\x0a\x00\x14\x00\x08\x00\x00", "1.0.0.1.10 > 2.0.0.2.20: udp 8"),
            (17, 0, b"\x00\x0a\x00\x14\x00", "1.0.0.1.10 > 2.0.0.2.20: truncated-udp"),
            (17, 0, b"\x00\x0a", "1.0.0.1 > 2.0.0.2: truncated-udp"),
            (6, 0, tcp, "1.0.0.1.80 > 2.0.0.2.4096: S 9:10(1,40,40) ack 5 win 512"),
            (1, 0, b"\x08\x00\x00\x00\x00\x01\x00\x02", "1.0.0.1 > 2.0.0.2: icmp echo (1, 2)"),
            (
                1,
                0,
                b"\x0b\x00\x00\x00\x00\x00\x00\x00",
                "1.0.0.1 > 2.0.0.2: icmp timeexceeded transit",
            ),
            (1, 0, b"\x08", "1.0.0.1 > 2.0.0.2: truncated-icmp"),
            (50, 0, b"", "1.0.0.1 > 2.0.0.2: ip-proto-50"),
            (
                17,
                0x2000,
                b"\x00\x0a\x00\x14\x00\x08\x00\x00",
                "1.0.0.1.10 > 2.0.0.2.20: udp 8 (frag 7:8@0+)",
            ),
            (17, 0x0002, b"\x00\x0a\x00\x14", "1.0.0.1 > 2.0.0.2: udp (frag 7:4@16)"),
        ];
        for (protocol, flags, transport, expected) in cases {
            assert_eq!(line(protocol, flags, transport), format!("ttl 64 {expected}"));
        }
    }

    #[test]
    fn unreachable_lines_name_the_destination() {
        let mut icmp = vec![3, 3, 0, 0, 0, 0, 0, 0];
        icmp.extend([0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 9, 0, 0, 9, 8, 0, 0, 8]);
        icmp.extend([0, 10, 0, 53, 0, 8, 0, 0]);
        let text = line(1, 0, &icmp);
        assert_eq!(text, "ttl 64 1.0.0.1 > 2.0.0.2: icmp 8.0.0.8 unreachable port udp/53");
        assert!(line(1, 0, &icmp[..20]).ends_with("icmp unreachable port truncated-icmp"));
    }
}

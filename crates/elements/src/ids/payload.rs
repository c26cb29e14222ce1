//! The text of a packet: the bytes that are searched.
//!
//! Nothing that a packet contains makes it go unsearched: what is cut short, or is no header, is searched as it is.

use std::fmt;
use std::net::IpAddr;

use millrace_core::Packet;
use millrace_core::args::{Arg, ArgError, ArgText, Scope};
use millrace_core::headers::{
    EthernetHeader, Header, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader, ether_type, protocol,
};
use millrace_match::patterns::{Kind, Text};

/// From where on a packet is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum From {
    /// All of it.
    Packet,
    /// The IP header.
    Network,
    /// What is behind the IP header; for IPv6 behind the fixed one.
    NetworkPayload,
    /// The transport header; for IPv6 behind the extension headers.
    Transport,
    /// What is behind the transport header.
    #[default]
    Payload,
}

impl Arg for From {
    const EXPECTS: &'static str = "PACKET, NETWORK, NETWORK_PAYLOAD, TRANSPORT or PAYLOAD";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        Ok(match text.as_str() {
            "PACKET" => Self::Packet,
            "NETWORK" => Self::Network,
            "NETWORK_PAYLOAD" => Self::NetworkPayload,
            "TRANSPORT" => Self::Transport,
            "PAYLOAD" => Self::Payload,
            _ => return Err(ArgError::default()),
        })
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A packet with its headers found, as far as they are whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'a> {
    /// The text.
    pub(crate) text: Text<'a>,
    /// The addresses, if it is IP.
    pub(crate) ends: Option<(Address, Address)>,
    /// What begins with the transport header, unless it is a later fragment.
    pub(crate) transport: Option<&'a [u8]>,
}

/// An address of either version; those of IPv4 in the words of IPv6 (RFC 4291, 2.5.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address([u8; 16]);

impl Address {
    fn v4(octets: [u8; 4]) -> Self {
        Self(std::net::Ipv4Addr::from(octets).to_ipv6_mapped().octets())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(self.0).to_canonical().fmt(f)
    }
}

/// Finds a packet's text. A packet without a network header that is marked is taken for an Ethernet frame; one whose
/// network header was stripped has nothing but its data.
pub(crate) fn locate(packet: &Packet, from: From) -> Located<'_> {
    let data = packet.data();
    let network = match (packet.network_header(), packet.network_data()) {
        (Some(_), Some(network)) => Network::Maybe(network),
        (Some(_), None) => Network::Other(data),
        (None, _) => behind_ethernet(packet.mac_data().unwrap_or(data)),
    };
    let parts = match network {
        Network::Maybe(bytes) => ip(bytes).unwrap_or_else(|| Parts::unknown(bytes)),
        Network::Other(bytes) => Parts::unknown(bytes),
    };
    let bytes = match from {
        From::Packet => data,
        From::Network => parts.network,
        From::NetworkPayload => parts.network_payload,
        From::Transport => parts.transport,
        From::Payload => parts.payload(),
    };
    Located {
        text: Text { bytes, kind: parts.kind },
        ends: parts.ends,
        transport: parts.has_transport.then_some(parts.transport),
    }
}

/// What is behind the Ethernet header.
enum Network<'a> {
    /// Perhaps an IP packet.
    Maybe(&'a [u8]),
    /// Certainly none.
    Other(&'a [u8]),
}

/// Most VLAN tags that are looked through.
const TAGS: usize = 4;

fn behind_ethernet(frame: &[u8]) -> Network<'_> {
    let Some((header, mut rest)) = EthernetHeader::view(frame) else {
        return Network::Other(&[]);
    };
    let mut kind = header.ether_type.get();
    for _ in 0..TAGS {
        if !matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
            break;
        }
        let Some((tag, behind)) = rest.split_first_chunk::<4>() else { break };
        kind = u16::from_be_bytes([tag[2], tag[3]]);
        rest = behind;
    }
    match kind {
        ether_type::IPV4 | ether_type::IPV6 => Network::Maybe(rest),
        _ => Network::Other(rest),
    }
}

/// The parts of a packet, each to its end.
struct Parts<'a> {
    network: &'a [u8],
    network_payload: &'a [u8],
    transport: &'a [u8],
    has_transport: bool,
    kind: Kind,
    protocol: u8,
    ends: Option<(Address, Address)>,
}

impl<'a> Parts<'a> {
    /// Those of what is not IP.
    fn unknown(bytes: &'a [u8]) -> Self {
        Self {
            network: bytes,
            network_payload: bytes,
            transport: bytes,
            has_transport: false,
            kind: Kind::Other,
            protocol: protocol::NO_NEXT_HEADER,
            ends: None,
        }
    }

    /// What is behind the transport header, if there is one.
    fn payload(&self) -> &'a [u8] {
        let length = match self.protocol {
            _ if !self.has_transport => 0,
            protocol::TCP => TcpHeader::view(self.transport)
                .map_or(0, |(header, _)| header.header_len())
                .max(TcpHeader::LEN),
            protocol::UDP => UdpHeader::LEN,
            protocol::ICMP | protocol::ICMPV6 => 8,
            _ => 0,
        };
        self.transport.get(length..).unwrap_or(self.transport)
    }
}

/// The parts of an IP packet; none if its header is not whole.
fn ip(bytes: &[u8]) -> Option<Parts<'_>> {
    let parts = match bytes.first()? >> 4 {
        4 => ipv4(bytes),
        6 => ipv6(bytes),
        _ => None,
    }?;
    let kind = match parts.protocol {
        protocol::TCP => Kind::Tcp,
        protocol::UDP => Kind::Udp,
        protocol::ICMP | protocol::ICMPV6 => Kind::Icmp,
        _ => Kind::Other,
    };
    Some(Parts { kind, ..parts })
}

/// Cuts off what is behind an IP packet, unless its length is wrong.
fn whole(bytes: &[u8], length: usize, header: usize) -> &[u8] {
    bytes.get(..length).filter(|_| length > header).unwrap_or(bytes)
}

fn ipv4(bytes: &[u8]) -> Option<Parts<'_>> {
    let (header, _) = Ipv4Header::view(bytes)?;
    let length = header.header_len();
    let bytes = whole(bytes, header.total_len.get().into(), length);
    let payload = bytes.get(length..).filter(|_| length >= Ipv4Header::LEN)?;
    Some(Parts {
        network: bytes,
        network_payload: payload,
        transport: payload,
        has_transport: header.is_first_fragment(),
        protocol: header.protocol,
        ends: Some((Address::v4(header.src), Address::v4(header.dst))),
        ..Parts::unknown(bytes)
    })
}

fn ipv6(bytes: &[u8]) -> Option<Parts<'_>> {
    let (header, _) = Ipv6Header::view(bytes)?;
    let length = usize::from(header.payload_len.get()) + Ipv6Header::LEN;
    let bytes = whole(bytes, length, Ipv6Header::LEN);
    let payload = bytes.get(Ipv6Header::LEN..)?;
    let mut protocol = header.next_header;
    let mut at = 0;
    let mut first = true;
    for extension in header.extensions(payload) {
        at = extension.offset + extension.bytes.len();
        protocol = *extension.bytes.first()?;
        if extension.fragment().is_some_and(|(fragment, _)| fragment.offset() > 0) {
            first = false;
            break;
        }
    }
    Some(Parts {
        network: bytes,
        network_payload: payload,
        transport: payload.get(at..)?,
        has_transport: first,
        protocol,
        ends: Some((Address(header.src), Address(header.dst))),
        ..Parts::unknown(bytes)
    })
}

impl Located<'_> {
    /// The ports, if the protocol is TCP or UDP.
    pub(crate) fn ports(&self) -> Option<(u16, u16)> {
        let &[a, b, c, d] = self.transport?.first_chunk()?;
        let has_ports = matches!(self.text.kind, Kind::Tcp | Kind::Udp);
        has_ports.then_some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }
}

/// Who sends to whom, to show it.
impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((source, destination)) = self.ends else { return f.write_str("not IP") };
        let protocol = match self.text.kind {
            Kind::Tcp => " tcp",
            Kind::Udp => " udp",
            Kind::Icmp => " icmp",
            Kind::Other => "",
        };
        match self.ports() {
            Some((from, to)) => write!(f, "{source}.{from} > {destination}.{to}{protocol}"),
            None => write!(f, "{source} > {destination}{protocol}"),
        }
    }
}

//! The text of a packet: the bytes that are searched.
//!
//! [`Layers`](millrace_gpu::region::Layers) says where they are. Packets are gathered for a GPU by the same rules, so
//! both search the same bytes.

use std::fmt;
use std::net::IpAddr;

use millrace_core::Packet;
use millrace_core::args::{Arg, ArgError, ArgText, Scope};
use millrace_core::headers::{Header, Ipv4Header, Ipv6Header, ports, protocol};
use millrace_gpu::kernel::MAX_EXTENSIONS;
use millrace_gpu::region::{Base, Region, View};
use millrace_match::patterns::{Kind, Text};

/// The layer at which the search of a packet starts: the argument FROM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct From(pub(crate) Base);

impl Default for From {
    fn default() -> Self {
        Self(Base::TransportPayload)
    }
}

impl Arg for From {
    const EXPECTS: &'static str = "ETHERNET, NETWORK, NETWORK_PAYLOAD, TRANSPORT or PAYLOAD";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        Ok(Self(match text.as_str() {
            "ETHERNET" => Base::Ethernet,
            "NETWORK" => Base::Network,
            "NETWORK_PAYLOAD" => Base::NetworkPayload,
            "TRANSPORT" => Base::Transport,
            "PAYLOAD" => Base::TransportPayload,
            _ => return Err(ArgError::default()),
        }))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A packet and the location of its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'a> {
    /// The text; empty if the packet has no such layer.
    pub(crate) text: Text<'a>,
    network: &'a [u8],
    /// The bytes from the transport header on, if there is one.
    pub(crate) transport: &'a [u8],
}

/// An address of either IP version; IPv4 addresses are mapped to IPv6 (RFC 4291, 2.5.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address([u8; 16]);

impl Address {
    fn v4(octets: [u8; 4]) -> Self {
        Self(std::net::Ipv4Addr::from(octets).to_ipv6_mapped().octets())
    }

    /// The address as a number.
    pub(crate) fn bits(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(self.0).to_canonical().fmt(f)
    }
}

/// Finds a packet's text.
pub(crate) fn locate(packet: &Packet, From(base): From) -> Located<'_> {
    let view = View::of(packet, Base::TransportPayload);
    let part = |base| view.slice(&Region::to_end(base, 0));
    let network = part(Base::Network);
    Located {
        text: Text { bytes: part(base), kind: kind(network) },
        network,
        transport: part(Base::Transport),
    }
}

/// How many bytes from the network header on are read to find the protocol; IPv6 extension headers are followed this
/// far.
pub(crate) const HEADER: u16 = 128;

/// The protocol in a network header, read the same way as by the GPU kernel that searches for patterns.
fn kind(network: &[u8]) -> Kind {
    let header = network.get(..HEADER.into()).unwrap_or(network);
    let protocol = match header.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4Header::view(header).map(|(header, _)| header.protocol),
        Some(6) => Ipv6Header::view(header).and_then(|(fixed, _)| {
            let mut protocol = fixed.next_header;
            let mut at = Ipv6Header::LEN;
            for _ in 0..MAX_EXTENSIONS {
                let is_options = matches!(
                    protocol,
                    protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS
                );
                if !is_options && !matches!(protocol, protocol::FRAGMENT | protocol::AH) {
                    break;
                }
                let &[next, length, high, low, ..] = header.get(at..)?.first_chunk::<8>()?;
                let is_later =
                    protocol == protocol::FRAGMENT && u16::from_be_bytes([high, low]) >= 8;
                at += match protocol {
                    protocol::FRAGMENT => 8,
                    protocol::AH => (usize::from(length) + 2) * 4,
                    _ => (usize::from(length) + 1) * 8,
                };
                protocol = next;
                if is_later {
                    break;
                }
            }
            Some(protocol)
        }),
        _ => None,
    };
    match protocol {
        Some(protocol::TCP) => Kind::Tcp,
        Some(protocol::UDP) => Kind::Udp,
        Some(protocol::ICMP | protocol::ICMPV6) => Kind::Icmp,
        _ => Kind::Other,
    }
}

impl Located<'_> {
    /// The source and destination addresses, for an IP packet.
    pub(crate) fn ends(&self) -> Option<(Address, Address)> {
        match self.network.first()? >> 4 {
            4 => Ipv4Header::view(self.network)
                .map(|(header, _)| (Address::v4(header.src), Address::v4(header.dst))),
            6 => Ipv6Header::view(self.network)
                .map(|(header, _)| (Address(header.src), Address(header.dst))),
            _ => None,
        }
    }

    /// The source and destination ports, if the protocol is TCP or UDP.
    pub(crate) fn ports(&self) -> Option<(u16, u16)> {
        let has_ports = matches!(self.text.kind, Kind::Tcp | Kind::Udp);
        ports(self.transport).filter(|_| has_ports)
    }
}

/// Source and destination, as text for alerts.
impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((source, destination)) = self.ends() else { return f.write_str("not IP") };
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

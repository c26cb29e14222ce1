//! ProtocolTranslator64 - translates IPv6 packets to IPv4
//!
//! # Synopsis
//! `ProtocolTranslator64()`
//!
//! # Description
//! Translates packets that start with an IPv6 header to IPv4, by the rules of SIIT (RFC 2765). Both addresses must
//! embed IPv4 addresses, either IPv4-mapped (`::ffff:10.0.0.1`) or IPv4-compatible (`::10.0.0.1`). ICMPv6 becomes ICMP,
//! and checksums are recomputed. The IPv4 header has type of service 0, identification 0, the "don't fragment" flag,
//! and the hop limit as time to live. The packet quoted in an ICMPv6 error is not translated.
//!
//! The MTU in an ICMPv6 error is decreased by 20 bytes, because the IPv4 header is that much shorter.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - bad length: the IPv6 packet, or its ICMPv6 header, is incomplete.
//! - no match: an address embeds no IPv4 address, or the ICMPv6 message has no ICMP counterpart.
//! - too big: the packet is too long for IPv4.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIP6Encap(::ffff:10.0.0.1, 1234, ::ffff:10.0.0.2, 53)
//!     -> ProtocolTranslator64
//!     -> CheckIPHeader
//!     -> Discard;
//! ```
//!
//! # See also
//! ProtocolTranslator46

use std::net::{Ipv4Addr, Ipv6Addr};

use millrace_core::checksum::{Sum, checksum};
use millrace_core::headers::{
    Header, IcmpHeader, Ipv4Header, Ipv6Header, icmp_type, icmpv6_type, protocol,
};
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};
use zerocopy::IntoBytes;

use super::translation::{LONGER_BY, fill_transport_checksum, mtu_of, mtu_with, no_arguments};

/// The element; its manual is at the top of the file.
pub struct ProtocolTranslator64;

register!(ProtocolTranslator64, "protocol_translator64.rs");

impl Element for ProtocolTranslator64 {
    const CLASS: Class = Class::new("ProtocolTranslator64", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        no_arguments(setup)?;
        Ok(Self)
    }
}

impl PerPacket for ProtocolTranslator64 {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        Way::on_or_drop(translate(packet))
    }
}

fn translate(packet: &mut View) -> Result<(), Reason> {
    let (ip, payload) = Ipv6Header::split(packet.data()).ok_or(Reason::BadLength)?;
    let ip = *ip;
    let payload_len = payload.len();
    let source = embedded(ip.source()).ok_or(Reason::NoMatch)?;
    let destination = embedded(ip.destination()).ok_or(Reason::NoMatch)?;
    let total_len = u16::try_from(Ipv4Header::LEN + payload_len).map_err(|_| Reason::TooBig)?;
    let icmp = match ip.next_header {
        protocol::ICMPV6 => {
            let (icmp, _) = IcmpHeader::view(payload).ok_or(Reason::BadLength)?;
            Some(counterpart(*icmp).ok_or(Reason::NoMatch)?)
        }
        _ => None,
    };
    let protocol = if icmp.is_some() { protocol::ICMP } else { ip.next_header };
    let mut outer = Ipv4Header {
        version_ihl: 0x45,
        tos: 0,
        total_len: total_len.into(),
        id: 0.into(),
        flags_fragment: Ipv4Header::DONT_FRAGMENT.into(),
        ttl: ip.hop_limit,
        protocol,
        checksum: 0.into(),
        src: source.octets(),
        dst: destination.octets(),
    };
    outer.checksum.set(checksum(outer.as_bytes()));

    packet.clear_annotations();
    if !packet.strip(Ipv6Header::LEN) {
        return Err(Reason::BadLength);
    }
    packet.truncate(payload_len);
    match icmp {
        Some(mut icmp) => {
            let data = packet.data().get(IcmpHeader::LEN..).unwrap_or_default();
            icmp.checksum.set(Sum::of(icmp.as_bytes()).add_bytes(data).finish());
            if let Some((place, _)) = IcmpHeader::view_mut(packet.data_mut()) {
                *place = icmp;
            }
        }
        None => fill_transport_checksum(protocol, packet.data_mut(), |payload| {
            // The payload is no longer than the datagram, whose length was checked.
            let len = payload.len() as u16;
            Sum::of_pseudo_v4(source, destination, protocol, len).add_bytes(payload)
        }),
    }
    packet.push_front(outer.as_bytes());
    packet.set_network_header(0, Ipv4Header::LEN);
    Ok(())
}

/// The IPv4 address embedded in an IPv4-mapped or IPv4-compatible address.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.octets() {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
        | [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d)),
        _ => None,
    }
}

/// The header of the equivalent ICMP message; the checksum is not set yet.
fn counterpart(icmp: IcmpHeader) -> Option<IcmpHeader> {
    let pointing = |to: u8| [to, 0, 0, 0];
    let (kind, code, rest) = match (icmp.kind, icmp.code) {
        (icmpv6_type::ECHO_REQUEST, _) => (icmp_type::ECHO_REQUEST, 0, icmp.rest),
        (icmpv6_type::ECHO_REPLY, _) => (icmp_type::ECHO_REPLY, 0, icmp.rest),
        (icmpv6_type::UNREACHABLE, code) => {
            let code = match code {
                1 => 10,
                2 => 5,
                3 => 1,
                4 => 3,
                _ => 0,
            };
            (icmp_type::UNREACHABLE, code, [0; 4])
        }
        (icmpv6_type::PACKET_TOO_BIG, _) => {
            let mtu = mtu_of(icmp.rest).saturating_sub(LONGER_BY).min(u16::MAX.into());
            (icmp_type::UNREACHABLE, 4, mtu_with(mtu))
        }
        (icmpv6_type::TIME_EXCEEDED, code) => (icmp_type::TIME_EXCEEDED, code, [0; 4]),
        // An unknown next header becomes "protocol unreachable".
        (icmpv6_type::PARAMETER_PROBLEM, 1) => (icmp_type::UNREACHABLE, 2, [0; 4]),
        (icmpv6_type::PARAMETER_PROBLEM, 0) => {
            let pointer = match u32::from_be_bytes(icmp.rest) {
                4 => 2,
                7 => 8,
                6 => 9,
                8 => 12,
                24 => u8::MAX,
                _ => 0,
            };
            (icmp_type::PARAMETER_PROBLEM, 0, pointing(pointer))
        }
        (icmpv6_type::PARAMETER_PROBLEM, 2) => (icmp_type::PARAMETER_PROBLEM, 0, pointing(u8::MAX)),
        _ => return None,
    };
    Some(IcmpHeader { kind, code, checksum: 0.into(), rest })
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip6::{Datagram, withstands};

    fn mapped(next_header: u8, payload: Vec<u8>) -> Datagram {
        let (source, destination) = ("::ffff:10.0.0.1".parse(), "::10.0.0.2".parse());
        let (source, destination) = (source.unwrap(), destination.unwrap());
        Datagram { source, destination, next_header, payload, ..Datagram::default() }
    }

    #[test]
    fn icmpv6_messages_become_their_icmp_counterparts() {
        let mut rig = Rig::new("ProtocolTranslator64", 1, 1).unwrap();
        for ((kind, code, rest), (four_kind, four_code, four_rest)) in [
            ((128, 0, [1, 2, 3, 4]), (8, 0, [1, 2, 3, 4])),
            ((129, 0, [1, 2, 3, 4]), (0, 0, [1, 2, 3, 4])),
            ((1, 4, [0; 4]), (3, 3, [0; 4])),
            ((2, 0, [0, 0, 5, 0xdc]), (3, 4, [0, 0, 5, 0xc8])),
            ((3, 1, [0; 4]), (11, 1, [0; 4])),
            ((4, 1, [0, 0, 0, 6]), (3, 2, [0; 4])),
            ((4, 0, [0, 0, 0, 7]), (12, 0, [8, 0, 0, 0])),
        ] {
            let message = [&[kind, code, 9, 9][..], &rest, b"quoted!"].concat();
            let out = rig.push(0, &[mapped(58, message).bytes()]).remove(0);
            let (ip, payload) = crate::test_packets::ip::read(&out[0]);
            assert_eq!((ip.source, ip.destination), ([10, 0, 0, 1], [10, 0, 0, 2]));
            assert_eq!((ip.protocol.0, ip.time_to_live, ip.dont_fragment), (1, 64, true));
            assert!(millrace_core::checksum::verify(&payload));
            assert_eq!((payload[0], payload[1]), (four_kind, four_code));
            assert_eq!((&payload[4..8], &payload[8..]), (&four_rest[..], &b"quoted!"[..]));
        }
    }

    #[test]
    fn packets_without_an_ipv4_counterpart_are_dropped() {
        let mut rig = Rig::new("ProtocolTranslator64", 1, 1).unwrap();
        let redirect = mapped(58, vec![137, 0, 0, 0, 0, 0, 0, 0]);
        let cut = mapped(17, vec![0; 8]).bytes()[..47].to_vec();
        rig.push(0, &[Datagram::default().bytes(), redirect.bytes(), cut]);
        assert_eq!(rig.stats().drops, [(Reason::NoMatch, 2), (Reason::BadLength, 1)]);
        assert!(Rig::new("ProtocolTranslator64(1)", 1, 1).is_err());
    }

    #[test]
    fn withstands_anything() {
        withstands("ProtocolTranslator64", 1);
    }
}

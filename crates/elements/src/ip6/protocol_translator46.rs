//! ProtocolTranslator46 - translates IPv4 packets to IPv6
//!
//! # Synopsis
//! `ProtocolTranslator46()`
//!
//! # Description
//! Translates packets that start with an IPv4 header to IPv6, by the rules of SIIT (RFC 2765). Addresses become
//! IPv4-mapped addresses (`::ffff:10.0.0.1`), ICMP becomes ICMPv6, and checksums are recomputed. The hop limit is the
//! time to live plus 65, modulo 256, as in Click. IPv4 options are removed. The packet quoted in an ICMP error is not
//! translated.
//!
//! A nonzero MTU in an ICMP error is increased by 20 bytes, because the IPv6 header is that much longer.
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
//! - bad length: the IPv4 packet, or its ICMP header, is incomplete.
//! - fragment: the packet is a fragment.
//! - no match: the ICMP message has no ICMPv6 counterpart.
//! - too big: the packet is too long for IPv6.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53)
//!     -> ProtocolTranslator46
//!     -> CheckIP6Header
//!     -> Discard;
//! ```
//!
//! # See also
//! ProtocolTranslator64

use millrace_core::headers::{
    Header, IcmpHeader, Ipv4Header, Ipv6Header, icmp_type, icmpv6_type, protocol,
};
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};
use zerocopy::IntoBytes;

use super::header::outer::{fill_icmp6_checksum, header, transport_sum};
use super::translation::{LONGER_BY, fill_transport_checksum, mtu_of, mtu_with, no_arguments};

/// The element; its manual is at the top of the file.
pub struct ProtocolTranslator46;

register!(ProtocolTranslator46, "protocol_translator46.rs");

impl Element for ProtocolTranslator46 {
    const CLASS: Class = Class::new("ProtocolTranslator46", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        no_arguments(setup)?;
        Ok(Self)
    }
}

impl PerPacket for ProtocolTranslator46 {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        Way::on_or_drop(translate(packet))
    }
}

fn translate(packet: &mut View) -> Result<(), Reason> {
    let (ip, _, payload) = Ipv4Header::split(packet.data()).ok_or(Reason::BadLength)?;
    let ip = *ip;
    if ip.is_fragment() {
        return Err(Reason::Fragment);
    }
    let payload_len = u16::try_from(payload.len()).map_err(|_| Reason::TooBig)?;
    let next_header = match ip.protocol {
        protocol::ICMP => protocol::ICMPV6,
        other => other,
    };
    let (source, destination) = (ip.source().to_ipv6_mapped(), ip.destination().to_ipv6_mapped());
    let mut outer = header(source, destination, next_header, payload_len);
    outer.hop_limit = ip.ttl.wrapping_add(HOPS_MORE);
    let icmp = match ip.protocol {
        protocol::ICMP => {
            let (icmp, _) = IcmpHeader::view(payload).ok_or(Reason::BadLength)?;
            Some(counterpart(*icmp).ok_or(Reason::NoMatch)?)
        }
        _ => None,
    };

    packet.clear_annotations();
    if !packet.strip(ip.header_len()) {
        return Err(Reason::BadLength);
    }
    packet.truncate(usize::from(payload_len));
    match icmp {
        Some(icmp) => {
            if let Some((place, _)) = IcmpHeader::view_mut(packet.data_mut()) {
                *place = icmp;
            }
            fill_icmp6_checksum(&outer, packet.data_mut());
        }
        None => fill_transport_checksum(ip.protocol, packet.data_mut(), |payload| {
            transport_sum(&outer, ip.protocol, payload)
        }),
    }
    packet.push_front(outer.as_bytes());
    packet.set_network_header(0, Ipv6Header::LEN);
    Ok(())
}

/// Added to the time to live, modulo 256, as Click does: a time to live of 255 becomes 64.
const HOPS_MORE: u8 = 65;

/// The header of the equivalent ICMPv6 message; the checksum is not set yet.
fn counterpart(icmp: IcmpHeader) -> Option<IcmpHeader> {
    let pointing = |to: u8| u32::from(to).to_be_bytes();
    let (kind, code, rest) = match (icmp.kind, icmp.code) {
        (icmp_type::ECHO_REQUEST, _) => (icmpv6_type::ECHO_REQUEST, 0, icmp.rest),
        (icmp_type::ECHO_REPLY, _) => (icmpv6_type::ECHO_REPLY, 0, icmp.rest),
        // Protocol unreachable: the pointer refers to the next header field.
        (icmp_type::UNREACHABLE, 2) => (icmpv6_type::PARAMETER_PROBLEM, 1, pointing(6)),
        (icmp_type::UNREACHABLE, 4) => {
            let mtu = mtu_of(icmp.rest);
            let mtu = if mtu == 0 { 0 } else { mtu.saturating_add(LONGER_BY) };
            (icmpv6_type::PACKET_TOO_BIG, 0, mtu_with(mtu))
        }
        (icmp_type::UNREACHABLE, code) => {
            let code = match code {
                3 => 4,
                5 => 2,
                9 | 10 => 1,
                _ => 0,
            };
            (icmpv6_type::UNREACHABLE, code, [0; 4])
        }
        (icmp_type::TIME_EXCEEDED, code) => (icmpv6_type::TIME_EXCEEDED, code, [0; 4]),
        (icmp_type::PARAMETER_PROBLEM, _) => {
            let [pointer, ..] = icmp.rest;
            let rest = match pointer {
                0 => pointing(0),
                2 => pointing(4),
                8 => pointing(7),
                9 => pointing(6),
                12 => pointing(8),
                16 => pointing(24),
                _ => [u8::MAX; 4],
            };
            (icmpv6_type::PARAMETER_PROBLEM, 0, rest)
        }
        _ => return None,
    };
    Some(IcmpHeader { kind, code, checksum: 0.into(), rest })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use millrace_core::Reason;
    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, withstands};

    proptest! {
        /// A UDP datagram survives both translations, except for the fields that they do not keep.
        #[test]
        fn round_trips(payload in prop::collection::vec(any::<u8>(), 0..600), ttl: u8) {
            let there = RefCell::new(Rig::new("ProtocolTranslator46", 1, 1).unwrap());
            let back = RefCell::new(Rig::new("ProtocolTranslator64", 1, 1).unwrap());
            let datagram = Datagram { ttl, id: 0, dont_fragment: true, ..Datagram::udp(&payload) };
            let six = there.borrow_mut().push(0, &[datagram.bytes()]).remove(0);
            let (ip, udp) = etherparse::Ipv6Header::from_slice(&six[0]).unwrap();
            prop_assert_eq!(ip.hop_limit, ttl.wrapping_add(65));
            let (header, data) = etherparse::UdpHeader::from_slice(udp).unwrap();
            prop_assert_eq!(header.calc_checksum_ipv6(&ip, data).unwrap(), header.checksum);
            let four = back.borrow_mut().push(0, &six).remove(0);
            let oracle = Datagram { ttl: ttl.wrapping_add(65), ..datagram };
            prop_assert_eq!(&four[0], &oracle.bytes());
        }
    }

    #[test]
    fn icmp_messages_become_their_icmpv6_counterparts() {
        let mut rig = Rig::new("ProtocolTranslator46", 1, 1).unwrap();
        for ((kind, code, rest), (six_kind, six_code, six_rest)) in [
            ((8, 0, [1, 2, 3, 4]), (128, 0, [1, 2, 3, 4])),
            ((0, 0, [1, 2, 3, 4]), (129, 0, [1, 2, 3, 4])),
            ((3, 1, [0; 4]), (1, 0, [0; 4])),
            ((3, 2, [0; 4]), (4, 1, [0, 0, 0, 6])),
            ((3, 3, [0; 4]), (1, 4, [0; 4])),
            ((3, 4, [0, 0, 5, 0xc8]), (2, 0, [0, 0, 5, 0xdc])),
            ((11, 1, [0; 4]), (3, 1, [0; 4])),
            ((12, 0, [8, 0, 0, 0]), (4, 0, [0, 0, 0, 7])),
        ] {
            let datagram = Datagram::icmp(kind, code, rest, b"quoted");
            let out = rig.push(0, &[datagram.bytes()]).remove(0);
            let (ip, message) = etherparse::Ipv6Header::from_slice(&out[0]).unwrap();
            let icmp = etherparse::Icmpv6Slice::from_slice(message).unwrap();
            assert!(icmp.is_checksum_valid(ip.source, ip.destination));
            assert_eq!((message[0], message[1]), (six_kind, six_code));
            assert_eq!((&message[4..8], &message[8..]), (&six_rest[..], &b"quoted"[..]));
        }
        rig.push(0, &[Datagram::icmp(13, 0, [0; 4], b"").bytes()]);
        let fragment = Datagram { more_fragments: true, ..Datagram::udp(&[0; 8]) };
        rig.push(0, &[fragment.bytes(), vec![0x45; 10]]);
        let drops = [(Reason::NoMatch, 1), (Reason::BadLength, 1), (Reason::Fragment, 1)];
        assert_eq!(rig.stats().drops, drops);
    }

    #[test]
    fn withstands_anything() {
        withstands("ProtocolTranslator46", 1);
    }
}

//! ICMP6Error - generates ICMPv6 error messages in reply to packets
//!
//! # Synopsis
//! `ICMP6Error(SRC, TYPE, CODE)`
//!
//! # Description
//! Replaces each IPv6 packet with an ICMPv6 message to its sender. The message has source address SRC, hop limit 255,
//! the given type and code, and up to 568 bytes of the packet. Its IPv6 destination annotation is its destination.
//! Connect this element to the error outputs of elements such as DecIP6HLIM, before the route lookup.
//!
//! As RFC 4443, 2.4 requires, no message is sent in reply to an ICMPv6 error or redirect, to a packet sent to a
//! multicast address or by link-level broadcast or multicast, or to a packet whose source address is multicast,
//! unspecified or loopback.
//!
//! - Type 2, packet too big: with code 0, the MTU is 1500.
//! - Type 4, parameter problem: with code 0, the pointer is the packet's ICMP parameter problem annotation.
//! - Type 137, redirect: the better next hop is the packet's IPv6 destination annotation. The quoted packet follows
//!   without an option header.
//!
//! # Arguments
//! - SRC: source address of the messages, not `::`. Positional, mandatory.
//! - TYPE: ICMPv6 type: 1 (unreachable), 2 (packet too big), 3 (time exceeded), 4 (parameter problem) or 137
//!   (redirect). Positional, mandatory.
//! - CODE: ICMPv6 code. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no reply due: the packet must not be answered.
//! - header not set: the network header position is not set, or the packet ends before the IPv6 header does.
//! - no buffer: there was no memory for a message.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> IP6Encap(59, 2001:db8::1, 2001:db8::2, HLIM 1)
//!     -> hop :: DecIP6HLIM
//!     -> Discard;
//! hop[1] -> ICMP6Error(2001:db8::ff, 3, 0) -> Discard;
//! ```
//!
//! # See also
//! DecIP6HLIM, CheckIP6Header, ICMPError

use std::net::Ipv6Addr;

use millrace_core::headers::{Header, IcmpHeader, Ipv6Header, icmpv6_type, protocol};
use millrace_core::memory::DEFAULT_HEADROOM;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Packet, PacketType, Reason, Setup, register,
};
use zerocopy::IntoBytes;

use super::header::outer::{fill_icmp6_checksum, header};

/// The element; its manual is at the top of the file.
pub struct Icmp6Error {
    source: Ipv6Addr,
    icmp_type: u8,
    code: u8,
}

register!(Icmp6Error, "icmp6_error.rs");

/// Maximum number of bytes of a packet that an answer quotes.
const MOST_QUOTED: usize = 568;
/// The MTU in answers of type 2.
const MTU: u32 = 1500;

/// The types that TYPE accepts.
const TYPES: [u8; 5] = [
    icmpv6_type::UNREACHABLE,
    icmpv6_type::PACKET_TOO_BIG,
    icmpv6_type::TIME_EXCEEDED,
    icmpv6_type::PARAMETER_PROBLEM,
    icmpv6_type::REDIRECT,
];

impl Element for Icmp6Error {
    const CLASS: Class = Class::new("ICMP6Error", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let source: Ipv6Addr = args.mandatory("SRC");
        let icmp_type: i32 = args.mandatory("TYPE");
        let code: i32 = args.mandatory("CODE");
        if args.has_errors() {
            args.complete()?;
        }
        let known = u8::try_from(icmp_type).ok().filter(|kind| TYPES.contains(kind));
        if source.is_unspecified() || icmp_type < 0 || code < 0 {
            args.error((), "not configured -a");
        } else if known.is_none() {
            args.error((), format!("ICMP6 type {icmp_type} is not an error or redirect type"));
        }
        args.complete()?;
        // A code is one byte, as in Click.
        Ok(Self { source, icmp_type: known.unwrap_or_default(), code: code as u8 })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|packet| match self.answer(&packet) {
            Ok(mut answer) => {
                answer.set_timestamp(cx.now());
                Some(answer)
            }
            Err(reason) => cx.drop(packet, reason),
        });
    }
}

impl Icmp6Error {
    fn answer(&self, packet: &Packet) -> Result<Packet, Reason> {
        let bytes = packet.network_data().ok_or(Reason::NoHeader)?;
        let (ip, payload) = Ipv6Header::view(bytes).ok_or(Reason::NoHeader)?;
        if !deserves_answer(packet, ip, payload) {
            return Err(Reason::NoReply);
        }
        let icmp = IcmpHeader {
            kind: self.icmp_type,
            code: self.code,
            checksum: 0.into(),
            rest: self.particulars(packet),
        };
        let mut message = icmp.as_bytes().to_vec();
        if self.icmp_type == icmpv6_type::REDIRECT {
            message.extend(packet.dst_ip6().octets());
            message.extend(ip.dst);
        }
        message.extend_from_slice(bytes.get(..MOST_QUOTED).unwrap_or(bytes));
        let outer = header(self.source, ip.source(), protocol::ICMPV6, message.len() as u16);
        fill_icmp6_checksum(&outer, &mut message);
        let mut answer = Packet::with_room(DEFAULT_HEADROOM, 0, Ipv6Header::LEN + message.len())
            .ok_or(Reason::NoBuffer)?;
        answer.push_back(outer.as_bytes());
        answer.push_back(&message);
        answer.set_network_header(0, Ipv6Header::LEN);
        answer.set_dst_ip6(ip.source());
        answer.set_fix_ip_src(true);
        Ok(answer)
    }

    /// The four bytes after the ICMPv6 checksum.
    fn particulars(&self, packet: &Packet) -> [u8; 4] {
        match (self.icmp_type, self.code) {
            (icmpv6_type::PACKET_TOO_BIG, 0) => MTU.to_be_bytes(),
            (icmpv6_type::PARAMETER_PROBLEM, 0) => [0, 0, 0, packet.icmp_param_prob()],
            _ => [0; 4],
        }
    }
}

/// Whether a packet may be answered (RFC 4443, 2.4 (e)).
fn deserves_answer(packet: &Packet, ip: &Ipv6Header, payload: &[u8]) -> bool {
    let answers_error = match ip.extensions(payload).upper() {
        Some((protocol::ICMPV6, at)) => payload.get(at).is_none_or(|&kind| is_error(kind)),
        _ => false,
    };
    let by_broadcast =
        matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast);
    let source = ip.source();
    let is_host = !source.is_multicast() && !source.is_unspecified() && !source.is_loopback();
    !answers_error && !by_broadcast && !ip.destination().is_multicast() && is_host
}

/// Whether messages of this type are errors or redirects.
fn is_error(kind: u8) -> bool {
    kind < icmpv6_type::ECHO_REQUEST || kind == icmpv6_type::REDIRECT
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use millrace_core::testing::Rig;
    use millrace_core::{PacketType, Reason};
    use proptest::prelude::*;

    use crate::test_packets::ip6::{Datagram, withstands};

    fn answer(config: &str, datagram: &Datagram) -> Vec<u8> {
        let mut rig = Rig::new(config, 1, 1).unwrap();
        rig.push_packets(0, vec![datagram.packet()])[0][0].data().to_vec()
    }

    proptest! {
        /// Etherparse accepts the answer, whatever it quotes.
        #[test]
        fn agrees_with_etherparse(payload in prop::collection::vec(any::<u8>(), 0..1000)) {
            let rig = RefCell::new(Rig::new("ICMP6Error(2001:db8::ff, 3, 1)", 1, 1).unwrap());
            let asked = Datagram::udp(1, 2, &payload);
            let out = rig.borrow_mut().push_packets(0, vec![asked.packet()]);
            let (ip, message) = etherparse::Ipv6Header::from_slice(out[0][0].data()).unwrap();
            prop_assert_eq!(usize::from(ip.payload_length), message.len());
            let icmp = etherparse::Icmpv6Slice::from_slice(message).unwrap();
            prop_assert!(icmp.is_checksum_valid(ip.source, ip.destination));
            prop_assert_eq!((ip.hop_limit, ip.destination), (255, Datagram::SOURCE.octets()));
            prop_assert_eq!(message[..2].to_vec(), vec![3, 1]);
            let bytes = asked.bytes();
            prop_assert_eq!(&message[8..], &bytes[..bytes.len().min(568)]);
            prop_assert_eq!(out[0][0].dst_ip6(), Datagram::SOURCE);
        }
    }

    #[test]
    fn each_type_has_its_own_fields() {
        let asked = Datagram::default();
        assert_eq!(answer("ICMP6Error(::2, 2, 0)", &asked)[44..48], [0, 0, 0x05, 0xdc]);
        let redirect = answer("ICMP6Error(::2, 137, 0)", &asked);
        assert_eq!(redirect[64..80], Datagram::DESTINATION.octets());
        assert_eq!(redirect[80..], asked.bytes());
    }

    #[test]
    fn errors_broadcasts_and_odd_sources_get_no_answer() {
        let mut rig = Rig::new("ICMP6Error(::2, 1, 0)", 1, 1).unwrap();
        let with = |change: fn(&mut Datagram)| {
            let mut datagram = Datagram::default();
            change(&mut datagram);
            datagram.packet()
        };
        let mut broadcast = Datagram::default().packet();
        broadcast.set_packet_type(PacketType::Broadcast);
        let packets = vec![
            with(|datagram| datagram.destination = "ff02::1".parse().unwrap()),
            with(|datagram| datagram.source = "::".parse().unwrap()),
            with(|datagram| (datagram.next_header, datagram.payload) = (58, vec![1, 0, 0, 0])),
            broadcast,
        ];
        assert!(rig.push_packets(0, packets)[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::NoReply, 4)]);
        let echo = with(|datagram| (datagram.next_header, datagram.payload) = (58, vec![128, 0]));
        assert_eq!(rig.push_packets(0, vec![echo])[0].len(), 1);
    }

    #[test]
    fn withstands_anything() {
        withstands("ICMP6Error(::2, 4, 0)", 1);
    }
}

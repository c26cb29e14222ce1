//! ICMPPingResponder - replies to ICMP echo requests (ping)
//!
//! # Synopsis
//! `ICMPPingResponder`
//!
//! # Description
//! Turns each ICMP echo request into its reply: swaps the addresses, sets the time to live to 255, clears the
//! fragmentation flags and updates the checksums. The reply's destination annotation is set to its destination, its
//! paint to 0 and its timestamp to the current time; other annotations do not change. All other packets, including
//! fragments of echo requests, go to output 1.
//!
//! The packet's network header must be set. Source routes are not reversed.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: replies. Output 1, push, optional: all other packets, unchanged.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - no match: the packet is not an echo request, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<0800f7fd 00010001>, LIMIT 10)
//!     -> IPEncap(icmp, 1.0.0.1, 2.0.0.2)
//!     -> ICMPPingResponder
//!     -> Discard;
//! ```
//!
//! # See also
//! ICMPError, ICMPPingSource

use millrace_core::checksum;
use millrace_core::headers::{Header, IcmpHeader, Ipv4Header, icmp_type, protocol};
use millrace_core::{Batch, Class, Context, Element, Failed, Packet, Reason, Setup, register};

/// The element; its manual is at the top of the file.
pub struct IcmpPingResponder;

register!(IcmpPingResponder, "icmp_ping_responder.rs");

impl Element for IcmpPingResponder {
    const CLASS: Class = Class::new("ICMPPingResponder", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let now = cx.now();
        batch.map_filter(|mut packet| {
            if !is_echo_request(&packet) {
                cx.push_or_drop(1, packet, Reason::NoMatch);
                return None;
            }
            turn_ip(&mut packet);
            turn_icmp(&mut packet);
            packet.set_paint(0);
            packet.set_timestamp(now);
            Some(packet)
        });
    }
}

#[inline(always)]
fn is_echo_request(packet: &Packet) -> bool {
    let ip = packet.network_data().and_then(Ipv4Header::view);
    let icmp = packet.transport_data().and_then(IcmpHeader::view);
    let (Some((ip, _)), Some((icmp, _))) = (ip, icmp) else { return false };
    ip.protocol == protocol::ICMP && !ip.is_fragment() && icmp.kind == icmp_type::ECHO_REQUEST
}

/// Turns the IP header into that of the reply. Swapping the addresses does not change the checksum.
fn turn_ip(packet: &mut Packet) {
    let Some((ip, _)) = packet.network_data_mut().and_then(Ipv4Header::view_mut) else { return };
    std::mem::swap(&mut ip.src, &mut ip.dst);
    let mut sum = checksum::update(ip.checksum.get(), ip.flags_fragment.get(), 0);
    ip.flags_fragment.set(0);
    let old = u16::from_be_bytes([ip.ttl, ip.protocol]);
    ip.ttl = 255;
    sum = checksum::update(sum, old, u16::from_be_bytes([ip.ttl, ip.protocol]));
    ip.checksum.set(sum);
    let destination = ip.destination();
    packet.set_dst_ip(destination);
}

/// Turns the ICMP header into that of the reply.
fn turn_icmp(packet: &mut Packet) {
    let Some(message) = packet.transport_data_mut() else { return };
    let Some((icmp, _)) = IcmpHeader::view_mut(message) else { return };
    let old = u16::from_be_bytes([icmp.kind, icmp.code]);
    (icmp.kind, icmp.code) = (icmp_type::ECHO_REPLY, 0);
    let sum = checksum::update(icmp.checksum.get(), old, 0);
    icmp.checksum.set(sum);
    // The checksum of an all-zero message is 0xffff, the other form of zero, which an incremental update cannot know.
    if sum == 0 && message.iter().all(|byte| *byte == 0) {
        message.iter_mut().skip(2).take(2).for_each(|byte| *byte = 0xff);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason, Timestamp};
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, withstands};

    fn answered(packet: Packet) -> Packet {
        Rig::new("ICMPPingResponder", 1, 1)
            .unwrap()
            .push_packets(0, vec![packet])
            .remove(0)
            .remove(0)
    }

    /// The expected reply, built by etherparse.
    fn reply(request: &Datagram, rest: [u8; 4], payload: &[u8]) -> Datagram {
        Datagram {
            source: request.destination,
            destination: request.source,
            ttl: 255,
            options: request.options.clone(),
            id: request.id,
            ..Datagram::icmp(0, 0, rest, payload)
        }
    }

    #[test]
    fn the_reply_has_its_own_annotations() {
        let mut packet = Datagram::icmp(8, 0, [0, 1, 0, 2], b"data").packet();
        packet.set_paint(5);
        packet.set_aggregate(6);
        let reply = answered(packet);
        assert_eq!((reply.dst_ip(), reply.paint()), (Datagram::SOURCE, 0));
        assert_eq!(reply.aggregate(), 6);
        assert_eq!(reply.timestamp(), Timestamp::from_secs(1_000_000_000));
    }

    #[test]
    fn an_all_zero_message_keeps_a_correct_checksum() {
        let request = Datagram::icmp(8, 0, [0; 4], &[0; 10]);
        let out = answered(request.packet());
        assert_eq!(out.data(), reply(&request, [0; 4], &[0; 10]).bytes());
    }

    #[test]
    fn everything_else_goes_to_output_1() {
        let request = Datagram::icmp(8, 0, [0; 4], b"data");
        let mut unmarked = request.packet();
        unmarked.clear_network_header();
        let short = Datagram { payload: vec![8, 0, 0xf7, 0xff, 0, 0, 0], ..Datagram::of(1) };
        let others = || {
            vec![
                Datagram::icmp(0, 0, [0; 4], b"reply").packet(),
                Datagram { protocol: 17, ..request.clone() }.packet(),
                Datagram { fragment_offset: 1, ..request.clone() }.packet(),
                Datagram { more_fragments: true, ..request.clone() }.packet(),
                short.packet(),
            ]
        };
        let mut rig = Rig::new("ICMPPingResponder", 1, 2).unwrap();
        let out = rig.push_packets(0, others());
        assert_eq!((out[0].len(), out[1].len()), (0, 5));
        for (before, after) in others().iter().zip(&out[1]) {
            assert_eq!(before.data(), after.data());
        }
        let mut rig = Rig::new("ICMPPingResponder", 1, 1).unwrap();
        rig.push_packets(0, others().into_iter().chain([unmarked]).collect());
        assert_eq!(rig.stats().drops, [(Reason::NoMatch, 6)]);
    }

    proptest! {
        /// The incremental updates give the checksums that etherparse computes from scratch.
        #[test]
        fn the_reply_is_correct(
            ttl: u8,
            id: u16,
            dont_fragment: bool,
            code: u8,
            rest: [u8; 4],
            payload in prop::collection::vec(any::<u8>(), 0..80),
            shared: bool,
        ) {
            let request = Datagram {
                ttl,
                id,
                dont_fragment,
                options: vec![1, 1, 1, 0],
                ..Datagram::icmp(8, code, rest, &payload)
            };
            let packet = request.packet();
            let twin = shared.then(|| packet.share().unwrap());
            let answer = answered(packet);
            prop_assert_eq!(answer.data(), reply(&request, rest, &payload).bytes());
            if let Some(twin) = twin {
                prop_assert_eq!(twin.data(), request.bytes());
            }
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("ICMPPingResponder", 1);
        withstands("ICMPPingResponder", 2);
    }
}

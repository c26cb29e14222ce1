//! DecIPTTL - decrements the time to live of IP packets
//!
//! # Synopsis
//! `DecIPTTL([keyword ACTIVE, MULTICAST])`
//!
//! # Description
//! Decrements the time to live of each IP packet and updates the header checksum incrementally (RFC 1624), so that a
//! wrong checksum stays wrong. A packet whose time to live is 1 or 0 goes to output 1 unchanged, usually to an
//! ICMPError.
//!
//! # Arguments
//! - ACTIVE: whether to process packets. If false, all packets pass unchanged. Keyword, default true.
//! - MULTICAST: whether to decrement packets to multicast addresses too. Keyword, default true.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: packets to forward. Output 1, push, optional: packets whose time to live has
//! expired.
//!
//! # Handlers
//! - `drops` (read): number of packets whose time to live expired, dropped or sent to output 1.
//! - `active` (read, write): ACTIVE.
//!
//! # Drops
//! - ttl expired: the time to live expired, and output 1 is not connected.
//! - header not set: the packet's network header is not set.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401177d7 01000001 02000002>, LIMIT 10)
//!     -> CheckIPHeader
//!     -> hop :: DecIPTTL
//!     -> Discard;
//! hop[1] -> ICMPError(18.26.4.24, timeexceeded) -> Discard;
//! ```
//!
//! # See also
//! ICMPError, CheckIPHeader

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millrace_core::headers::Ipv4Header;
use millrace_core::{
    Class, Context, Count, Element, Failed, Handlers, Moment, Packet, PerPacket, PerThread, Reason,
    Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct DecIpTtl {
    /// Which packets are not changed: [`NONE`], [`MULTICAST`] or [`ALL`]. One number, because each packet asks.
    except: AtomicU8,
    multicast: bool,
    drops: PerThread<Count>,
}

register!(DecIpTtl, "dec_ip_ttl.rs");

impl Element for DecIpTtl {
    const CLASS: Class = Class::new("DecIPTTL", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let active = setup.args.keyword("ACTIVE", true);
        let multicast = setup.args.keyword("MULTICAST", true);
        setup.args.complete()?;
        let except = Self::except(active, multicast).into();
        Ok(Self { except, multicast, drops: PerThread::default() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.drops.total());
        handlers.read("active", |element, _| element.except.load(Relaxed) != ALL);
        handlers.write("active", |element, call| {
            element.except.store(Self::except(call.parse()?, element.multicast), Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for DecIpTtl {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let except = self.except.load(Relaxed);
        if except != NONE {
            let multicast = |ip: &Ipv4Header| ip.destination().is_multicast();
            if except == ALL || packet.ipv4().is_some_and(multicast) {
                return Way::ON;
            }
        }
        // Don't copy a shared packet that is not changed.
        if packet.is_shared() && packet.ipv4().is_some_and(has_expired) {
            return EXPIRED;
        }
        let Some(ip) = packet.ipv4_mut() else { return Way::drop(Reason::NoHeader) };
        if has_expired(ip) {
            return EXPIRED;
        }
        ip.decrement_ttl();
        Way::ON
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        if way.reason() == Reason::TtlExpired {
            self.drops.mine(cx).add(1);
        }
        cx.send_or_drop(packet, way)
    }
}

const NONE: u8 = 0;
/// Packets to multicast addresses.
const MULTICAST: u8 = 1;
const ALL: u8 = 2;

impl DecIpTtl {
    fn except(active: bool, multicast: bool) -> u8 {
        match (active, multicast) {
            (false, _) => ALL,
            (true, false) => MULTICAST,
            (true, true) => NONE,
        }
    }
}

/// The way of a packet that may not go on.
const EXPIRED: Way = Way::output_or_drop(1, Reason::TtlExpired);

#[inline(always)]
fn has_expired(ip: &Ipv4Header) -> bool {
    ip.ttl <= 1
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, withstands};

    fn with_ttl(ttl: u8) -> Datagram {
        Datagram { ttl, ..Datagram::default() }
    }

    #[test]
    fn ttl_is_decremented_and_expired_packets_go_to_output_1() {
        let mut rig = Rig::new("DecIPTTL", 1, 2).unwrap();
        let packets = [255, 2, 1, 0].map(|ttl| with_ttl(ttl).packet());
        let out = rig.push_packets(0, packets.into());
        let bytes = |packets: &[Packet]| -> Vec<Vec<u8>> {
            packets.iter().map(|packet| packet.data().to_vec()).collect()
        };
        assert_eq!(bytes(&out[0]), [with_ttl(254).bytes(), with_ttl(1).bytes()]);
        assert_eq!(bytes(&out[1]), [with_ttl(1).bytes(), with_ttl(0).bytes()]);
        assert_eq!(rig.read("drops").unwrap(), "2");
    }

    #[test]
    fn expired_packets_are_dropped_without_output_1() {
        let mut rig = Rig::new("DecIPTTL", 1, 1).unwrap();
        let mut lost = with_ttl(9).packet();
        lost.clear_network_header();
        rig.push_packets(0, vec![with_ttl(1).packet(), lost]);
        assert_eq!(rig.stats().drops, [(Reason::TtlExpired, 1), (Reason::NoHeader, 1)]);
    }

    #[test]
    fn multicasts_or_all_packets_can_be_exempted() {
        let multicast = Datagram { destination: [224, 0, 0, 9].into(), ..with_ttl(1) };
        let mut rig = Rig::new("DecIPTTL(MULTICAST false)", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![multicast.packet(), with_ttl(9).packet()]);
        assert_eq!(out[0][0].data(), multicast.bytes());
        assert_eq!(out[0][1].data(), with_ttl(8).bytes());

        let mut rig = Rig::new("DecIPTTL(ACTIVE false)", 1, 1).unwrap();
        assert_eq!(
            rig.push_packets(0, vec![with_ttl(1).packet()])[0][0].data(),
            with_ttl(1).bytes()
        );
        rig.write("active", "true").unwrap();
        assert_eq!(rig.read("active").unwrap(), "true");
        assert!(rig.push_packets(0, vec![with_ttl(1).packet()])[0].is_empty());
    }

    #[test]
    fn a_shared_packet_is_copied_before_a_change() {
        let packet = with_ttl(9).packet();
        let twin = packet.share().unwrap();
        let mut rig = Rig::new("DecIPTTL", 1, 1).unwrap();
        rig.push_packets(0, vec![packet]);
        assert_eq!(twin.data(), with_ttl(9).bytes());
    }

    proptest! {
        /// The incremental update gives the checksum that etherparse computes from scratch.
        #[test]
        fn the_checksum_stays_correct(source: u32, destination: u32, id: u16, ttl in 2u8..) {
            let datagram = Datagram {
                source: source.into(),
                destination: destination.into(),
                id,
                ttl,
                ..Datagram::default()
            };
            let mut rig = Rig::new("DecIPTTL", 1, 1).unwrap();
            let out = rig.push_packets(0, vec![datagram.packet()]);
            let expected = Datagram { ttl: ttl - 1, ..datagram }.bytes();
            prop_assert_eq!(out[0][0].data(), expected);
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("DecIPTTL", 1);
        withstands("DecIPTTL(MULTICAST false)", 2);
    }
}

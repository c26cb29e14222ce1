//! DecIP6HLIM - decrements the hop limit of IPv6 packets
//!
//! # Synopsis
//! `DecIP6HLIM()`
//!
//! # Description
//! Decrements the hop limit of each IPv6 packet (RFC 8200, 3). A packet whose hop limit is 1 or 0 goes to output 1
//! unchanged.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: packets that may be forwarded. Output 1, push, optional: packets whose hop
//! limit has expired.
//!
//! # Handlers
//! - `drops` (read): packets whose hop limit expired, dropped or sent to output 1.
//!
//! # Drops
//! - ttl expired: the hop limit expired, and output 1 is not connected.
//! - header not set: the network header position is not set, or the packet ends before the IPv6 header does.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<6000000000001140 20010db8000000000000000000000001
//!                       20010db8000100000000000000000002>, LIMIT 10)
//!     -> CheckIP6Header
//!     -> DecIP6HLIM
//!     -> Discard;
//! ```
//!
//! # See also
//! CheckIP6Header, DecIPTTL

use millrace_core::headers::{Header, Ipv6Header};
use millrace_core::{
    Class, Context, Count, Element, Failed, Handlers, Moment, Packet, PerPacket, PerThread, Reason,
    Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct DecIp6Hlim {
    drops: PerThread<Count>,
}

register!(DecIp6Hlim, "dec_ip6_hlim.rs");

impl Element for DecIp6Hlim {
    const CLASS: Class = Class::new("DecIP6HLIM", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { drops: PerThread::default() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.drops.total());
    }
}

impl PerPacket for DecIp6Hlim {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some((ip, _)) = packet.network_data().and_then(Ipv6Header::view) else {
            return Way::drop(Reason::NoHeader);
        };
        if ip.hop_limit <= 1 {
            return Way::output_or_drop(1, Reason::TtlExpired);
        }
        if let Some((ip, _)) = packet.network_data_mut().and_then(Ipv6Header::view_mut) {
            ip.hop_limit = ip.hop_limit.saturating_sub(1);
        }
        Way::ON
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        if way.reason() == Reason::TtlExpired {
            self.drops.mine(cx).add(1);
        }
        cx.send_or_drop(packet, way)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip6::{Datagram, withstands};

    fn with_hop_limit(hop_limit: u8) -> Datagram {
        Datagram { hop_limit, ..Datagram::default() }
    }

    #[test]
    fn the_hop_limit_is_decremented() {
        let mut rig = Rig::new("DecIP6HLIM", 1, 2).unwrap();
        let packets = [255, 2, 1, 0].map(|limit| with_hop_limit(limit).packet());
        let out = rig.push_packets(0, packets.into());
        let bytes = |packets: &[Packet]| -> Vec<Vec<u8>> {
            packets.iter().map(|packet| packet.data().to_vec()).collect()
        };
        assert_eq!(bytes(&out[0]), [with_hop_limit(254).bytes(), with_hop_limit(1).bytes()]);
        assert_eq!(bytes(&out[1]), [with_hop_limit(1).bytes(), with_hop_limit(0).bytes()]);
        assert_eq!(rig.read("drops").unwrap(), "2");
    }

    #[test]
    fn expired_packets_are_dropped_without_output_1() {
        let mut rig = Rig::new("DecIP6HLIM", 1, 1).unwrap();
        let mut lost = with_hop_limit(9).packet();
        lost.clear_network_header();
        rig.push_packets(0, vec![with_hop_limit(1).packet(), lost]);
        assert_eq!(rig.stats().drops, [(Reason::TtlExpired, 1), (Reason::NoHeader, 1)]);
    }

    #[test]
    fn clones_stay_unchanged() {
        let packet = with_hop_limit(9).packet();
        let twin = packet.share().unwrap();
        let mut rig = Rig::new("DecIP6HLIM", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![packet]);
        assert_eq!(out[0][0].data(), with_hop_limit(8).bytes());
        assert_eq!(twin.data(), with_hop_limit(9).bytes());
    }

    #[test]
    fn arguments_are_refused() {
        assert!(Rig::new("DecIP6HLIM(1)", 1, 1).is_err());
    }

    #[test]
    fn withstands_anything() {
        withstands("DecIP6HLIM", 1);
        withstands("DecIP6HLIM", 2);
    }
}

//! IP6Mirror - swaps source and destination addresses and ports of IPv6 packets
//!
//! # Synopsis
//! `IP6Mirror()`
//!
//! # Description
//! Swaps the source and destination addresses of each IPv6 packet. If a UDP or TCP header follows directly, swaps its
//! ports too. Checksums stay correct, because they are sums over both addresses and both ports. The destination
//! annotation does not change.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: the network header position is not set, or the packet ends before the IPv6 header does.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<6000000000001140 20010db8000000000000000000000001
//!                       20010db8000100000000000000000002>, LIMIT 10)
//!     -> CheckIP6Header
//!     -> IP6Mirror
//!     -> Discard;
//! ```
//!
//! # See also
//! EtherMirror, CheckIP6Header

use millrace_core::headers::{Header, Ipv6Header, protocol};
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use crate::ip::swap_ports;

/// The element; its manual is at the top of the file.
pub struct Ip6Mirror;

register!(Ip6Mirror, "ip6_mirror.rs");

impl Element for Ip6Mirror {
    const CLASS: Class = Class::new("IP6Mirror", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for Ip6Mirror {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some((ip, payload)) = packet.network_data_mut().and_then(Ipv6Header::view_mut) else {
            return Way::drop(Reason::NoHeader);
        };
        std::mem::swap(&mut ip.src, &mut ip.dst);
        if matches!(ip.next_header, protocol::TCP | protocol::UDP) {
            swap_ports(payload);
        }
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip6::{Datagram, withstands};

    fn mirrored(datagram: &Datagram) -> Vec<u8> {
        let mut rig = Rig::new("IP6Mirror", 1, 1).unwrap();
        rig.push_packets(0, vec![datagram.packet()])[0][0].data().to_vec()
    }

    #[test]
    fn swaps_addresses_and_ports() {
        let there = Datagram::udp(1234, 5678, b"data");
        let (source, destination) = (there.destination, there.source);
        let back = Datagram { source, destination, ..Datagram::udp(5678, 1234, b"data") };
        // The datagram and its mirror image have the same checksum.
        assert_eq!(mirrored(&there), back.bytes());
        assert_eq!(mirrored(&back), there.bytes());
    }

    #[test]
    fn payloads_without_ports_stay_unchanged() {
        for (next_header, payload) in [(58, &[1, 2, 3, 4, 5, 6, 7, 8][..]), (17, &[1, 2, 3, 4])] {
            let there = Datagram { next_header, payload: payload.to_vec(), ..Datagram::default() };
            assert_eq!(mirrored(&there)[40..], *payload, "{next_header}");
        }
    }

    #[test]
    fn packets_without_a_header_are_dropped() {
        let mut rig = Rig::new("IP6Mirror", 1, 1).unwrap();
        rig.push_packets(0, vec![Packet::from_bytes(&[0x60; 60]).unwrap()]);
        assert_eq!(rig.stats().drops, [(Reason::NoHeader, 1)]);
    }

    #[test]
    fn withstands_anything() {
        withstands("IP6Mirror", 1);
    }
}

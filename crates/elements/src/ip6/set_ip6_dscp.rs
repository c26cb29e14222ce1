//! SetIP6DSCP - sets the differentiated services code point of IPv6 packets
//!
//! # Synopsis
//! `SetIP6DSCP(DSCP)`
//!
//! # Description
//! Sets the differentiated services code point of each IPv6 packet, the upper six bits of its traffic class (RFC 2474,
//! 3). The lower two bits (ECN) and the flow label do not change.
//!
//! # Arguments
//! - DSCP: the code point, 0 to 63. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `dscp` (read, write): DSCP.
//!
//! # Drops
//! - header not set: the network header position is not set, or the packet ends before the IPv6 header does.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<6000000000001140 20010db8000000000000000000000001
//!                       20010db8000100000000000000000002>, LIMIT 10)
//!     -> MarkIP6Header
//!     -> SetIP6DSCP(46)
//!     -> Discard;
//! ```
//!
//! # See also
//! MarkIP6Header, CheckIP6Header

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millrace_core::headers::{Header, Ipv6Header};
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct SetIp6Dscp {
    dscp: AtomicU8,
}

register!(SetIp6Dscp, "set_ip6_dscp.rs");

impl Element for SetIp6Dscp {
    const CLASS: Class = Class::new("SetIP6DSCP", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let dscp: u32 = setup.args.mandatory("DSCP");
        let dscp = code_point(dscp);
        if dscp.is_none() {
            setup.args.error("DSCP", OUT_OF_RANGE);
        }
        setup.args.complete()?;
        Ok(Self { dscp: dscp.unwrap_or_default().into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("dscp", |element, _| element.dscp.load(Relaxed));
        handlers.write("dscp", |element, call| {
            let dscp = code_point(call.parse()?).ok_or(OUT_OF_RANGE)?;
            element.dscp.store(dscp, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for SetIp6Dscp {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some((ip, _)) = packet.network_data_mut().and_then(Ipv6Header::view_mut) else {
            return Way::drop(Reason::NoHeader);
        };
        let dscp = u32::from(self.dscp.load(Relaxed)) << SHIFT;
        let word = ip.version_class_flow.get() & !(0x3f << SHIFT);
        ip.version_class_flow.set(word | dscp);
        Way::ON
    }
}

/// Click's message.
const OUT_OF_RANGE: &str = "diffserv code point out of range";

/// Number of bits below the code point in the first word of a header.
const SHIFT: u32 = 22;

fn code_point(number: u32) -> Option<u8> {
    u8::try_from(number).ok().filter(|&number| number < 64)
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use proptest::prelude::*;

    use crate::test_packets::ip6::{Datagram, withstands};

    proptest! {
        /// Etherparse reads the new code point and finds everything else unchanged.
        #[test]
        fn only_the_code_point_changes(traffic_class: u8, flow_label in 0u32..1 << 20, dscp in 0u8..64) {
            let datagram = Datagram { traffic_class, flow_label, ..Datagram::default() };
            let mut rig = Rig::new(&format!("SetIP6DSCP({dscp})"), 1, 1).unwrap();
            let out = rig.push_packets(0, vec![datagram.packet()]);
            let expected = Datagram { traffic_class: dscp << 2 | traffic_class & 3, ..datagram };
            prop_assert_eq!(out[0][0].data(), expected.bytes());
        }
    }

    #[test]
    fn the_code_point_can_be_changed() {
        let mut rig = Rig::new("SetIP6DSCP(DSCP 46)", 1, 1).unwrap();
        assert_eq!(rig.read("dscp").unwrap(), "46");
        rig.write("dscp", "10").unwrap();
        let error = rig.write("dscp", "64").unwrap_err();
        assert_eq!(error.to_string(), "diffserv code point out of range");
        let out = rig.push_packets(0, vec![Datagram::default().packet()]);
        let expected = Datagram { traffic_class: 40, ..Datagram::default() };
        assert_eq!(out[0][0].data(), expected.bytes());
    }

    #[test]
    fn clones_stay_unchanged() {
        let packet = Datagram::default().packet();
        let twin = packet.share().unwrap();
        Rig::new("SetIP6DSCP(46)", 1, 1).unwrap().push_packets(0, vec![packet]);
        assert_eq!(twin.data(), Datagram::default().bytes());
    }

    #[test]
    fn packets_without_a_header_are_dropped() {
        let mut rig = Rig::new("SetIP6DSCP(46)", 1, 1).unwrap();
        rig.push_packets(0, vec![Packet::from_bytes(&[0x60; 60]).unwrap()]);
        assert_eq!(rig.stats().drops, [(Reason::NoHeader, 1)]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for arguments in ["", "64", "-1", "ef", "1, 2"] {
            assert!(Rig::new(&format!("SetIP6DSCP({arguments})"), 1, 1).is_err(), "{arguments}");
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("SetIP6DSCP(46)", 1);
    }
}

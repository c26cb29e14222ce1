//! VXLANDecap - checks and removes the VXLAN header of packets
//!
//! # Synopsis
//! `VXLANDecap([VNI])`
//!
//! # Description
//! Checks the VXLAN header (RFC 7348, 5) at the start of each packet, removes it, and sets the aggregate annotation to
//! the network identifier.
//!
//! # Arguments
//! - VNI: the network identifier that the header must have, 0 to 16777215. Positional, default any.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: decapsulated frames. Output 1, push, optional: packets that fail the checks,
//! unchanged.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! Without output 1:
//! - truncated: the packet is shorter than the header.
//! - bad protocol field: the header has no network identifier.
//! - no match: the header has another VNI.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<08000000 00002a00 020202020202 010101010101 0800>, LIMIT 10)
//!     -> VXLANDecap(42)
//!     -> Discard;
//! ```
//!
//! # See also
//! VXLANEncap

use millrace_core::args::Kind;
use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::vxlan_encap::{HAS_NETWORK, NETWORKS};

/// The element; its manual is at the top of the file.
pub struct VxlanDecap {
    vni: Option<u32>,
}

register!(VxlanDecap, "vxlan_decap.rs");

const LEN: usize = 8;

impl Element for VxlanDecap {
    const CLASS: Class = Class::new("VXLANDecap", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let vni = setup.args.in_range("VNI", Kind::Positional, NETWORKS);
        setup.args.complete()?;
        Ok(Self { vni })
    }
}

impl PerPacket for VxlanDecap {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match self.unwrap(packet) {
            Ok(()) => Way::ON,
            Err(reason) => Way::output_or_drop(1, reason),
        }
    }
}

impl VxlanDecap {
    fn unwrap(&self, packet: &mut View) -> Result<(), Reason> {
        let header = packet.data().first_chunk::<LEN>().ok_or(Reason::Truncated)?;
        let &[flags, _, _, _, a, b, c, _] = header;
        if flags & HAS_NETWORK == 0 {
            return Err(Reason::BadProtocol);
        }
        let vni = u32::from_be_bytes([0, a, b, c]);
        if self.vni.is_some_and(|wanted| wanted != vni) {
            return Err(Reason::NoMatch);
        }
        if !packet.strip(LEN) {
            return Err(Reason::Truncated);
        }
        packet.set_aggregate(vni);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::withstands;

    #[test]
    fn packets_that_fail_a_check_are_dropped_with_a_reason() {
        let mut rig = Rig::new("VXLANDecap(7)", 1, 1).unwrap();
        let packets = [
            &b"\x08\0\0\0\0\0\x07\0frame"[..],
            b"\x08\0\0\0\0\0\x08\0frame",
            b"\0\0\0\0\0\0\x07\0frame",
            b"\x08\0\0\0\0\0\x07",
        ];
        assert_eq!(rig.push(0, &packets)[0], [b"frame"]);
        let drops = [(Reason::NoMatch, 1), (Reason::Truncated, 1), (Reason::BadProtocol, 1)];
        let mut found = rig.stats().drops;
        found.sort();
        assert_eq!(found, drops);
        let packet = millrace_core::Packet::from_bytes(packets[1]).unwrap();
        let mut any = Rig::new("VXLANDecap", 1, 1).unwrap();
        assert_eq!(any.push_packets(0, vec![packet])[0][0].aggregate(), 8);
    }

    #[test]
    fn withstands_anything() {
        withstands("VXLANDecap", 1);
        withstands("VXLANDecap(0)", 2);
    }
}

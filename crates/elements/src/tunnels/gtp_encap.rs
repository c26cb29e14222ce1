//! GTPEncap - prepends a GTP-U header to packets
//!
//! # Synopsis
//! `GTPEncap(TEID)`
//!
//! # Description
//! Prepends the header of a GTP version 1 user packet (3GPP TS 29.281, 5) to each packet. Use a UDPIPEncap to port 2152
//! after it.
//!
//! # Arguments
//! - TEID: the tunnel endpoint identifier; 0 uses each packet's aggregate annotation, which GTPDecap sets. Positional,
//!   mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - too big: the packet is longer than 65535 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, 53)
//!     -> GTPEncap(22)
//!     -> UDPIPEncap(192.0.2.1, 2152, 192.0.2.2, 2152)
//!     -> Discard;
//! ```
//!
//! # See also
//! GTPDecap, UDPIPEncap

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct GtpEncap {
    teid: u32,
}

register!(GtpEncap, "gtp_encap.rs");

/// Version 1, GTP (not GTP'), no optional fields.
pub(super) const FLAGS: u8 = 0x30;
/// The type of messages that carry a user's packet.
const USER_PACKET: u8 = 0xff;

impl Element for GtpEncap {
    const CLASS: Class = Class::new("GTPEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let teid = setup.args.mandatory("TEID");
        setup.args.complete()?;
        Ok(Self { teid })
    }
}

impl PerPacket for GtpEncap {
    const PREPENDS: usize = 8;

    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Ok(len) = u16::try_from(packet.len()) else {
            return Way::drop(Reason::TooBig);
        };
        let teid = if self.teid == 0 { packet.aggregate() } else { self.teid };
        let [high, low] = len.to_be_bytes();
        let [a, b, c, d] = teid.to_be_bytes();
        packet.push_front(&[FLAGS, USER_PACKET, high, low, a, b, c, d]);
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use crate::test_packets::ip::withstands;

    proptest! {
        /// The aggregate annotation carries the identifier: a packet that is decapsulated and encapsulated again is the
        /// same.
        #[test]
        fn decap_undoes_encap(data in prop::collection::vec(any::<u8>(), 0..300), teid in 1u32..) {
            let encap = RefCell::new(Rig::new(&format!("GTPEncap({teid})"), 1, 1).unwrap());
            let decap = RefCell::new(Rig::new("GTPDecap", 1, 1).unwrap());
            let again = RefCell::new(Rig::new("GTPEncap(0)", 1, 1).unwrap());
            let wrapped = encap.borrow_mut().push(0, &[&data]).remove(0);
            let packet = millrace_core::Packet::from_bytes(&wrapped[0]).unwrap();
            let out = decap.borrow_mut().push_packets(0, vec![packet]).remove(0);
            prop_assert_eq!(out[0].data(), &data);
            prop_assert_eq!(out[0].aggregate(), teid);
            let out = again.borrow_mut().push_packets(0, out).remove(0);
            prop_assert_eq!(out[0].data(), &wrapped[0]);
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("GTPEncap(0)", 1);
    }
}

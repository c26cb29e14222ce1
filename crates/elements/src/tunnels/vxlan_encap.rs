//! VXLANEncap - prepends a VXLAN header to Ethernet frames
//!
//! # Synopsis
//! `VXLANEncap(VNI)`
//!
//! # Description
//! Prepends a VXLAN header (RFC 7348, 5) to each Ethernet frame. Use a UDPIPEncap or UDPIP6Encap to port 4789 after it.
//!
//! # Arguments
//! - VNI: the VXLAN network identifier, 0 to 16777215. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `vni` (read, write): VNI.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)
//!     -> VXLANEncap(42)
//!     -> UDPIPEncap(192.0.2.1, 49152, 192.0.2.2, 4789)
//!     -> Discard;
//! ```
//!
//! # See also
//! VXLANDecap, UDPIPEncap, GREEncap

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct VxlanEncap {
    vni: AtomicU32,
}

register!(VxlanEncap, "vxlan_encap.rs");

/// The flag of a header that has a network identifier.
pub(super) const HAS_NETWORK: u8 = 0x08;
/// The range of network identifiers.
pub(super) const NETWORKS: RangeInclusive<u32> = 0..=0xff_ffff;

impl Element for VxlanEncap {
    const CLASS: Class = Class::new("VXLANEncap", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let vni = setup.args.in_range("VNI", Kind::Mandatory, NETWORKS);
        setup.args.complete()?;
        Ok(Self { vni: vni.unwrap_or_default().into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("vni", |element, _| element.vni.load(Relaxed));
        handlers.write("vni", |element, call| {
            let vni: u32 = call.parse()?;
            if !NETWORKS.contains(&vni) {
                return Err(format!("out of range, bound {}", NETWORKS.end()).into());
            }
            element.vni.store(vni, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for VxlanEncap {
    const PREPENDS: usize = 8;

    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let [_, a, b, c] = self.vni.load(Relaxed).to_be_bytes();
        packet.push_front(&[HAS_NETWORK, 0, 0, 0, a, b, c, 0]);
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
        #[test]
        fn decap_undoes_encap(data in prop::collection::vec(any::<u8>(), 0..300), vni in 0u32..1 << 24) {
            let encap = RefCell::new(Rig::new(&format!("VXLANEncap({vni})"), 1, 1).unwrap());
            let decap = RefCell::new(Rig::new(&format!("VXLANDecap({vni})"), 1, 1).unwrap());
            let wrapped = encap.borrow_mut().push(0, &[&data]).remove(0);
            prop_assert_eq!(&wrapped[0][..8], &[&[8, 0, 0, 0][..], &vni.to_be_bytes()[1..], &[0]].concat());
            let out = decap.borrow_mut().push(0, &wrapped).remove(0);
            prop_assert_eq!(out, vec![data]);
        }
    }

    #[test]
    fn identifiers_have_24_bits() {
        assert!(Rig::new("VXLANEncap(16777216)", 1, 1).is_err());
        let mut rig = Rig::new("VXLANEncap(16777215)", 1, 1).unwrap();
        assert!(rig.write("vni", "16777216").is_err());
        rig.write("vni", "7").unwrap();
        assert_eq!(rig.read("vni").unwrap(), "7");
        withstands("VXLANEncap(7)", 1);
    }
}

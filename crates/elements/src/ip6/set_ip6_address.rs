//! SetIP6Address - sets the IPv6 destination annotation
//!
//! # Synopsis
//! `SetIP6Address(IPADDR)`
//!
//! # Description
//! Sets the IPv6 destination annotation of each packet to IPADDR.
//!
//! # Arguments
//! - IPADDR: the address. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> SetIP6Address(2001:db8::1) -> Discard;
//! ```
//!
//! # See also
//! GetIP6Address, SetIPAddress

use std::net::Ipv6Addr;

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct SetIp6Address {
    address: Ipv6Addr,
}

register!(SetIp6Address, "set_ip6_address.rs");

impl Element for SetIp6Address {
    const CLASS: Class = Class::new("SetIP6Address", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let address = setup.args.mandatory("IPADDR");
        setup.args.complete()?;
        Ok(Self { address })
    }
}

impl PerPacket for SetIp6Address {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        packet.set_dst_ip6(self.address);
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn only_the_destination_annotation_changes() {
        let mut rig = Rig::new("SetIP6Address(2001:db8::1)", 1, 1).unwrap();
        let mut packet = Packet::with_len(0).unwrap();
        packet.set_paint(7);
        let out = rig.push_packets(0, vec![packet]);
        assert_eq!(out[0][0].dst_ip6().to_string(), "2001:db8::1");
        assert_eq!(out[0][0].paint(), 7, "what stands behind is left alone");
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for arguments in ["", "10.0.0.1", "::1, ::2", "2001:db8::/32"] {
            assert!(Rig::new(&format!("SetIP6Address({arguments})"), 1, 1).is_err(), "{arguments}");
        }
    }
}

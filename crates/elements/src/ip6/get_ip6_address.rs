//! GetIP6Address - copies an address from the packet to the IPv6 destination annotation
//!
//! # Synopsis
//! `GetIP6Address(OFFSET)`
//!
//! # Description
//! Copies the 16 bytes at OFFSET to the IPv6 destination annotation, which LookupIP6Route looks up. OFFSET 24 is the
//! destination address of a packet that starts with its IPv6 header.
//!
//! # Arguments
//! - OFFSET: bytes before the address. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - truncated: the packet ends before the address does.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<6000000000001140 20010db8000000000000000000000001
//!                       20010db8000100000000000000000002>, LIMIT 10)
//!     -> GetIP6Address(24)
//!     -> Discard;
//! ```
//!
//! # See also
//! SetIP6Address, LookupIP6Route, GetIPAddress

use std::net::Ipv6Addr;

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct GetIp6Address {
    offset: u32,
}

register!(GetIp6Address, "get_ip6_address.rs");

impl Element for GetIp6Address {
    const CLASS: Class = Class::new("GetIP6Address", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset = setup.args.mandatory("OFFSET");
        setup.args.complete()?;
        Ok(Self { offset })
    }
}

impl PerPacket for GetIp6Address {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let bytes = packet.data().get(self.offset as usize..).and_then(<[u8]>::first_chunk::<16>);
        let Some(&address) = bytes else { return Way::drop(Reason::Truncated) };
        packet.set_dst_ip6(Ipv6Addr::from(address));
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip6::{Datagram, withstands};

    #[test]
    fn copies_the_address_at_the_offset() {
        for (element, address) in [
            ("GetIP6Address(24)", Datagram::DESTINATION),
            ("GetIP6Address(OFFSET 8)", Datagram::SOURCE),
        ] {
            let mut rig = Rig::new(element, 1, 1).unwrap();
            let out = rig.push_packets(0, vec![Datagram::default().packet()]);
            assert_eq!(out[0][0].dst_ip6(), address, "{element}");
        }
    }

    #[test]
    fn packets_without_the_address_are_dropped() {
        let mut rig = Rig::new("GetIP6Address(24)", 1, 1).unwrap();
        rig.push(0, &[[0; 39]]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1)]);
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for arguments in ["", "24, 8", "-1", "IP dst"] {
            assert!(Rig::new(&format!("GetIP6Address({arguments})"), 1, 1).is_err(), "{arguments}");
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("GetIP6Address(24)", 1);
    }
}

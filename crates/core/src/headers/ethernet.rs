//! Ethernet II and IEEE 802.1Q.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::U16;
use crate::net::EtherAddress;

/// An Ethernet header.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct EthernetHeader {
    /// The receiver.
    pub dst: EtherAddress,
    /// The sender.
    pub src: EtherAddress,
    /// The type of the payload (see [`ether_type`]); a length when below 0x0600.
    pub ether_type: U16,
}

/// The bytes after the source address of a tagged Ethernet header: an 802.1Q tag and the next type.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct VlanHeader {
    /// Priority (3 bits), drop-eligible bit, VLAN number (12 bits).
    pub tci: U16,
    /// The type of the payload (see [`ether_type`]).
    pub ether_type: U16,
}

impl VlanHeader {
    /// The VLAN's number, 0 to 4095.
    #[inline]
    pub fn vlan(&self) -> u16 {
        self.tci.get() & 0x0fff
    }

    /// The priority, 0 to 7.
    #[inline]
    pub fn priority(&self) -> u8 {
        (self.tci.get() >> 13) as u8
    }

    /// Whether the frame may be dropped before others.
    #[inline]
    pub fn drop_eligible(&self) -> bool {
        self.tci.get() & 0x1000 != 0
    }
}

/// Ethernet types (IANA "IEEE 802 Numbers").
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// Transparent Ethernet bridging (in GRE).
    pub const TRANSPARENT: u16 = 0x6558;
    /// IEEE 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MPLS unicast.
    pub const MPLS: u16 = 0x8847;
    /// PPPoE session.
    pub const PPPOE: u16 = 0x8864;
    /// IEEE 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// LLDP.
    pub const LLDP: u16 = 0x88cc;
    /// Values from here on are types; smaller ones are lengths (IEEE 802.3).
    pub const LOWEST: u16 = 0x0600;

    /// Whether a VLAN tag follows a header with this type.
    #[inline(always)]
    pub fn is_tag(ether_type: u16) -> bool {
        matches!(ether_type, VLAN | SERVICE_VLAN)
    }
}

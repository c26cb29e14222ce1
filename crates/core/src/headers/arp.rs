//! ARP for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{U16, ether_type};
use crate::net::EtherAddress;

/// An ARP message between Ethernet and IPv4 addresses.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ArpHeader {
    /// Kind of link-layer address; 1 is Ethernet.
    pub hardware: U16,
    /// Kind of network address, an Ethernet type.
    pub protocol: U16,
    /// Bytes of a link-layer address.
    pub hardware_len: u8,
    /// Bytes of a network address.
    pub protocol_len: u8,
    /// The operation (see [`arp_operation`]).
    pub operation: U16,
    /// The sender's Ethernet address.
    pub sender_ether: EtherAddress,
    /// The sender's IP address, in network order.
    pub sender_ip: [u8; 4],
    /// The target's Ethernet address.
    pub target_ether: EtherAddress,
    /// The target's IP address, in network order.
    pub target_ip: [u8; 4],
}

impl ArpHeader {
    /// A message from these addresses.
    pub fn new(
        operation: u16,
        sender: (EtherAddress, Ipv4Addr),
        target: (EtherAddress, Ipv4Addr),
    ) -> ArpHeader {
        ArpHeader {
            hardware: U16::new(1),
            protocol: U16::new(ether_type::IPV4),
            hardware_len: 6,
            protocol_len: 4,
            operation: U16::new(operation),
            sender_ether: sender.0,
            sender_ip: sender.1.octets(),
            target_ether: target.0,
            target_ip: target.1.octets(),
        }
    }

    /// Whether the message is about Ethernet and IPv4 addresses, as this layout assumes.
    #[inline]
    pub fn is_ethernet_ipv4(&self) -> bool {
        self.hardware.get() == 1
            && self.protocol.get() == ether_type::IPV4
            && self.hardware_len == 6
            && self.protocol_len == 4
    }

    /// Whether the type fields name Ethernet and IPv4 addresses, whatever the length fields contain.
    #[inline]
    pub fn concerns_ipv4(&self) -> bool {
        self.hardware.get() == 1 && self.protocol.get() == ether_type::IPV4
    }

    /// The sender's IP address.
    #[inline]
    pub fn sender(&self) -> Ipv4Addr {
        self.sender_ip.into()
    }

    /// The target's IP address.
    #[inline]
    pub fn target(&self) -> Ipv4Addr {
        self.target_ip.into()
    }
}

/// ARP operations.
pub mod arp_operation {
    /// Asks which host has this IP address.
    pub const REQUEST: u16 = 1;
    /// Answers a request.
    pub const REPLY: u16 = 2;
    /// Asks for the sender's own IP address (RFC 903).
    pub const REVERSE_REQUEST: u16 = 3;
    /// Answers a reverse request.
    pub const REVERSE_REPLY: u16 = 4;
    /// Asks which IP address belongs to this hardware address (RFC 2390).
    pub const INVERSE_REQUEST: u16 = 8;
    /// Answers an inverse request.
    pub const INVERSE_REPLY: u16 = 9;
}

//! ICMP (RFC 792) and ICMPv6 (RFC 4443).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Header, U16};

/// The first eight bytes of an ICMP message.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct IcmpHeader {
    /// The message's type (see [`icmp_type`]).
    pub kind: u8,
    /// The code, which refines the type.
    pub code: u8,
    /// Internet checksum of the whole message.
    pub checksum: U16,
    /// Depends on the type: identifier and sequence number, pointer, gateway address, MTU.
    pub rest: [u8; 4],
}

/// The first eight bytes of an ICMPv6 message. The layout is that of ICMP, but the types (see
/// [`icmpv6_type`]) differ, and the checksum covers a pseudo-header.
pub type Icmpv6Header = IcmpHeader;

impl IcmpHeader {
    /// The length in bytes of the fixed part of messages of a type: timestamps belong to it.
    pub fn len_of(kind: u8) -> usize {
        match kind {
            icmp_type::TIMESTAMP_REQUEST | icmp_type::TIMESTAMP_REPLY => 20,
            _ => Self::LEN,
        }
    }

    /// The identifier of an echo message.
    #[inline]
    pub fn id(&self) -> u16 {
        let [high, low, _, _] = self.rest;
        u16::from_be_bytes([high, low])
    }

    /// Sets the identifier of an echo message.
    #[inline]
    pub fn set_id(&mut self, id: u16) {
        let [_, _, c, d] = self.rest;
        let [a, b] = id.to_be_bytes();
        self.rest = [a, b, c, d];
    }

    /// The sequence number of an echo message; the next hop's MTU in "fragmentation needed" (RFC 1191).
    #[inline]
    pub fn sequence(&self) -> u16 {
        let [_, _, high, low] = self.rest;
        u16::from_be_bytes([high, low])
    }

    /// Sets the sequence number of an echo message, or the MTU of "fragmentation needed".
    #[inline]
    pub fn set_sequence(&mut self, sequence: u16) {
        let [a, b, _, _] = self.rest;
        let [c, d] = sequence.to_be_bytes();
        self.rest = [a, b, c, d];
    }
}

/// ICMP types.
pub mod icmp_type {
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 0;
    /// The destination cannot be reached.
    pub const UNREACHABLE: u8 = 3;
    /// Asks the sender to slow down.
    pub const SOURCE_QUENCH: u8 = 4;
    /// Names a better gateway.
    pub const REDIRECT: u8 = 5;
    /// Asks for an echo reply.
    pub const ECHO_REQUEST: u8 = 8;
    /// A router announces itself.
    pub const ROUTER_ADVERTISEMENT: u8 = 9;
    /// A host looks for routers.
    pub const ROUTER_SOLICITATION: u8 = 10;
    /// The TTL or the reassembly time expired.
    pub const TIME_EXCEEDED: u8 = 11;
    /// The header is invalid.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Asks for the time.
    pub const TIMESTAMP_REQUEST: u8 = 13;
    /// Answers a timestamp request.
    pub const TIMESTAMP_REPLY: u8 = 14;
    /// Asks for the network number.
    pub const INFORMATION_REQUEST: u8 = 15;
    /// Answers an information request.
    pub const INFORMATION_REPLY: u8 = 16;
    /// Asks for the network mask.
    pub const MASK_REQUEST: u8 = 17;
    /// Answers a mask request.
    pub const MASK_REPLY: u8 = 18;
}

/// ICMPv6 types.
pub mod icmpv6_type {
    /// The destination cannot be reached.
    pub const UNREACHABLE: u8 = 1;
    /// The packet is larger than the next link's MTU.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// The hop limit or the reassembly time expired.
    pub const TIME_EXCEEDED: u8 = 3;
    /// The header is invalid.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Asks for an echo reply.
    pub const ECHO_REQUEST: u8 = 128;
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 129;
    /// A host looks for routers (RFC 4861).
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// A router announces itself.
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Asks for the link-layer address of a neighbour.
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    /// Answers a neighbour solicitation.
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
    /// Names a better router.
    pub const REDIRECT: u8 = 137;
}

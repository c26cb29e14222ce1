//! Protocol headers as views on a packet's bytes.
//!
//! A header is a struct with the header's exact layout; [`Header::view`] interprets bytes as that struct,
//! without copying. Fields longer than a byte are [`U16`], [`U32`]: `get` and `set` convert from and to
//! network order. A view exists only if all its bytes do, so no accessor can panic. The caller must check
//! that a length *field* is valid, with the methods that use one (`Ipv4Header::split`) or by hand.
//!
//! ```
//! use millrace_core::headers::{EthernetHeader, Header, Ipv4Header, ether_type};
//!
//! let mut frame = [0u8; 34];
//! if let Some((ethernet, rest)) = EthernetHeader::view_mut(&mut frame) {
//!     ethernet.ether_type.set(ether_type::IPV4);
//!     if let Some((ip, _)) = Ipv4Header::view_mut(rest) {
//!         ip.ttl = 64;
//!     }
//! }
//! assert_eq!(frame[12..14], [0x08, 0x00]);
//! assert!(Ipv4Header::view(&frame[..19]).is_none());
//! ```

mod arp;
pub mod dissect;
mod ethernet;
mod icmp;
mod ipv4;
mod ipv6;
mod options;
mod tcp;
mod transport;
mod udp;

pub use arp::{ArpHeader, arp_operation};
pub use ethernet::{EthernetHeader, VlanHeader, ether_type};
pub use icmp::{IcmpHeader, Icmpv6Header, icmp_type, icmpv6_type};
pub use ipv4::{Ipv4Header, ipv4_option};
pub use ipv6::{Ipv6Extension, Ipv6Extensions, Ipv6FragmentHeader, Ipv6Header};
pub use options::{HeaderOption, Options};
pub use tcp::{TcpHeader, tcp_flags, tcp_option};
pub use transport::{ports, transport_header_len};
pub use udp::UdpHeader;
pub use zerocopy::big_endian::{U16, U32};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A protocol header of fixed layout.
pub trait Header: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Sized {
    /// Bytes of the header without options.
    const LEN: usize = size_of::<Self>();

    /// The header at the start of `bytes`, and the bytes after it; `None` when there are too few bytes.
    #[inline(always)]
    fn view(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        Self::ref_from_prefix(bytes).ok()
    }

    /// Like [`view`](Header::view), for writing.
    #[inline(always)]
    fn view_mut(bytes: &mut [u8]) -> Option<(&mut Self, &mut [u8])> {
        Self::mut_from_prefix(bytes).ok()
    }
}

impl<T: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned> Header for T {}

/// Numbers of the protocols above IP (IANA "Assigned Internet Protocol Numbers").
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IGMP.
    pub const IGMP: u8 = 2;
    /// IPv4 in IP.
    pub const IPIP: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// IPv6 in IP.
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// GRE.
    pub const GRE: u8 = 47;
    /// Encapsulating security payload.
    pub const ESP: u8 = 50;
    /// Authentication header.
    pub const AH: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6: nothing follows.
    pub const NO_NEXT_HEADER: u8 = 59;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// OSPF.
    pub const OSPF: u8 = 89;
    /// PIM.
    pub const PIM: u8 = 103;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;

    /// Whether the protocol's header begins with a source and a destination port.
    #[inline(always)]
    pub fn has_ports(protocol: u8) -> bool {
        matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
    }
}

#[cfg(test)]
mod tests;

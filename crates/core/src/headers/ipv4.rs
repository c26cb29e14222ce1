//! IPv4 (RFC 791) and its options.

use std::net::Ipv4Addr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Header, Options, U16, transport_header_len};
use crate::checksum;

/// An IPv4 header without options.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv4Header {
    /// Version (4 bits) and header length in units of 4 bytes.
    pub version_ihl: u8,
    /// Type of service: DSCP (6 bits) and ECN.
    pub tos: u8,
    /// Bytes of header and payload.
    pub total_len: U16,
    /// The same for all fragments of a datagram.
    pub id: U16,
    /// Flags (3 bits) and fragment offset in units of 8 bytes.
    pub flags_fragment: U16,
    /// Remaining hops.
    pub ttl: u8,
    /// The protocol of the payload (see [`protocol`](super::protocol)).
    pub protocol: u8,
    /// Internet checksum of the header.
    pub checksum: U16,
    /// The source address, in network order.
    pub src: [u8; 4],
    /// The destination address, in network order.
    pub dst: [u8; 4],
}

impl Ipv4Header {
    /// Flag: reserved, must be zero.
    pub const RESERVED: u16 = 0x8000;
    /// Flag: do not fragment.
    pub const DONT_FRAGMENT: u16 = 0x4000;
    /// Flag: more fragments follow.
    pub const MORE_FRAGMENTS: u16 = 0x2000;
    /// The bits of the fragment offset.
    pub const OFFSET_MASK: u16 = 0x1fff;
    /// Bytes of the longest header.
    pub const MAX_LEN: usize = 60;

    /// The IP version; 4 for a valid header.
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Length of the header with options in bytes, from its length field: 0 to 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl & 0xf) * 4
    }

    /// Sets version 4 and the header's length in bytes, a multiple of 4 up to 60.
    #[inline]
    pub fn set_header_len(&mut self, bytes: usize) {
        self.version_ihl = 0x40 | ((bytes / 4) as u8 & 0xf);
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        self.src.into()
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        self.dst.into()
    }

    /// The differentiated-services code point.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// The congestion bits.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// The offset of this fragment's payload in the datagram, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.flags_fragment.get() & Ipv4Header::OFFSET_MASK) * 8
    }

    /// Whether the datagram must not be fragmented.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_fragment.get() & Ipv4Header::DONT_FRAGMENT != 0
    }

    /// Whether fragments follow this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_fragment.get() & Ipv4Header::MORE_FRAGMENTS != 0
    }

    /// Whether this is one of several fragments.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_fragment.get() & (Ipv4Header::MORE_FRAGMENTS | Ipv4Header::OFFSET_MASK) != 0
    }

    /// Whether this is a whole datagram or the fragment with the transport header.
    #[inline]
    pub fn is_first_fragment(&self) -> bool {
        self.flags_fragment.get() & Ipv4Header::OFFSET_MASK == 0
    }

    /// The transport header and all that follows it, in a packet that begins with this IP header. `None` for later
    /// fragments, which have no transport header, and for a packet that ends before.
    #[inline(always)]
    pub fn transport<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        if self.is_first_fragment() { packet.get(self.header_len()..) } else { None }
    }

    /// Bytes of the IP header and the TCP or UDP header, in a packet that begins with this IP header. Bytes of the IP
    /// header alone for other protocols, for later fragments, and if the transport header is truncated.
    #[inline]
    pub fn headers_len(&self, packet: &[u8]) -> usize {
        let transport = self.transport(packet);
        let behind = transport.and_then(|bytes| transport_header_len(self.protocol, bytes));
        self.header_len() + behind.unwrap_or(0)
    }

    /// Header, options and payload of the datagram at the start of `bytes`, without link-layer padding.
    /// `None` unless version, header length and total length are consistent with each other and with `bytes`.
    pub fn split(bytes: &[u8]) -> Option<(&Ipv4Header, Options<'_>, &[u8])> {
        let (header, _) = Ipv4Header::view(bytes)?;
        if header.version() != 4 {
            return None;
        }
        let datagram = bytes.get(..usize::from(header.total_len.get()))?;
        let (whole, payload) = datagram.split_at_checked(header.header_len())?;
        let options = whole.get(Ipv4Header::LEN..)?;
        Some((header, Options::new(options), payload))
    }

    /// Computes the checksum of the header (with options) at the start of `bytes` and stores it. Returns
    /// false, and changes nothing, when there is no complete header.
    pub fn fill_checksum(bytes: &mut [u8]) -> bool {
        let Some((header, _)) = Ipv4Header::view(bytes) else { return false };
        let len = header.header_len();
        if len < Ipv4Header::LEN || len > bytes.len() {
            return false;
        }
        if let Some((header, _)) = Ipv4Header::view_mut(bytes) {
            header.checksum.set(0);
        }
        let sum = checksum::checksum(bytes.get(..len).unwrap_or_default());
        if let Some((header, _)) = Ipv4Header::view_mut(bytes) {
            header.checksum.set(sum);
        }
        true
    }

    /// Sets the type of service, and updates the checksum.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        let word = |tos| u16::from_be_bytes([self.version_ihl, tos]);
        let sum = checksum::update(self.checksum.get(), word(self.tos), word(tos));
        self.tos = tos;
        self.checksum.set(sum);
    }

    /// Whether the header has at most the 20 bytes without options.
    #[inline(always)]
    pub fn has_no_options(&self) -> bool {
        self.version_ihl & 0xf <= 5
    }

    /// Decrements a TTL that is not zero, and updates the checksum (RFC 1624, equation 3).
    #[inline(always)]
    pub fn decrement_ttl(&mut self) {
        let Some(ttl) = self.ttl.checked_sub(1) else { return };
        self.ttl = ttl;
        // The word of TTL and protocol has become 0x0100 less, so its complement has become as much more. The carry
        // comes in at the other end, also when it would make all ones. Sums may be made in any order of bytes.
        const CHANGE: u16 = 0x0100u16.to_be();
        let old = u16::from_ne_bytes(self.checksum.to_bytes());
        let new = old.wrapping_add(CHANGE).wrapping_add(u16::from(old >= !CHANGE));
        self.checksum = U16::from_bytes(new.to_ne_bytes());
    }
}

/// IPv4 option kinds (RFC 791, RFC 2113).
pub mod ipv4_option {
    /// End of the options.
    pub const END: u8 = 0;
    /// Padding.
    pub const NO_OPERATION: u8 = 1;
    /// Record route.
    pub const RECORD_ROUTE: u8 = 7;
    /// Internet timestamp.
    pub const TIMESTAMP: u8 = 68;
    /// Security.
    pub const SECURITY: u8 = 130;
    /// Loose source routing.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Stream identifier.
    pub const STREAM_ID: u8 = 136;
    /// Strict source routing.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router alert.
    pub const ROUTER_ALERT: u8 = 148;
    /// The bit for options that are copied into all fragments.
    pub const COPIED: u8 = 0x80;
}

//! IPv6 (RFC 8200) and its extension headers.

use std::net::Ipv6Addr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Header, U16, U32, protocol};

/// An IPv6 header.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv6Header {
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    pub version_class_flow: U32,
    /// Bytes after this header.
    pub payload_len: U16,
    /// The protocol of the payload (see [`protocol`]).
    pub next_header: u8,
    /// Remaining hops.
    pub hop_limit: u8,
    /// The source address, in network order.
    pub src: [u8; 16],
    /// The destination address, in network order.
    pub dst: [u8; 16],
}

impl Ipv6Header {
    /// The IP version; 6 for a valid header.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }

    /// The traffic class: DSCP (6 bits) and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// The flow label.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0xf_ffff
    }

    /// Sets version 6, traffic class and flow label (its low 20 bits).
    #[inline]
    pub fn set_version_class_flow(&mut self, traffic_class: u8, flow_label: u32) {
        let class = u32::from(traffic_class) << 20;
        self.version_class_flow.set(6 << 28 | class | (flow_label & 0xf_ffff));
    }

    /// The source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        self.src.into()
    }

    /// The destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        self.dst.into()
    }

    /// Header and payload of the packet at the start of `bytes`, without link-layer padding. `None` unless
    /// version and payload length are consistent with `bytes`.
    pub fn split(bytes: &[u8]) -> Option<(&Ipv6Header, &[u8])> {
        let (header, rest) = Ipv6Header::view(bytes)?;
        if header.version() != 6 {
            return None;
        }
        Some((header, rest.get(..usize::from(header.payload_len.get()))?))
    }

    /// The extension headers in the payload that follows this header.
    pub fn extensions<'a>(&self, payload: &'a [u8]) -> Ipv6Extensions<'a> {
        Ipv6Extensions { next_header: self.next_header, offset: 0, payload }
    }
}

/// Walks the extension headers between an IPv6 header and the upper layer. It stops at the first header that
/// is not an extension, and at one that is truncated; [`reached`](Ipv6Extensions::reached) then returns its
/// position. What follows the fragment header of a later fragment is not a header, though it may look like
/// one: [`upper`](Ipv6Extensions::upper) checks for that.
#[derive(Clone, Debug)]
pub struct Ipv6Extensions<'a> {
    next_header: u8,
    offset: usize,
    payload: &'a [u8],
}

/// One extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6Extension<'a> {
    /// Its number (see [`protocol`]).
    pub kind: u8,
    /// Its offset in the payload.
    pub offset: usize,
    /// All of its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Ipv6Extensions<'a> {
    /// Walks to the end: the upper layer's protocol and its offset in the payload. `None` when an extension
    /// header is truncated or the upper layer's header is in another fragment.
    pub fn upper(mut self) -> Option<(u8, usize)> {
        for extension in self.by_ref() {
            if let Some((fragment, _)) = extension.fragment()
                && fragment.offset() > 0
            {
                return None;
            }
        }
        (!is_extension(self.next_header)).then_some((self.next_header, self.offset))
    }

    /// The number of the header that the walk has reached, and its offset in the payload.
    pub fn reached(&self) -> (u8, usize) {
        (self.next_header, self.offset)
    }
}

impl<'a> Iterator for Ipv6Extensions<'a> {
    type Item = Ipv6Extension<'a>;

    fn next(&mut self) -> Option<Ipv6Extension<'a>> {
        if !is_extension(self.next_header) {
            return None;
        }
        let rest = self.payload.get(self.offset..)?;
        let len = match (self.next_header, rest.get(1)?) {
            (protocol::FRAGMENT, _) => Ipv6FragmentHeader::LEN,
            (protocol::AH, len) => (usize::from(*len) + 2) * 4,
            (_, len) => (usize::from(*len) + 1) * 8,
        };
        let bytes = rest.get(..len)?;
        let extension = Ipv6Extension { kind: self.next_header, offset: self.offset, bytes };
        self.next_header = *bytes.first()?;
        self.offset += len;
        Some(extension)
    }
}

impl<'a> Ipv6Extension<'a> {
    /// The extension as a fragment header, if it is one.
    pub fn fragment(&self) -> Option<(&'a Ipv6FragmentHeader, &'a [u8])> {
        if self.kind != protocol::FRAGMENT {
            return None;
        }
        Ipv6FragmentHeader::view(self.bytes)
    }
}

fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AH
            | protocol::DESTINATION_OPTIONS
    )
}

/// An IPv6 fragment header.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv6FragmentHeader {
    /// The protocol of the payload in the unfragmented packet.
    pub next_header: u8,
    /// Reserved.
    pub reserved: u8,
    /// Offset in units of 8 bytes (13 bits), reserved (2 bits), more-fragments bit.
    pub offset_more: U16,
    /// The same for all fragments of a packet.
    pub id: U32,
}

impl Ipv6FragmentHeader {
    /// The offset of this fragment, in bytes.
    #[inline]
    pub fn offset(&self) -> usize {
        usize::from(self.offset_more.get() & 0xfff8)
    }

    /// Whether fragments follow this one.
    #[inline]
    pub fn more(&self) -> bool {
        self.offset_more.get() & 1 != 0
    }
}

//! UDP (RFC 768).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Header, U16};

/// A UDP header.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct UdpHeader {
    /// The source port.
    pub src_port: U16,
    /// The destination port.
    pub dst_port: U16,
    /// Bytes of header and payload.
    pub len: U16,
    /// Internet checksum of pseudo-header, header and payload; 0 when the sender computed none.
    pub checksum: U16,
}

impl UdpHeader {
    /// Header and payload of the datagram at the start of `bytes`. `None` when the length field is invalid.
    pub fn split(bytes: &[u8]) -> Option<(&UdpHeader, &[u8])> {
        let (header, _) = UdpHeader::view(bytes)?;
        let payload = bytes.get(UdpHeader::LEN..usize::from(header.len.get()))?;
        Some((header, payload))
    }
}

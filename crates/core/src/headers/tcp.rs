//! TCP (RFC 9293) and its options.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Header, Options, U16, U32};

/// A TCP header without options.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct TcpHeader {
    /// The source port.
    pub src_port: U16,
    /// The destination port.
    pub dst_port: U16,
    /// The sequence number of the first byte.
    pub sequence: U32,
    /// The next byte that the sender expects.
    pub acknowledgment: U32,
    /// Header length in units of 4 bytes (4 bits), reserved (4 bits).
    pub data_offset: u8,
    /// Control bits (see [`tcp_flags`]).
    pub flags: u8,
    /// Bytes that the sender is ready to receive, before scaling.
    pub window: U16,
    /// Internet checksum of pseudo-header, header and payload.
    pub checksum: U16,
    /// The offset of the end of the urgent data.
    pub urgent: U16,
}

impl TcpHeader {
    /// Length of the header with options in bytes, from its length field: 0 to 60.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.data_offset >> 4) * 4
    }

    /// Header, options and payload of the segment in `bytes`. `None` when the header length is invalid.
    pub fn split(bytes: &[u8]) -> Option<(&TcpHeader, Options<'_>, &[u8])> {
        let (header, _) = TcpHeader::view(bytes)?;
        let (whole, payload) = bytes.split_at_checked(header.header_len())?;
        let options = whole.get(TcpHeader::LEN..)?;
        Some((header, Options::new(options), payload))
    }
}

/// TCP control bits.
pub mod tcp_flags {
    /// The sender sends no more data.
    pub const FIN: u8 = 0x01;
    /// Opens the connection.
    pub const SYN: u8 = 0x02;
    /// Resets the connection.
    pub const RST: u8 = 0x04;
    /// Asks the receiver to pass on the data at once.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number is valid.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u8 = 0x20;
    /// Congestion was experienced (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// The congestion window was reduced.
    pub const CWR: u8 = 0x80;
}

/// TCP option kinds.
pub mod tcp_option {
    /// End of the options.
    pub const END: u8 = 0;
    /// Padding.
    pub const NO_OPERATION: u8 = 1;
    /// Maximum segment size.
    pub const MAXIMUM_SEGMENT_SIZE: u8 = 2;
    /// Window scale (RFC 7323).
    pub const WINDOW_SCALE: u8 = 3;
    /// Selective acknowledgment permitted (RFC 2018).
    pub const SACK_PERMITTED: u8 = 4;
    /// Selective acknowledgment.
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323).
    pub const TIMESTAMPS: u8 = 8;
}

//! What transport headers have in common.

use super::{Header, TcpHeader, UdpHeader, protocol};

/// Source and destination port at the start of a transport header; whether the protocol has ports is for the
/// caller to check ([`protocol::has_ports`]).
#[inline(always)]
pub fn ports(transport: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = transport.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Bytes of the TCP or UDP header that `transport` begins with, as its length field says. None for other protocols
/// and for a TCP header that is cut off.
#[inline]
pub fn transport_header_len(protocol: u8, transport: &[u8]) -> Option<usize> {
    match protocol {
        protocol::TCP => TcpHeader::view(transport).map(|(tcp, _)| tcp.header_len()),
        protocol::UDP => Some(UdpHeader::LEN),
        _ => None,
    }
}

//! The common parts of transport headers.

use super::{Header, TcpHeader, UdpHeader, protocol};

/// The source and destination ports at the start of a transport header. The caller checks that the protocol has
/// ports ([`protocol::has_ports`]).
#[inline(always)]
pub fn ports(transport: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = transport.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Bytes of the TCP or UDP header at the start of `transport`, by its length field. `None` for other protocols and
/// for a truncated TCP header.
#[inline]
pub fn transport_header_len(protocol: u8, transport: &[u8]) -> Option<usize> {
    match protocol {
        protocol::TCP => TcpHeader::view(transport).map(|(tcp, _)| tcp.header_len()),
        protocol::UDP => Some(UdpHeader::LEN),
        _ => None,
    }
}

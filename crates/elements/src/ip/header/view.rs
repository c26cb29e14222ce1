//! Access to a packet's IP header, and to the other fields that transport checksums cover.

use std::net::Ipv4Addr;

use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, Ipv4Header, Options, ipv4_option};
use millrace_core::{Packet, Reason, View, Way};

/// The IP header of a packet; `None` if it has none.
#[inline(always)]
pub fn network_header(packet: &Packet) -> Option<&Ipv4Header> {
    Some(Ipv4Header::view(packet.network_data()?)?.0)
}

/// The IP header of a packet, for writing; `None` if it has none.
#[inline(always)]
pub fn network_header_mut(packet: &mut Packet) -> Option<&mut Ipv4Header> {
    // Don't copy a packet without the header.
    network_header(packet)?;
    Some(Ipv4Header::view_mut(packet.network_data_mut()?)?.0)
}

/// Makes a packet begin with a header that was stripped from it; `header` is where it is.
#[inline(always)]
pub fn unstrip_to(packet: &mut View, header: Option<isize>) -> Way {
    match header {
        Some(0..) => Way::ON,
        Some(offset) if packet.unstrip(offset.unsigned_abs()) => Way::ON,
        _ => Way::drop(Reason::NoHeader),
    }
}

/// Exchanges the ports at the beginning of a TCP or UDP header; both have at least eight bytes.
#[inline(always)]
pub fn swap_ports(transport: &mut [u8]) {
    if let Some([a, b, c, d, ..]) = transport.first_chunk_mut::<8>() {
        std::mem::swap(a, c);
        std::mem::swap(b, d);
    }
}

/// The sum of the pseudo-header of a packet whose transport header and data have `len` bytes. With a source route, the
/// final destination is used (RFC 1122, 3.2.1.8).
#[inline]
pub fn pseudo_header(packet: &Packet, len: u16) -> Sum {
    let Some(bytes) = packet.network_data() else { return Sum::of(&[]) };
    let Some((ip, behind)) = Ipv4Header::view(bytes) else { return Sum::of(&[]) };
    let destination = match ip.header_len() {
        0..=Ipv4Header::LEN => ip.destination(),
        len => {
            behind.get(..len - Ipv4Header::LEN).and_then(end_of_route).unwrap_or(ip.destination())
        }
    };
    Sum::of_pseudo_v4(ip.source(), destination, ip.protocol, len)
}

/// The final destination of a source route, unless the packet has already reached it.
#[cold]
fn end_of_route(options: &[u8]) -> Option<Ipv4Addr> {
    let route = Options::new(options).map_while(Result::ok).find(|option| {
        matches!(option.kind, ipv4_option::LOOSE_SOURCE_ROUTE | ipv4_option::STRICT_SOURCE_ROUTE)
    })?;
    let pointer = usize::from(*route.bytes.get(2)?);
    let end = route.bytes.last_chunk::<4>()?;
    (pointer >= 4 && pointer + 3 <= route.bytes.len()).then(|| Ipv4Addr::from(*end))
}

//! What is left undone of packets about which nothing is told: AF_XDP gives bytes alone.

use millrace_core::Packet;
use millrace_core::checksum::Sum;

use super::{Layout, Link, Offload, Segments, TCP, be16, put};

/// Fills in the checksum of a packet of TCP or UDP whose field holds the sum of the pseudo-header, as
/// the kernel leaves it to a device that would do the rest.
///
/// Where a packet's right checksum happens to be that sum, nothing changes: what is filled in is the
/// right checksum.
pub(crate) fn complete_partial(packet: &mut Packet) {
    let Some(layout) = Layout::of(Link::Ethernet, packet.data()) else { return };
    let Some((field, end)) = partial(packet.data(), &layout) else { return };
    let frame = packet.data_mut();
    let Some(covered) = frame.get_mut(layout.transport..end) else { return };
    let sum = Sum::of(covered);
    let value = if layout.protocol == TCP { sum.finish() } else { sum.finish_udp() };
    put(covered, field, value.to_be_bytes());
}

/// Where the checksum field is, from the transport header on, and where the packet ends, if the
/// checksum is unfinished.
fn partial(frame: &[u8], layout: &Layout) -> Option<(usize, usize)> {
    let end = layout.network
        + if layout.is_ipv6 {
            40 + usize::from(be16(frame, layout.network + 4)?)
        } else {
            const FRAGMENT: u16 = 0x3fff;
            if be16(frame, layout.network + 6)? & FRAGMENT != 0 {
                return None;
            }
            usize::from(be16(frame, layout.network + 2)?)
        };
    let length = end.checked_sub(layout.transport)?;
    let field = if layout.protocol == TCP { 16 } else { 6 };
    let found = be16(frame, layout.transport + field)?;
    // The field holds the sum itself, where a finished one holds its complement.
    let is_partial = end <= frame.len() && found == !layout.pseudo_sum(frame, length).finish();
    is_partial.then_some((field, end))
}

/// How to cut a TCP segment so that frames of `limit` bytes hold its parts, about which the sender may
/// have thought otherwise. None for what cannot be cut.
pub(crate) fn cut_within(packet: &Packet, limit: usize) -> Option<Offload> {
    let layout = Layout::of(Link::Ethernet, packet.data())?;
    let headers = layout.payload - layout.network;
    const ETHERNET_HEADER: usize = 14;
    let size = limit.checked_sub(ETHERNET_HEADER + headers).filter(|size| *size > 0)?;
    let segments = Some(Segments::Of(size));
    (layout.protocol == TCP).then_some(Offload { link: Link::Ethernet, checksum: None, segments })
}

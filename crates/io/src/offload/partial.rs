//! The work that is left for packets without any information: AF_XDP provides only bytes.

use millrace_core::Packet;
use millrace_core::checksum::Sum;

use super::{Layout, Link, Offload, Segments, TCP, be16, put};

/// Fills in the checksum of a TCP or UDP packet whose field contains the sum of the pseudo-header, which the
/// kernel leaves there for a device that would do the rest.
///
/// If a packet's correct checksum happens to be that sum, nothing changes: the value filled in is the correct
/// checksum.
pub(crate) fn complete_partial(packet: &mut Packet) {
    let Some(layout) = Layout::of(Link::Ethernet, packet.data()) else { return };
    let Some((field, end)) = partial(packet.data(), &layout) else { return };
    let frame = packet.data_mut();
    let Some(covered) = frame.get_mut(layout.transport..end) else { return };
    let sum = Sum::of(covered);
    let value = if layout.protocol == TCP { sum.finish() } else { sum.finish_udp() };
    put(covered, field, value.to_be_bytes());
}

/// The offset of the checksum field from the transport header, and the end of the packet, if the checksum is
/// unfinished.
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

/// How to cut a TCP segment so that its parts fit in frames of `limit` bytes, whatever size the sender
/// intended. `None` if it cannot be cut.
pub(crate) fn cut_within(packet: &Packet, limit: usize) -> Option<Offload> {
    let layout = Layout::of(Link::Ethernet, packet.data())?;
    let headers = layout.payload - layout.network;
    const ETHERNET_HEADER: usize = 14;
    let size = limit.checked_sub(ETHERNET_HEADER + headers).filter(|size| *size > 0)?;
    let segments = Some(Segments::Of(size));
    (layout.protocol == TCP).then_some(Offload { link: Link::Ethernet, checksum: None, segments })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame of TCP or UDP over IPv4 or IPv6 whose checksum is finished, and the position of the checksum.
    fn finished(is_ipv6: bool, is_tcp: bool, bytes: &[u8]) -> (Vec<u8>, usize) {
        let (header, field) = if is_tcp { (20, 16) } else { (8, 6) };
        let length = header + bytes.len();
        let mut frame = vec![2; 12];
        if is_ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((length as u16).to_be_bytes());
            frame.extend([if is_tcp { 6 } else { 17 }, 64]);
            frame.extend([0x20; 32]);
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + length as u16).to_be_bytes());
            frame.extend([0, 1, 0x40, 0, 64, if is_tcp { 6 } else { 17 }, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        }
        let transport = frame.len();
        frame.extend([0x12; 4]);
        frame.resize(transport + header, 0);
        if is_tcp {
            frame[transport + 12] = 0x50;
        } else {
            frame[transport + 4..][..2].copy_from_slice(&(length as u16).to_be_bytes());
        }
        frame.extend(bytes);
        let layout = Layout::of(Link::Ethernet, &frame).unwrap();
        let sum = layout.pseudo_sum(&frame, length).add_bytes(&frame[transport..]);
        let value = if is_tcp { sum.finish() } else { sum.finish_udp() };
        frame[transport + field..][..2].copy_from_slice(&value.to_be_bytes());
        (frame, transport + field)
    }

    fn completed(frame: &[u8]) -> Vec<u8> {
        let mut packet = Packet::from_bytes(frame).unwrap();
        complete_partial(&mut packet);
        packet.data().to_vec()
    }

    proptest! {
        #[test]
        fn what_the_kernel_leaves_is_finished_and_nothing_else_changes(
            is_ipv6: bool,
            is_tcp: bool,
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            padding in 0usize..20,
            wrong: u16,
        ) {
            let (mut frame, field) = finished(is_ipv6, is_tcp, &bytes);
            let length = frame.len();
            frame.resize(length + padding, 0xaa);
            prop_assert_eq!(&completed(&frame), &frame);

            let layout = Layout::of(Link::Ethernet, &frame).unwrap();
            let pseudo = !layout.pseudo_sum(&frame, length - layout.transport).finish();
            let mut partial = frame.clone();
            partial[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
            prop_assert_eq!(&completed(&partial), &frame);

            let mut other = frame.clone();
            other[field..field + 2].copy_from_slice(&wrong.to_be_bytes());
            if wrong != pseudo {
                prop_assert_eq!(&completed(&other), &other);
            }
        }

        #[test]
        fn anything_is_withstood(bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 0..3) {
            let mut frame = bytes;
            if let Some(ether_type) = frame.get_mut(12..15) {
                ether_type.copy_from_slice(&[[8, 0, 0x45], [0x86, 0xdd, 0x60], [0x81, 0, 0]][kind as usize]);
            }
            prop_assert_eq!(completed(&frame).len(), frame.len());
            cut_within(&Packet::from_bytes(&frame).unwrap(), 60);
        }
    }

    #[test]
    fn tcp_alone_is_cut_to_the_mtu() {
        let cut =
            |frame: &[u8], limit| cut_within(&Packet::from_bytes(frame).unwrap(), limit)?.segments;
        let (tcp, _) = finished(false, true, &[1; 3000]);
        assert_eq!(cut(&tcp, 1514), Some(Segments::Of(1460)));
        let (tcp, _) = finished(true, true, &[1; 3000]);
        assert_eq!(cut(&tcp, 1514), Some(Segments::Of(1440)));
        assert_eq!(cut(&tcp, 74), None);
        let (udp, _) = finished(false, false, &[1; 3000]);
        assert_eq!(cut(&udp, 1514), None);
    }
}

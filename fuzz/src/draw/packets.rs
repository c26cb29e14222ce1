//! Packets that somebody might send to do harm: nearly right ones of every protocol, with bytes changed, cut short, with
//! annotations that may be wrong, shared, and with little room; and any bytes at all.

use arbitrary::Unstructured;
use fastrand::Rng;
use millrace_core::checksum::checksum;
use millrace_core::{Packet, PacketType, Timestamp};

use super::{below, rarely};

#[path = "../../../crates/elements/tests/support/hostile.rs"]
mod hostile;

/// Packets that arrive together.
pub(crate) type Burst = Vec<Packet>;

/// The bytes of a packet.
pub(crate) fn frame(input: &mut Unstructured<'_>) -> Vec<u8> {
    if rarely(input, 8) {
        let length = below(input, 256).min(input.len());
        return input.bytes(length).unwrap_or_default().to_vec();
    }
    let seed: u16 = input.arbitrary().unwrap_or_default();
    let mut frame = hostile::frame(&mut Rng::with_seed(seed.into()));
    for _ in 0..below(input, 4) {
        let (at, byte) = (below(input, frame.len().min(128)), input.arbitrary());
        if let (Some(place), Ok(byte)) = (frame.get_mut(at), byte) {
            *place = byte;
        }
    }
    // What was changed passes the first check.
    let start = if frame.get(12..14) == Some(&[8, 0]) { 14 } else { 0 };
    if let Some(header) = frame.get_mut(start..start + 20)
        && header[0] == 0x45
        && !rarely(input, 4)
    {
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// Packets that arrive together: some, and at times more than a batch holds.
pub(crate) fn burst(input: &mut Unstructured<'_>) -> Burst {
    let mut packets: Burst = (0..=below(input, 6)).filter_map(|_| packet(input)).collect();
    if rarely(input, 8) {
        let copies = packets.iter().cycle().take(below(input, 600));
        let copies: Vec<Packet> = copies.filter_map(Packet::share).collect();
        packets.extend(copies);
    }
    packets
}

/// A packet, with what comes with its bytes.
fn packet(input: &mut Unstructured<'_>) -> Option<Packet> {
    let bytes = frame(input);
    let mut packet = match below(input, 8) {
        7 => {
            let mut packet = Packet::with_room(below(input, 40), bytes.len(), below(input, 8))?;
            packet.data_mut().copy_from_slice(&bytes);
            packet
        }
        _ => Packet::from_bytes(&bytes)?,
    };
    let marks: u16 = input.arbitrary().unwrap_or_default();
    let is_marked = |bit: u16| marks >> bit & 1 == 1;
    if is_marked(0) {
        packet.set_network_header(below(input, 64) as isize, below(input, 80));
    }
    if is_marked(1) {
        packet.set_mac_header(below(input, 40) as isize);
    }
    if is_marked(2) {
        packet.set_dst_ip(input.arbitrary::<u32>().unwrap_or_default().into());
    }
    if is_marked(3) {
        packet.set_dst_ip6(input.arbitrary::<u128>().unwrap_or_default().into());
    }
    if is_marked(4) {
        packet.set_paint(below(input, 256) as u8);
        packet.set_aggregate(input.arbitrary().unwrap_or_default());
    }
    if is_marked(5) {
        packet.set_packet_type(PacketType::Broadcast);
    }
    packet.set_fix_ip_src(is_marked(6));
    if is_marked(7) {
        packet.set_icmp_param_prob(below(input, 256) as u8);
    }
    if is_marked(8) {
        packet.set_timestamp(Timestamp::from_nanos(input.arbitrary().unwrap_or_default()));
    }
    if is_marked(9) {
        let at = below(input, 44);
        packet.set_anno_u32(at, input.arbitrary().unwrap_or_default());
    }
    Some(packet)
}

//! What a packet begins with, as far as it tells.

use millrace_core::Packet;
use millrace_core::checksum;
use millrace_io::pcap::LinkType;

/// The link type of a packet's data. Its annotations say where its headers are; where they do not, the bytes must be a
/// whole IP packet to be taken for one.
pub(super) fn link_of(packet: &Packet) -> LinkType {
    let data = packet.data();
    let is_ip = match (packet.mac_header(), packet.network_header()) {
        (_, Some(0)) => matches!(data.first().map(|byte| byte >> 4), Some(4 | 6)),
        (Some(0), _) | (_, Some(1..)) => false,
        _ => is_whole_ip(data),
    };
    if is_ip { LinkType::IP } else { LinkType::ETHER }
}

/// Whether bytes are an IP packet with a right header.
fn is_whole_ip(data: &[u8]) -> bool {
    let word = |at: usize| {
        data.get(at..at + 2).map_or(0, |bytes| usize::from(bytes[0]) << 8 | usize::from(bytes[1]))
    };
    match data.first() {
        Some(first @ 0x45..=0x4f) => {
            let header = usize::from(first & 15) * 4;
            let right = data.get(..header).is_some_and(checksum::verify);
            right && (header..=data.len()).contains(&word(2))
        }
        Some(0x60..=0x6f) => data.len() >= 40 && word(4) + 40 <= data.len(),
        _ => false,
    }
}

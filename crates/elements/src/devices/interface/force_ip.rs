//! FORCE_IP: finds the IP header of a packet behind any link header.

use millrace_core::Packet;
use millrace_io::pcap::LinkType;

/// Sets the network header of a packet whose first header is of type `link_type`. Returns false and
/// sets nothing if no complete IPv4 or IPv6 header follows.
pub(crate) fn force_ip(packet: &mut Packet, link_type: LinkType) -> bool {
    let Some(offset) = link_type.ip_offset(packet.data()) else { return false };
    let Some(length) = packet.data().get(offset..).and_then(header_length) else { return false };
    let Ok(offset) = isize::try_from(offset) else { return false };
    packet.set_network_header(offset, length);
    true
}

/// The length of the IP header at the start of `bytes`, if it is complete.
fn header_length(bytes: &[u8]) -> Option<usize> {
    const IPV6_LENGTH: usize = 40;
    let first = *bytes.first()?;
    let length = match first >> 4 {
        4 => {
            let length = usize::from(first & 0x0f) * 4;
            let total = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
            if length < 20 || usize::from(total) < length {
                return None;
            }
            length
        }
        6 => IPV6_LENGTH,
        _ => return None,
    };
    (length <= bytes.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_only_complete_headers() {
        let ipv4 = |first: u8, total: u8, length: usize| {
            let mut bytes = vec![0; length];
            bytes[0] = first;
            bytes[3] = total;
            bytes
        };
        let cases = [
            (ipv4(0x45, 20, 20), Some(20)),
            (ipv4(0x46, 24, 60), Some(24)),
            (ipv4(0x46, 24, 23), None),
            (ipv4(0x45, 19, 60), None),
            (ipv4(0x44, 20, 60), None),
            (ipv4(0x60, 0, 40), Some(40)),
            (ipv4(0x60, 0, 39), None),
            (ipv4(0x75, 20, 60), None),
            (vec![0x45], None),
            (vec![], None),
        ];
        for (bytes, transport) in cases {
            let mut packet = Packet::from_bytes(&bytes).unwrap();
            assert_eq!(force_ip(&mut packet, LinkType::IP), transport.is_some(), "{bytes:02x?}");
            assert_eq!(packet.transport_offset(), transport, "{bytes:02x?}");
        }
    }
}

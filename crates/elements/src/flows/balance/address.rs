//! Rewriting a packet's IP address.

use std::net::Ipv4Addr;

use millrace_core::View;
use millrace_core::headers::{Header, Ipv4Header};

use crate::flows::checksum::{update_transport, updated};

/// Which address to rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Source,
    Destination,
}

/// Writes an address into the IP header of a packet and updates the checksums that cover it. Returns false for a packet
/// without an IP header, which is unchanged.
pub(crate) fn write(packet: &mut View, which: Which, address: Ipv4Addr) -> bool {
    let whole = packet.network_data().and_then(Ipv4Header::view).map(|(ip, _)| ip.header_len());
    let Some(bytes) = packet.network_data_mut().filter(|_| whole.is_some()) else { return false };
    let Some((header, transport)) = bytes.split_at_mut_checked(whole.unwrap_or(0)) else {
        return false;
    };
    let Some(head) = header.first_chunk_mut::<20>() else { return false };
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = head;
    let place = match which {
        Which::Source => [s0, s1, s2, s3],
        Which::Destination => [d0, d1, d2, d3],
    };
    let mut old = [0; 4];
    for ((old, place), new) in old.iter_mut().zip(place).zip(address.octets()) {
        *old = std::mem::replace(place, new);
    }
    let sum = u64::from(!u32::from_be_bytes(old)) + u64::from(address.to_bits());
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let delta = ((sum & 0xffff) + (sum >> 16)) as u16;
    let checksum = u16::from_be_bytes([head[10], head[11]]);
    [head[10], head[11]] = updated(checksum, delta).to_be_bytes();
    if u16::from_be_bytes([head[6], head[7]]) & Ipv4Header::OFFSET_MASK == 0 {
        update_transport(head[9], transport, delta);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_core::Packet;
    use millrace_core::checksum::{self, Sum};

    #[test]
    fn checksums_remain_correct() {
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..500 {
            let [source, destination, new] = [(); 3].map(|()| Ipv4Addr::from(random.u32(..)));
            let mut bytes = vec![0x45, 0, 0, 30, 0, 1, 0, 0, 64, 17, 0, 0];
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            let start = [0, 53, 1, 2, 0, 10, 0, 0, random.u8(..), random.u8(..)];
            let sum = Sum::of_pseudo_v4(source, destination, 17, 10).add_bytes(&start).finish_udp();
            bytes.extend(start);
            bytes[26..28].copy_from_slice(&sum.to_be_bytes());
            assert!(Ipv4Header::fill_checksum(&mut bytes));
            for which in [Which::Source, Which::Destination] {
                let mut packet = Packet::from_bytes(&bytes).unwrap();
                packet.set_network_header(0, 20);
                let (packet, written) = packet.with_view(|packet| write(packet, which, new));
                assert!(written);
                let data = packet.data();
                assert!(checksum::verify(&data[..20]));
                let (from, to) = match which {
                    Which::Source => (new, destination),
                    Which::Destination => (source, new),
                };
                assert_eq!(Ipv4Header::view(data).unwrap().0.source(), from);
                assert!(Sum::of_pseudo_v4(from, to, 17, 10).add_bytes(&data[20..]).is_right());
            }
        }
    }
}

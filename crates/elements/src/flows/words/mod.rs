//! Words in packet data: finding and replacing them.

pub(crate) mod search;

use millrace_core::headers::{Header, Ipv4Header, protocol};
use millrace_core::{View, checksum};

/// The position of `word` in `bytes`.
pub(crate) fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    let (&first, rest) = word.split_first()?;
    let mut from = 0;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|&byte| byte == first)?;
        if bytes.get(at + 1..)?.starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// The start of a packet's payload: after its TCP or UDP header, after the IP header for another protocol, and at the
/// start of a packet without an IP header.
pub(crate) fn payload(packet: &View) -> usize {
    let Some(bytes) = packet.network_data() else { return 0 };
    let before = packet.len().saturating_sub(bytes.len());
    let Some((ip, _)) = Ipv4Header::view(bytes) else { return 0 };
    (before + ip.headers_len(bytes)).min(packet.len())
}

/// Replaces the `len` bytes at `at` with `new`; the packet's length may change.
pub(crate) fn replace(packet: &mut View, at: usize, len: usize, new: &[u8]) {
    let old = packet.len();
    let Some(end) = at.checked_add(len).filter(|&end| end <= old) else { return };
    if new.len() > len {
        packet.append(new.len() - len);
    }
    let moved = at + new.len();
    let data = packet.data_mut();
    if moved + (old - end) > data.len() {
        return;
    }
    data.copy_within(end..old, moved);
    if let Some(place) = data.get_mut(at..moved) {
        place.copy_from_slice(new);
    }
    packet.truncate(moved + (old - end));
}

/// Corrects the lengths and checksums in a packet's headers after its payload has grown by `grown` bytes.
pub(crate) fn make_headers_right(packet: &mut View, grown: i64) {
    let Some(bytes) = packet.network_data_mut() else { return };
    let Some((ip, _)) = Ipv4Header::view(bytes) else { return };
    let (source, destination) = (ip.source(), ip.destination());
    let (header, number, whole) = (ip.header_len(), ip.protocol, !ip.is_fragment());
    let field = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(<[u8]>::first_chunk).map(|field| u16::from_be_bytes(*field))
    };
    let set = |bytes: &mut [u8], at: usize, value: u16| {
        if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *place = value.to_be_bytes();
        }
    };
    let grow = |length: u16| u16::try_from(i64::from(length) + grown).unwrap_or(length);
    let length = grow(field(bytes, 2).unwrap_or_default());
    set(bytes, 2, length);
    Ipv4Header::fill_checksum(bytes);
    let end = usize::from(length).min(bytes.len());
    let Some(transport) = bytes.get_mut(header..end).filter(|_| whole) else { return };
    let sum_at = match number {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return,
    };
    let Some(sum) = field(transport, sum_at) else { return };
    if number == protocol::UDP {
        let length = grow(field(transport, 4).unwrap_or_default());
        set(transport, 4, length);
        if sum == 0 {
            return;
        }
    }
    set(transport, sum_at, 0);
    let len = u16::try_from(transport.len()).unwrap_or(u16::MAX);
    let sum = checksum::Sum::of_pseudo_v4(source, destination, number, len).add_bytes(transport);
    let sum = if number == protocol::UDP { sum.finish_udp() } else { sum.finish() };
    set(transport, sum_at, sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_core::Packet;

    #[test]
    fn find_agrees_with_a_search_at_every_position() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..3000 {
            let mut bytes = |most| -> Vec<u8> {
                let len = random.usize(0..most);
                (0..len).map(|_| random.u8(b'a'..b'c')).collect()
            };
            let (text, word) = (bytes(30), bytes(5));
            let expected =
                (0..text.len()).find(|&at| !word.is_empty() && text[at..].starts_with(&word));
            assert_eq!(find(&text, &word), expected, "{text:?} {word:?}");
        }
    }

    #[test]
    fn replacements_may_be_shorter_or_longer() {
        for (at, len, new, expected) in [
            (1, 2, "", "adef"),
            (0, 6, "x", "x"),
            (5, 1, "longer than before", "abcdelonger than before"),
            (0, 0, "1", "1abcdef"),
            (4, 5, "1", "abcdef"),
        ] {
            let packet = Packet::from_bytes(b"abcdef").unwrap();
            let (packet, ()) = packet.with_view(|packet| replace(packet, at, len, new.as_bytes()));
            assert_eq!(packet.data(), expected.as_bytes());
        }
    }
}

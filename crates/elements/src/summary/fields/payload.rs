//! Fields of the payload of the transport header.

use md5::{Digest, Md5};
use millrace_core::headers::{Header, Ipv4Header, TcpHeader, UdpHeader, protocol};
use millrace_lang::config::quote;

use super::draft::Draft;
use super::field::{Field, Size, Value, append, number, order::PAYLOAD};
use super::seen::{Seen, u8_at};
use super::text::unquote;

pub(super) const FIELDS: &[Field] = &[
    Field::number("payload_len", 4, |seen| {
        let (_, mut length) = place(seen);
        if seen.ip.is_none() || seen.wishes.extra_length {
            length = length.wrapping_add(seen.extra_length);
        }
        Some(Value::Number(length.into()))
    })
    .put(PAYLOAD + 1, number, |draft, value| {
        let at = start(draft);
        make_room(draft, at, value.number() as usize);
    }),
    Field::special("payload", Size::None, payload, |out, value, _| {
        append(out, format_args!("{}", quote(value.bytes())));
    })
    .put(PAYLOAD, |text, _| Some(Value::Bytes(unquote(text).into())), put_payload),
    Field::special("payload_md5", Size::Digest, digest, |out, value, _| {
        append(out, format_args!("{}", in_letters(value.bytes())));
    }),
    Field::special("payload_md5_hex", Size::Digest, digest, |out, value, _| {
        append(out, format_args!("{}", hexadecimal(value.bytes())));
    }),
];

pub(super) const SYNONYMS: &[(&str, &str)] = &[("payload_length", "payload_len")];

/// The start of the payload, relative to the data, and its length according to the headers. It may not be present in
/// the packet.
fn place(seen: &Seen<'_>) -> (isize, u32) {
    let Some(ip) = seen.ip else { return (0, seen.len() as u32) };
    let transport = ip.bytes.get(ip.transport..).unwrap_or_default();
    let header = match ip.protocol() {
        _ if !ip.is_first_fragment() => 0,
        Some(protocol::TCP) => tcp_header_len(transport),
        Some(protocol::UDP | protocol::UDP_LITE) => UdpHeader::LEN,
        _ => 0,
    };
    let from_ip = ip.transport + header;
    (ip.offset + from_ip as isize, (ip.total_len as u32).wrapping_sub(from_ip as u32))
}

/// The length of a TCP header, as far as known.
fn tcp_header_len(header: &[u8]) -> usize {
    let length = (u8_at(header, 12) >> 4) as usize * 4;
    if header.len() >= 13 { length.max(TcpHeader::LEN) } else { TcpHeader::LEN }
}

fn bytes<'p>(seen: &Seen<'p>) -> Option<&'p [u8]> {
    let (at, length) = place(seen);
    let start = usize::try_from(at).ok().filter(|&at| at < seen.packet.len());
    match start {
        Some(start) => {
            let rest = seen.data().get(start..).unwrap_or_default();
            Some(rest.get(..length as usize).unwrap_or(rest))
        }
        None => (length == 0).then_some(&[]),
    }
}

fn payload<'p>(seen: &mut Seen<'p>) -> Option<Value<'p>> {
    bytes(seen).map(|bytes| Value::Bytes(bytes.into()))
}

fn digest<'p>(seen: &mut Seen<'p>) -> Option<Value<'p>> {
    bytes(seen).map(|bytes| Value::Bytes(md5(bytes).to_vec().into()))
}

/// The start of the payload in a packet, after creating its headers.
fn start(draft: &mut Draft<'_>) -> usize {
    if draft.ip(None).is_some() {
        draft.transport_header();
    }
    if !draft.is_ip {
        return 0;
    }
    let transport = draft.transport();
    let header = match draft.ip_protocol() {
        _ if !draft.is_first_fragment() => 0,
        protocol::TCP if draft.transport_len() >= 13 => {
            (usize::from(draft.byte(transport + 12) >> 4) * 4).max(TcpHeader::LEN)
        }
        protocol::TCP => TcpHeader::LEN,
        protocol::UDP | protocol::UDP_LITE => UdpHeader::LEN,
        _ => 0,
    };
    transport + header
}

/// Extends the headers so that a payload of this length ends where the packet must end.
fn make_room(draft: &mut Draft<'_>, at: usize, length: usize) {
    let end = at + length;
    if !draft.is_ip || draft.ip_len() == 0 && draft.wanted_len == 0 {
        draft.wanted_len = u32::try_from(end).unwrap_or(u32::MAX);
        return;
    }
    let wanted = match draft.ip_len() {
        0 => draft.wanted_len as usize,
        length => length,
    };
    let mut missing = (wanted + draft.network()).saturating_sub(end);
    let transport = draft.transport();
    if draft.is_first_fragment()
        && draft.ip_protocol() == protocol::TCP
        && !draft.has_tcp_options
        && draft.byte(transport + 12) >> 4 == 5
    {
        let more = (missing & !3).min(60 - TcpHeader::LEN);
        draft.grow(more);
        draft.insert(transport + TcpHeader::LEN, more);
        let low = draft.byte(transport + 12) & 0xf;
        draft.set(transport + 12, &[(((TcpHeader::LEN + more) / 4) as u8 * 16) | low]);
        missing -= more;
    }
    if !draft.has_ip_options && draft.ip_header_len() == Ipv4Header::LEN {
        let more = (missing & !3).min(60 - Ipv4Header::LEN);
        draft.grow(more);
        draft.insert(draft.network() + Ipv4Header::LEN, more);
        draft.set_ip_header_len(Ipv4Header::LEN + more);
        draft.set_transport(transport + more);
    }
}

fn put_payload(draft: &mut Draft<'_>, value: &Value<'_>) {
    let at = start(draft);
    let payload = value.bytes();
    if payload.is_empty() {
        return;
    }
    make_room(draft, at, payload.len());
    // As in Click, the payload stays where it would be without the longer headers.
    draft.reach(at, payload.len());
    draft.set(at, payload);
}

/// The MD5 digest of some bytes. It distinguishes payloads; it is not for security.
fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// A digest in 22 letters of six bits each, starting with the low bits of the first byte.
fn in_letters(digest: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let byte = |index: usize| u32::from(digest.get(index).copied().unwrap_or_default());
    let letter = |bit: usize| {
        let bits = (byte(bit / 8) | byte(bit / 8 + 1) << 8) >> (bit % 8);
        LETTERS.get(bits as usize & 63).map_or('?', |&letter| char::from(letter))
    };
    (0..8 * digest.len()).step_by(6).map(letter).collect()
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::field::NO_BYTES_DIGEST;
    use super::*;

    #[test]
    fn digests_are_shown_as_text() {
        // RFC 1321, A.5.
        assert_eq!(md5(b""), NO_BYTES_DIGEST);
        assert_eq!(hexadecimal(&md5(b"abc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(in_letters(&[0; 16]), "a".repeat(22));
        assert_eq!(in_letters(&[0xff; 16]), format!("{}d", "@".repeat(21)));
        let mut one = [0; 16];
        // Bits 6 to 11 are 000101: letter 5.
        (one[0], one[1]) = (0x40, 0x01);
        assert_eq!(in_letters(&one), format!("af{}", "a".repeat(20)));
    }
}

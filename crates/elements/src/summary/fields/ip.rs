//! Fields of the IP header, and the ports after it.

use std::net::Ipv4Addr;

use millrace_core::headers::{Header, Ipv4Header, protocol};

use super::draft::Draft;
use super::field::{
    Field, Size, Value, append, byte, half, number, order::NET, order::PAYLOAD, order::TRANSPORT,
    up_to,
};
use super::ip_options;
use super::seen::{Missing, Seen, u8_at, u16_at, u32_at};
use super::text;

const ECN: u8 = 3;

pub(super) const FIELDS: &[Field] = &[
    Field::number("ip_src", 4, |seen| Some(Value::Number(u32_at(seen.ip(16)?, 12))))
        .shown(show_address)
        .put(NET, parse_address, |draft, value| put(draft, 12, &value.number().to_be_bytes())),
    Field::number("ip_dst", 4, |seen| Some(Value::Number(u32_at(seen.ip(20)?, 16))))
        .shown(show_address)
        .put(NET, parse_address, |draft, value| put(draft, 16, &value.number().to_be_bytes())),
    Field::number("ip_tos", 1, |seen| Some(Value::Number(u8_at(seen.ip(2)?, 1)))).put(
        NET,
        byte,
        |draft, value| put(draft, 1, &[value.number() as u8]),
    ),
    Field::number("ip_dscp", 1, |seen| Some(Value::Number(u8_at(seen.ip(2)?, 1) >> 2))).put(
        NET,
        byte,
        |draft, value| put_tos(draft, (value.number() as u8) << 2, !ECN),
    ),
    Field::number("ip_ecn", 1, |seen| Some(Value::Number(u8_at(seen.ip(2)?, 1) & 3)))
        .shown(show_ecn)
        .put(NET, parse_ecn, |draft, value| put_tos(draft, value.number() as u8, ECN)),
    Field::number("ip_ttl", 1, |seen| Some(Value::Number(u8_at(seen.ip(9)?, 8)))).put(
        NET,
        byte,
        |draft, value| put(draft, 8, &[value.number() as u8]),
    ),
    // A character, in binary records too.
    Field::number("ip_frag", 1, |seen| Some(Value::Number(kind_of_fragment(seen.ip(8)?).into())))
        .shown(|out, value, _| out.push(value.number() as u8))
        .put(NET - 2, parse_kind_of_fragment, |draft, value| match value {
            Value::Bytes(fragment) => put(draft, 6, fragment),
            value => {
                let fragment = fragment_of_kind(value.number() as u8).unwrap_or_default();
                put(draft, 6, &fragment.to_be_bytes());
            }
        }),
    Field::number("ip_fragoff", 2, |seen| Some(Value::Number(u16_at(seen.ip(8)?, 6))))
        .shown(show_fragment_offset)
        .put(NET - 1, parse_fragment, |draft, value| {
            put(draft, 6, &(value.number() as u16).to_be_bytes());
        }),
    Field::number("ip_id", 2, |seen| Some(Value::Number(u16_at(seen.ip(6)?, 4)))).put(
        NET,
        half,
        |draft, value| put(draft, 4, &(value.number() as u16).to_be_bytes()),
    ),
    Field::number("ip_sum", 2, |seen| Some(Value::Number(u16_at(seen.ip(12)?, 10)))).put(
        NET + 2,
        half,
        |draft, value| {
            put(draft, 10, &(value.number() as u16).to_be_bytes());
        },
    ),
    Field::number("ip_proto", 1, |seen| Some(Value::Number(u8_at(seen.ip(10)?, 9))))
        .shown(show_protocol)
        .put(NET, parse_protocol, |draft, value| put(draft, 9, &[value.number() as u8])),
    Field::number("ip_hl", 1, |seen| Some(Value::Number((u8_at(seen.ip(1)?, 0) & 15) * 4))).put(
        NET - 1,
        byte,
        put_header_len,
    ),
    Field::number("ip_len", 4, |seen| Some(Value::Number(length(seen).into()))).put(
        NET + 1,
        number,
        |draft, value| {
            if let Some(at) = draft.ip(None) {
                draft.wanted_len = (at as u32).saturating_add(value.number());
            }
        },
    ),
    Field::number("ip_capture_len", 4, |seen| {
        let captured = seen.ip.map_or(seen.len(), |ip| ip.bytes.len().min(ip.total_len));
        Some(Value::Number(captured as u64))
    })
    // Nothing to set: what was captured is what is present.
    .put(PAYLOAD + 2, number, |draft, _| {
        draft.ip(None);
    }),
    Field::special("ip_opt", Size::Counted, options, |out, value, _| {
        ip_options::show(out, value.bytes());
    })
    .put(NET, |text, _| ip_options::parse(text).map(|o| Value::Bytes(o.into())), put_options),
    Field::number("sport", 2, |seen| ports(seen, 0))
        .put(TRANSPORT, half, |draft, value| put_port(draft, 0, value)),
    Field::number("dport", 2, |seen| ports(seen, 2))
        .put(TRANSPORT, half, |draft, value| put_port(draft, 2, value)),
];

pub(super) const SYNONYMS: &[(&str, &str)] = &[("length", "ip_len"), ("ip_p", "ip_proto")];

fn put(draft: &mut Draft<'_>, offset: usize, bytes: &[u8]) {
    if let Some(at) = draft.ip(None) {
        draft.set(at + offset, bytes);
    }
}

/// Sets the bits of the type of service selected by `mask`.
fn put_tos(draft: &mut Draft<'_>, tos: u8, mask: u8) {
    if let Some(at) = draft.ip(None) {
        let tos = draft.byte(at + 1) & !mask | tos & mask;
        draft.set(at + 1, &[tos]);
    }
}

fn show_address(out: &mut Vec<u8>, value: &Value<'_>, _: &Seen<'_>) {
    append(out, format_args!("{}", Ipv4Addr::from_bits(value.number())));
}

fn parse_address(text: &[u8], draft: &Draft<'_>) -> Option<Value<'static>> {
    let text = std::str::from_utf8(text).ok()?;
    let address: Ipv4Addr = millrace_core::args::parse(text, &draft.scope).ok()?;
    Some(Value::Number(address.to_bits().into()))
}

const ECN_NAMES: [&str; 4] = ["no", "ect1", "ect2", "ce"];

fn show_ecn(out: &mut Vec<u8>, value: &Value<'_>, _: &Seen<'_>) {
    let name = ECN_NAMES.get(value.number() as usize & 3).copied().unwrap_or_default();
    append(out, format_args!("{name}"));
}

fn parse_ecn(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    let number = match text {
        b"0" | b"no" | b"-" => 0,
        b"1" | b"ect1" | b"ECT(1)" => 1,
        b"2" | b"ect2" | b"ECT(0)" => 2,
        b"3" | b"ce" | b"CE" => 3,
        _ => return None,
    };
    Some(Value::Number(number))
}

/// First fragment, later fragment, or neither; in the last case, whether fragmentation is forbidden.
fn kind_of_fragment(header: &[u8]) -> u8 {
    let fragment = u16_at(header, 6) as u16;
    let has_offset = fragment & Ipv4Header::OFFSET_MASK != 0;
    match (has_offset, fragment & Ipv4Header::MORE_FRAGMENTS != 0) {
        (true, _) => b'f',
        (false, true) => b'F',
        (false, false) if fragment & Ipv4Header::DONT_FRAGMENT != 0 => b'!',
        (false, false) => b'.',
    }
}

/// Flags and fragment offset for a kind of fragment; an arbitrary offset for a later one.
fn fragment_of_kind(kind: u8) -> Option<u16> {
    match kind {
        b'.' => Some(0),
        b'!' => Some(Ipv4Header::DONT_FRAGMENT),
        b'F' => Some(Ipv4Header::MORE_FRAGMENTS),
        b'f' => Some(100),
        _ => None,
    }
}

fn show_fragment_offset(out: &mut Vec<u8>, value: &Value<'_>, _: &Seen<'_>) {
    let fragment = value.number() as u16;
    append(out, format_args!("{}", (fragment & Ipv4Header::OFFSET_MASK) * 8));
    if fragment & Ipv4Header::MORE_FRAGMENTS != 0 {
        out.push(b'+');
    }
    if fragment & Ipv4Header::DONT_FRAGMENT != 0 {
        out.push(b'!');
    }
}

/// A kind of fragment, or an offset followed by flags.
fn parse_fragment(text: &[u8], draft: &Draft<'_>) -> Option<Value<'static>> {
    if let [kind] = *text
        && let Some(fragment) = fragment_of_kind(kind)
    {
        return Some(Value::Number(fragment.into()));
    }
    let (mut fragment, length) = text::leading_number(text, None);
    if draft.minor_version > 0 {
        // Older versions wrote the header's value unchanged.
        fragment >>= 3;
    }
    for flag in text.get(length..)? {
        fragment |= u32::from(match flag {
            b'!' => Ipv4Header::DONT_FRAGMENT,
            b'+' => Ipv4Header::MORE_FRAGMENTS,
            _ => return None,
        });
    }
    (!text.is_empty()).then(|| Value::Number(fragment.into()))
}

/// The header's representation, which differs from that of a binary record.
fn parse_kind_of_fragment(text: &[u8], draft: &Draft<'_>) -> Option<Value<'static>> {
    let fragment = parse_fragment(text, draft)?.number() as u16;
    Some(Value::Bytes(fragment.to_be_bytes().to_vec().into()))
}

fn show_protocol(out: &mut Vec<u8>, value: &Value<'_>, _: &Seen<'_>) {
    match value.number() {
        6 => out.push(b'T'),
        17 => out.push(b'U'),
        1 => out.push(b'I'),
        other => append(out, format_args!("{other}")),
    }
}

fn parse_protocol(text: &[u8], _: &Draft<'_>) -> Option<Value<'static>> {
    match text {
        b"T" => Some(Value::Number(protocol::TCP.into())),
        b"U" => Some(Value::Number(protocol::UDP.into())),
        b"I" => Some(Value::Number(protocol::ICMP.into())),
        _ => up_to(text, 255),
    }
}

fn length(seen: &Seen<'_>) -> u32 {
    let length = seen.ip.map_or(seen.len(), |ip| ip.total_len) as u32;
    match seen.wishes.extra_length {
        true => length.wrapping_add(seen.extra_length),
        false => length,
    }
}

/// Options are present if the whole header is, or if there are none.
fn options<'p>(seen: &mut Seen<'p>) -> Option<Value<'p>> {
    let Some(ip) = seen.ip else { return seen.missing(Missing::Ip) };
    if ip.header_len <= Ipv4Header::LEN {
        return Some(Value::Bytes((&[][..]).into()));
    }
    match ip.bytes.get(Ipv4Header::LEN..ip.header_len) {
        Some(options) => Some(Value::Bytes(options.into())),
        None => seen.missing(Missing::Ip),
    }
}

fn put_options(draft: &mut Draft<'_>, value: &Value<'_>) {
    let Some(at) = draft.ip(None) else { return };
    draft.has_ip_options = true;
    let options = value.bytes();
    if options.is_empty() {
        return;
    }
    let length = (Ipv4Header::LEN + options.len()).next_multiple_of(4);
    draft.reach(at, length);
    if length > draft.ip_header_len() {
        draft.set_transport(at + length);
        draft.set_ip_header_len(length);
    }
    let mut padded = options.to_vec();
    padded.resize(length - Ipv4Header::LEN, 0);
    draft.set(at + Ipv4Header::LEN, &padded);
}

fn put_header_len(draft: &mut Draft<'_>, value: &Value<'_>) {
    let Some(at) = draft.ip(None) else { return };
    draft.has_ip_options = true;
    let length = (value.number() as usize).next_multiple_of(4);
    if let Some(more) = length.checked_sub(draft.ip_header_len()).filter(|&more| more > 0) {
        draft.grow(more);
        draft.set_transport(at + length);
        draft.set(at + length - more, &vec![0; more]);
    }
    draft.set_ip_header_len(length);
}

fn has_ports(found: u8) -> bool {
    matches!(found, protocol::TCP | protocol::UDP | protocol::DCCP | protocol::UDP_LITE)
}

fn ports<'p>(seen: &mut Seen<'p>, offset: usize) -> Option<Value<'p>> {
    let found = seen.ip.and_then(|ip| {
        let reaches = ip.bytes.len() > ip.header_len && ip.is_first_fragment();
        let transport = ip.bytes.get(ip.transport..).filter(|_| reaches)?;
        let found = ip.protocol().is_some_and(has_ports) && transport.len() >= offset + 2;
        found.then(|| Value::Number(u16_at(transport, offset)))
    });
    found.or_else(|| seen.missing(Missing::Ports(offset + 2)))
}

fn put_port(draft: &mut Draft<'_>, offset: usize, value: &Value<'_>) {
    if draft.ip(None).is_none() {
        return;
    }
    let Some(at) = draft.transport_header() else { return };
    let found = draft.ip_protocol();
    if found == 0 || has_ports(found) {
        draft.set(at + offset, &(value.number() as u16).to_be_bytes());
    }
}

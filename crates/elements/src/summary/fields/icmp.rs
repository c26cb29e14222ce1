//! Fields of the ICMP header.

use millrace_core::headers::{icmp_type, protocol};
use millrace_core::names::{NumberKind, name_of};

use super::draft::Draft;
use super::field::{Field, Value, append, half, order::TRANSPORT, up_to};
use super::seen::{Seen, u8_at, u16_at};

pub(super) const FIELDS: &[Field] = &[
    kind("icmp_type"),
    code("icmp_code"),
    kind("icmp_type_name")
        .shown(|out, value, _| show_name(out, NumberKind::IcmpType, value.number())),
    code("icmp_code_name").shown(|out, value, seen| {
        let kind = seen.icmp.map_or(0, |header| u8_at(header, 0));
        show_name(out, NumberKind::IcmpCode(kind as u8), value.number());
    }),
    Field::number("icmp_flowid", 2, |seen| sequenced(seen, 4)).put(
        TRANSPORT + 2,
        half,
        |draft, value| put_sequenced(draft, 4, value),
    ),
    Field::number("icmp_seq", 2, |seen| sequenced(seen, 6)).put(
        TRANSPORT + 2,
        half,
        |draft, value| put_sequenced(draft, 6, value),
    ),
    Field::number("icmp_nextmtu", 2, |seen| {
        let [kind, code] = *seen.icmp(2)?.first_chunk()?;
        if kind != icmp_type::UNREACHABLE || code != NEED_FRAGMENT {
            return None;
        }
        Some(Value::Number(u16_at(seen.icmp(8)?, 6)))
    })
    .put(TRANSPORT + 2, half, |draft, value| {
        let Some(at) = header(draft) else { return };
        let is_too_big = (!draft.has_icmp_type || draft.byte(at) == icmp_type::UNREACHABLE)
            && (!draft.has_icmp_code || draft.byte(at + 1) == NEED_FRAGMENT);
        if is_too_big {
            draft.reach(at, 8);
            draft.set(at + 6, &(value.number() as u16).to_be_bytes());
        }
    }),
];

const NEED_FRAGMENT: u8 = 4;

const fn kind(name: &'static str) -> Field {
    Field::number(name, 1, |seen| Some(Value::Number(u8_at(seen.icmp(1)?, 0)))).put(
        TRANSPORT,
        |text, draft| named(text, draft, NumberKind::IcmpType),
        |draft, value| {
            let Some(at) = header(draft) else { return };
            let kind = value.number() as u8;
            draft.set(at, &[kind]);
            draft.has_icmp_type = true;
            draft.reach(at, header_len(kind));
        },
    )
}

const fn code(name: &'static str) -> Field {
    Field::number(name, 1, |seen| Some(Value::Number(u8_at(seen.icmp(2)?, 1)))).put(
        TRANSPORT + 1,
        |text, draft| match draft.has_icmp_type {
            true => {
                let kind = draft.byte(draft.transport());
                named(text, draft, NumberKind::IcmpCode(kind))
            }
            false => up_to(text, 255),
        },
        |draft, value| {
            let Some(at) = header(draft) else { return };
            draft.set(at + 1, &[value.number() as u8]);
            draft.has_icmp_code = true;
        },
    )
}

/// The offset of the ICMP header, which is created if there is none and the packet may have one.
fn header(draft: &mut Draft<'_>) -> Option<usize> {
    draft.ip(Some(protocol::ICMP))?;
    let at = draft.transport_header()?;
    draft.reach(at, header_len(0));
    Some(at)
}

/// The length of the header for a message type.
fn header_len(kind: u8) -> usize {
    if matches!(kind, 13 | 14) { 20 } else { 8 }
}

/// Whether messages of this type have an identifier and a sequence number.
fn is_sequenced(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 13..=16)
}

fn sequenced<'p>(seen: &mut Seen<'p>, offset: usize) -> Option<Value<'p>> {
    if !seen.icmp(1)?.first().copied().is_some_and(is_sequenced) {
        return None;
    }
    Some(Value::Number(u16_at(seen.icmp(offset + 2)?, offset)))
}

fn put_sequenced(draft: &mut Draft<'_>, offset: usize, value: &Value<'_>) {
    let Some(at) = header(draft) else { return };
    if !draft.has_icmp_type || is_sequenced(draft.byte(at)) {
        draft.reach(at, 8);
        draft.set(at + offset, &(value.number() as u16).to_be_bytes());
    }
}

fn show_name(out: &mut Vec<u8>, kind: NumberKind, number: u32) {
    match name_of(kind, number) {
        Some(name) => append(out, format_args!("{name}")),
        None => append(out, format_args!("{number}")),
    }
}

/// A number or its name.
fn named(text: &[u8], draft: &Draft<'_>, kind: NumberKind) -> Option<Value<'static>> {
    let name = || draft.scope.number_named(kind, std::str::from_utf8(text).ok()?);
    up_to(text, 255).or_else(|| {
        name().filter(|&number| number < 256).map(|number| Value::Number(number.into()))
    })
}

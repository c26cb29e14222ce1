//! IP options as text.

use millrace_core::headers::ipv4_option;

use super::field::append;
use super::options::{Cursor, each, end_option, show_numbered, within_limit};

/// Writes options: `.` for none, `?` if they are malformed.
pub(super) fn show(out: &mut Vec<u8>, options: &[u8]) {
    let start = out.len();
    for option in each(options) {
        if out.len() > start {
            out.push(b';');
        }
        let shown = option.and_then(|option| match option.first().copied()? {
            ipv4_option::RECORD_ROUTE => show_route(out, "rr", option),
            ipv4_option::LOOSE_SOURCE_ROUTE => show_route(out, "lsrr", option),
            ipv4_option::STRICT_SOURCE_ROUTE => show_route(out, "ssrr", option),
            ipv4_option::TIMESTAMP => show_timestamps(out, option),
            _ => {
                show_numbered(out, option);
                Some(())
            }
        });
        if shown.is_none() {
            out.truncate(start);
            out.push(b'?');
            return;
        }
    }
    if out.len() == start {
        out.push(b'.');
    }
}

/// Writes a route. For a recorded route: the addresses before the pointer, and how many more have room. For other
/// routes: all addresses, with the pointer between them.
fn show_route(out: &mut Vec<u8>, name: &str, option: &[u8]) -> Option<()> {
    let pointer = usize::from(*option.get(2)?);
    if pointer < 4 {
        return None;
    }
    let is_record = name == "rr";
    let at_pointer = pointer - 1;
    append(out, format_args!("{name}{{"));
    let mut at = 3;
    let mut separator = "";
    while let Some(address) = option.get(at..at + 4) {
        if at == at_pointer {
            if is_record {
                break;
            }
            separator = "^";
        }
        append(out, format_args!("{separator}"));
        show_address(out, address);
        separator = ",";
        at += 4;
    }
    if at == option.len() && at == at_pointer && !is_record {
        out.push(b'^');
    }
    out.push(b'}');
    if at + 4 <= option.len() && at == at_pointer && is_record {
        append(out, format_args!("+{}", (option.len() - at) / 4));
    }
    Some(())
}

fn show_address(out: &mut Vec<u8>, address: &[u8]) {
    for (index, byte) in address.iter().enumerate() {
        append(out, format_args!("{}{byte}", if index > 0 { "." } else { "" }));
    }
}

fn show_timestamps(out: &mut Vec<u8>, option: &[u8]) -> Option<()> {
    let pointer = usize::from(*option.get(2)?);
    let flags = *option.get(3)?;
    if pointer < 5 {
        return None;
    }
    let at_pointer = pointer - 1;
    let flag = flags & 0xf;
    let size = if (1..=3).contains(&flag) { 8 } else { 4 };
    let kind = match flag {
        0 => String::new(),
        1 => ".ip".to_owned(),
        3 => ".preip".to_owned(),
        other => format!(".{other}"),
    };
    append(out, format_args!("ts{kind}{{"));
    let mut at = 4;
    let mut separator = "";
    while at + size <= option.len() {
        if at == at_pointer {
            if flag != 3 {
                break;
            }
            separator = "^";
        }
        append(out, format_args!("{separator}"));
        if flag != 0 {
            show_address(out, option.get(at..at + 4)?);
            at += 4;
        }
        // Addresses after the pointer have no time yet.
        if flag != 3 || at <= at_pointer {
            append(out, format_args!("{}", if flag != 0 { "=" } else { "" }));
            let bytes = option.get(at..).and_then(<[u8]>::first_chunk).copied();
            let time = u32::from_be_bytes(bytes.unwrap_or_default());
            append(out, format_args!("{}", if time >> 31 == 1 { "!" } else { "" }));
            append(out, format_args!("{}", time & 0x7fff_ffff));
        }
        separator = ",";
        at += 4;
    }
    if at == option.len() && at == at_pointer {
        out.push(b'^');
    }
    out.push(b'}');
    if at + size <= option.len() && at == at_pointer {
        append(out, format_args!("+{}", (option.len() - at) / size));
    }
    if flags >> 4 != 0 {
        append(out, format_args!("++{}", flags >> 4));
    }
    Some(())
}

/// Parses options.
pub(super) fn parse(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    if text == b"." {
        return Some(out);
    }
    let mut text = Cursor { rest: text };
    loop {
        if text.eat_before("rr{") {
            parse_route(&mut text, &mut out, ipv4_option::RECORD_ROUTE)?;
        } else if text.eat_before("ssrr{") {
            parse_route(&mut text, &mut out, ipv4_option::STRICT_SOURCE_ROUTE)?;
        } else if text.eat_before("lsrr{") {
            parse_route(&mut text, &mut out, ipv4_option::LOOSE_SOURCE_ROUTE)?;
        } else if text.eat_before("ts{") {
            parse_timestamps(&mut text, &mut out, Stamps::Any)?;
        } else if text.eat_before("ts.ip{") {
            parse_timestamps(&mut text, &mut out, Stamps::Flag(1))?;
        } else if text.eat_before("ts.preip{") {
            parse_timestamps(&mut text, &mut out, Stamps::Flag(3))?;
        } else if text.rest.starts_with(b"ts.") {
            text.skip(3);
            let flag = text.number(None, 15)? as u8;
            text.eat("{").then_some(())?;
            parse_timestamps(&mut text, &mut out, Stamps::Flag(flag))?;
        } else if text.has_digit_at(0) {
            text.numbered(&mut out)?;
        } else if !text.padding(&mut out) {
            return None;
        }
        match text.next() {
            None => return within_limit(out),
            Some(b',' | b';') => text.skip(1),
            Some(_) => return None,
        }
    }
}

/// Parses the text in the braces of a route, and what follows them.
fn parse_route(text: &mut Cursor<'_>, out: &mut Vec<u8>, kind: u8) -> Option<()> {
    let start = out.len();
    let mut pointer = None;
    out.extend_from_slice(&[kind, 0, 0]);
    loop {
        if pointer.is_none() && text.eat("^") {
            pointer = Some(out.len() - start + 1);
        }
        if !text.has_digit_at(0) {
            break;
        }
        parse_address(text, out)?;
        text.eat(",");
    }
    text.eat("}").then_some(())?;
    let pointer = pointer.unwrap_or(out.len() - start + 1);
    *out.get_mut(start + 2)? = u8::try_from(pointer).ok()?;
    if text.next() == Some(b'+') && text.has_digit_at(1) {
        text.skip(1);
        parse_room(text, out, 4)?;
    }
    end_option(out, start)
}

/// Parses how much room there is after the pointer.
fn parse_room(text: &mut Cursor<'_>, out: &mut Vec<u8>, size: usize) -> Option<()> {
    let room = text.number(Some(10), u32::MAX)? as usize;
    if room < 64 {
        out.resize(out.len() + room * size, 0);
    }
    Some(())
}

fn parse_address(text: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    for index in 0..4 {
        if index > 0 && !text.eat(".") {
            return None;
        }
        out.push(text.number(Some(10), 255)? as u8);
    }
    Some(())
}

/// The kind of entries in a timestamp option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamps {
    /// Not known yet; the first entry decides.
    Any,
    /// With addresses; the pointer decides whether they are prespecified.
    WithAddresses,
    Flag(u8),
}

/// Parses the text in the braces of a timestamp option, and what follows them.
fn parse_timestamps(text: &mut Cursor<'_>, out: &mut Vec<u8>, stamps: Stamps) -> Option<()> {
    let start = out.len();
    let mut stamps = stamps;
    let mut pointer = None;
    out.extend_from_slice(&[ipv4_option::TIMESTAMP, 0, 0, 0]);
    loop {
        if pointer.is_none() && text.eat("^") {
            pointer = Some(out.len() - start + 1);
        }
        if !text.has_digit_at(0) && text.next() != Some(b'!') {
            break;
        }
        parse_stamp(text, out, &mut stamps, pointer.is_some())?;
        text.eat(",");
    }
    if text.next().is_some() && !text.eat("}") {
        return None;
    }
    let flag = match stamps {
        Stamps::Any => 0,
        Stamps::WithAddresses => 1,
        Stamps::Flag(flag) => flag,
    };
    let pointer = pointer.unwrap_or(out.len() - start + 1);
    *out.get_mut(start + 2)? = u8::try_from(pointer).ok()?;
    if text.next() == Some(b'+') && text.has_digit_at(1) {
        text.skip(1);
        parse_room(text, out, if flag == 1 || flag == 3 { 8 } else { 4 })?;
    }
    let mut overflow = 0;
    if text.rest.starts_with(b"++") && text.has_digit_at(2) {
        text.skip(2);
        overflow = text.number(None, u32::MAX).filter(|&count| count < 16).unwrap_or(0) as u8;
    }
    *out.get_mut(start + 3)? = overflow << 4 | flag;
    end_option(out, start)
}

/// Parses a time, an address and a time, or, after the pointer, an address alone.
fn parse_stamp(
    text: &mut Cursor<'_>,
    out: &mut Vec<u8>,
    stamps: &mut Stamps,
    behind_pointer: bool,
) -> Option<()> {
    let entry = text.rest;
    if *stamps == Stamps::Any {
        let is_address = text.number(None, u32::MAX).is_some() && text.next() == Some(b'.');
        *stamps = if is_address { Stamps::WithAddresses } else { Stamps::Flag(0) };
        text.rest = entry;
    }
    if matches!(stamps, Stamps::WithAddresses | Stamps::Flag(1 | 3)) {
        parse_address(text, out)?;
        if behind_pointer && *stamps == Stamps::WithAddresses {
            *stamps = Stamps::Flag(3);
        }
        match (text.next(), text.at(1)) {
            (Some(b'='), Some(b'0'..=b'9' | b'!')) => text.skip(1),
            (Some(b'='), Some(b'?')) if behind_pointer => {
                text.skip(2);
                out.extend_from_slice(&[0; 4]);
                return Some(());
            }
            (Some(b'='), Some(_)) => return None,
            _ if behind_pointer => {
                out.extend_from_slice(&[0; 4]);
                return Some(());
            }
            _ => return None,
        }
    }
    let nonstandard = u32::from(text.eat("!")) << 31;
    let time = text.number(None, u32::MAX)?;
    out.extend_from_slice(&(time | nonstandard).to_be_bytes());
    Some(())
}

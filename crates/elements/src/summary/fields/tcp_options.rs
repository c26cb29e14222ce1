//! TCP options as text.

use millrace_core::headers::tcp_option;

use super::field::append;
use super::options::{Cursor, each, end_option, show_numbered, within_limit};
use super::text::is_space;

/// A selection of options by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// All but padding and timestamps.
    NotTimestamps,
    Sack,
}

impl Which {
    fn has(self, kind: u8) -> bool {
        match self {
            Self::All => true,
            Self::NotTimestamps => kind > 1 && kind != tcp_option::TIMESTAMPS,
            Self::Sack => matches!(kind, tcp_option::SACK | tcp_option::SACK_PERMITTED),
        }
    }
}

/// Writes options: `.` for none, `?` if they are malformed. Padding is not shown.
pub(crate) fn show(out: &mut Vec<u8>, options: &[u8], which: Which) {
    let start = out.len();
    for option in each(options) {
        let separator = if out.len() > start { ";" } else { "" };
        let shown = option.filter(|option| is_sound(option)).map(|option| {
            if option.first().is_some_and(|&kind| which.has(kind)) {
                show_one(out, option, separator);
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

/// Whether an option has the length that its kind requires.
pub(crate) fn is_sound(option: &[u8]) -> bool {
    match option.first().copied().unwrap_or_default() {
        tcp_option::MAXIMUM_SEGMENT_SIZE => option.len() == 4,
        tcp_option::WINDOW_SCALE => option.len() == 3,
        tcp_option::SACK_PERMITTED => option.len() == 2,
        tcp_option::SACK => option.len() % 8 == 2,
        tcp_option::TIMESTAMPS => option.len() == 10,
        _ => true,
    }
}

fn show_one(out: &mut Vec<u8>, option: &[u8], separator: &str) {
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_be_bytes(word)).collect()
    };
    match option {
        &[tcp_option::MAXIMUM_SEGMENT_SIZE, _, high, low] => {
            append(out, format_args!("{separator}mss{}", u16::from_be_bytes([high, low])));
        }
        [tcp_option::WINDOW_SCALE, _, shift] => {
            append(out, format_args!("{separator}wscale{shift}"));
        }
        [tcp_option::SACK_PERMITTED, _] => append(out, format_args!("{separator}sackok")),
        [tcp_option::SACK, _, blocks @ ..] => {
            let mut separator = separator;
            for block in words(blocks).as_chunks::<2>().0 {
                append(out, format_args!("{separator}sack{}-{}", block[0], block[1]));
                separator = ";";
            }
        }
        [tcp_option::TIMESTAMPS, _, times @ ..] => {
            if let [value, echo] = *words(times) {
                append(out, format_args!("{separator}ts{value}:{echo}"));
            }
        }
        option => {
            append(out, format_args!("{separator}"));
            show_numbered(out, option);
        }
    }
}

/// The options of these kinds, unchanged.
pub(crate) fn select(options: &[u8], which: Which) -> Vec<u8> {
    if which == Which::All {
        return options.to_vec();
    }
    let found = each(options).map_while(|option| option);
    let found = found.filter(|option| option.first().is_some_and(|&kind| which.has(kind)));
    found.collect::<Vec<_>>().concat()
}

/// Parses options.
pub(crate) fn parse(text: &[u8], which: Which) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    if text == b"." {
        return Some(out);
    }
    let mut text = Cursor { rest: text };
    loop {
        let has = |kind| which.has(kind);
        if has(tcp_option::MAXIMUM_SEGMENT_SIZE) && text.eat_before("mss") {
            let size = text.number(None, 0xffff)? as u16;
            out.extend_from_slice(&[tcp_option::MAXIMUM_SEGMENT_SIZE, 4]);
            out.extend_from_slice(&size.to_be_bytes());
        } else if has(tcp_option::WINDOW_SCALE) && text.eat_before("wscale") {
            let shift = text.number(None, 255)? as u8;
            out.extend_from_slice(&[tcp_option::WINDOW_SCALE, 3, shift]);
        } else if has(tcp_option::SACK_PERMITTED) && text.eat("sackok") {
            out.extend_from_slice(&[tcp_option::SACK_PERMITTED, 2]);
        } else if has(tcp_option::SACK) && text.eat_before("sack") {
            parse_sack(&mut text, &mut out)?;
        } else if has(tcp_option::TIMESTAMPS) && text.eat_before("ts") {
            let value = text.number(None, u32::MAX)?;
            text.eat(":").then_some(())?;
            let echo = text.number(None, u32::MAX)?;
            if out.is_empty() {
                // The alignment that most senders use.
                out.extend_from_slice(&[1, 1]);
            }
            out.extend_from_slice(&[tcp_option::TIMESTAMPS, 10]);
            out.extend_from_slice(&value.to_be_bytes());
            out.extend_from_slice(&echo.to_be_bytes());
        } else if which != Which::Sack && text.has_digit_at(0) {
            text.numbered(&mut out)?;
        } else if which != Which::All || !text.padding(&mut out) {
            return None;
        }
        match text.next() {
            Some(b',' | b';') => text.skip(1),
            Some(byte) if !is_space(byte) => return None,
            _ => return within_limit(out),
        }
    }
}

/// Parses a block, and those that follow after commas, into one option.
fn parse_sack(text: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend_from_slice(&[tcp_option::SACK, 0]);
    loop {
        let left = text.number(None, u32::MAX)?;
        if !text.eat("-") && !text.eat(":") {
            return None;
        }
        let right = text.number(None, u32::MAX)?;
        out.extend_from_slice(&left.to_be_bytes());
        out.extend_from_slice(&right.to_be_bytes());
        if text.rest.starts_with(b",sack") && text.has_digit_at(5) {
            text.skip(5);
        } else {
            return end_option(out, start);
        }
    }
}

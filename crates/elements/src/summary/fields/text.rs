//! Parsing the lines of summary dumps.

use std::borrow::Cow;

use millrace_core::args::{self, Scope};
use millrace_lang::config;

/// C's definition of white space.
pub(crate) fn is_space(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

/// The whole text as a number in decimal, hexadecimal (`0x`) or octal (`0`).
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    // Most numbers are short and plain.
    if (1..=18).contains(&text.len())
        && (text.len() == 1 || text.first() != Some(&b'0'))
        && text.iter().all(u8::is_ascii_digit)
    {
        return Some(text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')));
    }
    let text = std::str::from_utf8(text).ok()?;
    if text.bytes().any(is_space) {
        return None;
    }
    args::parse(text, &Scope::builtin()).ok()
}

/// The number that a text starts with, and its length in bytes: 0 when there is none. A number beyond 32 bits becomes
/// the largest one.
pub(crate) fn leading_number(text: &[u8], radix: Option<u32>) -> (u32, usize) {
    let (radix, start) = match (radix, text) {
        (Some(radix), _) => (radix, 0),
        (None, [b'0', b'x' | b'X', next, ..]) if next.is_ascii_hexdigit() => (16, 2),
        (None, [b'0', ..]) => (8, 0),
        (None, _) => (10, 0),
    };
    let mut number = 0u32;
    let mut length = 0;
    for &byte in text.get(start..).unwrap_or_default() {
        let Some(digit) = char::from(byte).to_digit(radix) else { break };
        number = number
            .checked_mul(radix)
            .and_then(|number| number.checked_add(digit))
            .unwrap_or(u32::MAX);
        length += 1;
    }
    if length == 0 { (0, 0) } else { (number, start + length) }
}

/// The first `count` fields of a line, separated by unquoted spaces; missing ones are empty. A space at the start of
/// the line makes the first one empty.
pub(crate) fn fields<'l>(line: &'l [u8], count: usize, mut each: impl FnMut(&'l [u8])) {
    let mut rest = line;
    for _ in 0..count {
        let end = field_len(rest);
        each(rest.get(..end).unwrap_or_default());
        rest = rest.get(end..).unwrap_or_default();
        let spaces = rest.iter().take_while(|&&byte| is_space(byte)).count();
        rest = rest.get(spaces..).unwrap_or_default();
    }
}

/// The length of the field that a text starts with.
fn field_len(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => at = end_of_quoted(text, at),
            _ if is_space(byte) => break,
            _ => at += 1,
        }
    }
    at
}

/// The end of the quoted string that starts at `start`.
fn end_of_quoted(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = text.get(at) {
        at += match (byte, text.get(at + 1)) {
            (b'"', _) => return at + 1,
            (b'\\', Some(b'<')) => {
                let rest = text.get(at..).unwrap_or_default();
                rest.iter().position(|&byte| byte == b'>').unwrap_or(rest.len()) + 1
            }
            (b'\\', Some(_)) => 2,
            _ => 1,
        };
    }
    text.len()
}

/// A text without its quotes, with its escapes expanded.
pub(crate) fn unquote(text: &[u8]) -> Vec<u8> {
    config::unquote(&as_text(text))
}

/// Bytes as text for the quoting rules: bytes that are not UTF-8 become escapes.
fn as_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => {
            let text = bytes.iter().map(|&byte| match byte {
                0..0x80 => char::from(byte).to_string(),
                _ => format!("\\<{byte:02x}>"),
            });
            text.collect::<String>().into()
        }
    }
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(line);
    config::split_words(&text).into_iter().map(|word| word.text.to_owned()).collect()
}

/// Whether a line is a command of this name, followed by white space.
pub(crate) fn is_command(line: &[u8], name: &str) -> bool {
    line.strip_prefix(name.as_bytes()).and_then(<[u8]>::first).is_some_and(|&byte| is_space(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_kinds_are_parsed() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"4294967296"), Some(1 << 32));
        assert_eq!(number(b"0x1F"), Some(31));
        assert_eq!(number(b"010"), Some(8));
        for wrong in ["", "-", "-1", "1 ", "1a", "0x"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(leading_number(b"12,", None), (12, 2));
        assert_eq!(leading_number(b"0x1g", None), (1, 3));
        assert_eq!(leading_number(b"017.8", None), (15, 3));
        assert_eq!(leading_number(b"017.8", Some(10)), (17, 3));
        assert_eq!(leading_number(b"99999999999", None), (u32::MAX, 11));
        assert_eq!(leading_number(b"x", None), (0, 0));
        assert_eq!(leading_number(b"0x", None), (0, 1));
    }

    #[test]
    fn fields_are_split_at_spaces_outside_of_quotes() {
        let split = |line: &str, count| {
            let mut found = Vec::new();
            fields(line.as_bytes(), count, |field| {
                found.push(String::from_utf8(field.to_vec()).unwrap());
            });
            found
        };
        assert_eq!(split("1 2\t3\r\n", 4), ["1", "2", "3", ""]);
        assert_eq!(split(" 1 2\n", 3), ["", "1", "2"]);
        assert_eq!(
            split("\"a b\\\"c\"d \"\\<41 22>x\" e", 3),
            ["\"a b\\\"c\"d", "\"\\<41 22>x\"", "e"]
        );
        assert_eq!(split("\"open a", 2), ["\"open a", ""]);
        assert_eq!(unquote(b"\"a\\n\xff\\377\""), b"a\n\xff\xff");
    }
}

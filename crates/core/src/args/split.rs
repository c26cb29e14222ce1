//! Cutting a configuration string into arguments and words, and taking quotes off.
//!
//! Everything works on byte offsets into the text that it was given, so that callers can say
//! where a part stands.

use std::ops::Range;

/// One argument or word: its text without comments, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The text, comments and the spaces around them replaced by one space each.
    pub(crate) text: String,
    /// Its bytes in the text that was cut, from its first to its last byte that is neither space
    /// nor comment.
    pub(crate) range: Range<usize>,
}

/// Cuts a configuration string at commas that stand outside of quotes and comments. An empty last
/// argument is left out, empty arguments before it are kept.
pub(crate) fn split_args(config: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < config.len() {
        let (part, end) = uncomment(config, at, true);
        if !part.text.is_empty() || end < config.len() {
            parts.push(part);
        }
        at = end + 1;
    }
    parts
}

/// Cuts a text at spaces and comments that stand outside of quotes.
pub(crate) fn split_words(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut start = skip_blank(text, 0);
    while start < text.len() {
        let mut end = start;
        while end < text.len() && !is_space(byte(text, end)) && !at_comment(text, end) {
            end = skip_item(text, end);
        }
        let range = start..end;
        parts.push(Part { text: text.get(range.clone()).unwrap_or_default().to_owned(), range });
        start = skip_blank(text, end);
    }
    parts
}

/// Takes one level of quotes off: `"..."` with its backslash escapes, `'...'` without, and
/// `\<hex>` outside of quotes.
pub(crate) fn unquote(text: &str) -> Vec<u8> {
    let text = uncomment(text, 0, false).0.text;
    let mut out = Vec::with_capacity(text.len());
    let mut quote = None;
    let mut at = 0;
    while at < text.len() {
        let b = byte(&text, at);
        match b {
            b'"' | b'\'' if quote.is_none() => quote = Some(b),
            _ if quote == Some(b) => quote = None,
            b'\\' if quote == Some(b'"') || (quote.is_none() && byte(&text, at + 1) == b'<') => {
                at = expand_escape(&text, at, &mut out);
                continue;
            }
            _ => out.push(b),
        }
        at += 1;
    }
    out
}

/// Where the first word of a text ends: at the first space outside of quotes.
pub(crate) fn word_end(text: &str) -> usize {
    let mut at = 0;
    while at < text.len() && !is_space(byte(text, at)) {
        at = skip_item(text, at);
    }
    at
}

/// The argument that starts at `at`, and the place of the comma that ends it (or of the end).
fn uncomment(text: &str, at: usize, until_comma: bool) -> (Part, usize) {
    let mut out = String::new();
    let mut at = skip_blank(text, at);
    let start = at;
    let (mut left, mut right) = (at, at);
    let mut after_comment = false;
    while at < text.len() {
        let b = byte(text, at);
        if is_space(b) {
            at += 1;
        } else if at_comment(text, at) {
            at = skip_comment(text, at);
            after_comment = true;
        } else if b == b',' && until_comma {
            break;
        } else {
            if after_comment {
                out.push_str(text.get(left..right).unwrap_or_default());
                out.push(' ');
                left = at;
                after_comment = false;
            }
            at = skip_item(text, at);
            right = at;
        }
    }
    out.push_str(text.get(left..right).unwrap_or_default());
    (Part { text: out, range: start..right }, at)
}

/// Expands the escape whose backslash stands at `at`; gives the place after it.
fn expand_escape(text: &str, at: usize, out: &mut Vec<u8>) -> usize {
    let Some(&escaped) = text.as_bytes().get(at + 1) else {
        out.push(b'\\');
        return at + 1;
    };
    let plain = match escaped {
        b'\r' if byte(text, at + 2) == b'\n' => return at + 3,
        b'\r' | b'\n' => return at + 2,
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        b'0'..=b'7' => {
            let digits = count(text, at + 1, |b| matches!(b, b'0'..=b'7')).min(3);
            let value = digits_value(text, at + 1..at + 1 + digits, 8);
            out.push(value);
            return at + 1 + digits;
        }
        b'x' => {
            let digits = count(text, at + 2, |b| b.is_ascii_hexdigit());
            out.push(digits_value(text, at + 2..at + 2 + digits, 16));
            return at + 2 + digits;
        }
        b'<' => return expand_hex(text, at + 2, out),
        other => other,
    };
    out.push(plain);
    at + 2
}

/// Expands `\<48656c6c 6f>` from after the `<`; gives the place after the `>`.
fn expand_hex(text: &str, mut at: usize, out: &mut Vec<u8>) -> usize {
    let mut high = None;
    while at < text.len() {
        let b = byte(text, at);
        if b == b'>' {
            return at + 1;
        } else if at_comment(text, at) {
            at = skip_comment(text, at);
            continue;
        } else if let Some(digit) = (b as char).to_digit(16) {
            let digit = digit as u8;
            match high.take() {
                None => high = Some(digit),
                Some(high) => out.push(high << 4 | digit),
            }
        }
        at += 1;
    }
    at
}

/// The place after the character, quoted string or `\<...>` at `at`.
fn skip_item(text: &str, at: usize) -> usize {
    match byte(text, at) {
        b'\'' => count(text, at + 1, |b| b != b'\'').saturating_add(at + 2).min(text.len()),
        b'"' => {
            let mut at = at + 1;
            while at < text.len() {
                match byte(text, at) {
                    b'"' => return at + 1,
                    b'\\' => at = skip_escape(text, at),
                    _ => at += 1,
                }
            }
            at.min(text.len())
        }
        b'\\' if byte(text, at + 1) == b'<' => skip_escape(text, at),
        _ => at + 1,
    }
}

/// The place after the escape whose backslash stands at `at`.
fn skip_escape(text: &str, at: usize) -> usize {
    match byte(text, at + 1) {
        b'<' => {
            let mut at = at + 2;
            while at < text.len() {
                if byte(text, at) == b'>' {
                    return at + 1;
                }
                at = if at_comment(text, at) { skip_comment(text, at) } else { at + 1 };
            }
            at.min(text.len())
        }
        b'\r' if byte(text, at + 2) == b'\n' => at + 3,
        _ => (at + 2).min(text.len()),
    }
}

fn skip_blank(text: &str, mut at: usize) -> usize {
    loop {
        if at_comment(text, at) {
            at = skip_comment(text, at);
        } else if at < text.len() && is_space(byte(text, at)) {
            at += 1;
        } else {
            return at.min(text.len());
        }
    }
}

fn at_comment(text: &str, at: usize) -> bool {
    byte(text, at) == b'/' && matches!(byte(text, at + 1), b'/' | b'*')
}

/// The place after the comment at `at`; a line comment owns its newline.
fn skip_comment(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at + 2..).unwrap_or_default();
    if byte(text, at + 1) == b'*' {
        match rest.windows(2).position(|pair| pair == b"*/") {
            Some(length) => at + length + 4,
            None => text.len(),
        }
    } else {
        match rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            Some(length) if rest.get(length..length + 2) == Some(b"\r\n") => at + length + 4,
            Some(length) => at + length + 3,
            None => text.len(),
        }
    }
}

/// The byte at `at`, 0 past the end.
fn byte(text: &str, at: usize) -> u8 {
    text.as_bytes().get(at).copied().unwrap_or(0)
}

pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r')
}

/// How many bytes from `at` on satisfy the test.
fn count(text: &str, at: usize, test: impl Fn(u8) -> bool) -> usize {
    text.as_bytes().iter().skip(at).take_while(|&&b| test(b)).count()
}

/// The low byte of a number, as C's `char` would hold it.
fn digits_value(text: &str, digits: Range<usize>, radix: u8) -> u8 {
    let digits = text.as_bytes().get(digits).unwrap_or_default();
    digits.iter().fold(0, |value: u8, &digit| {
        let digit = (digit as char).to_digit(16).unwrap_or(0) as u8;
        value.wrapping_mul(radix).wrapping_add(digit)
    })
}

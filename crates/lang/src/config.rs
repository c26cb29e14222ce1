//! Configuration strings: the text between an element's parentheses.
//!
//! Click passes the string to the element as it is written. Nearly every element then parses it in the same
//! way, with these functions:
//!
//! 1. [`split_args`] splits it at unquoted commas and removes the comments,
//! 2. [`keyword`] and [`split_words`] split an argument at unquoted spaces,
//! 3. [`unquote`] removes quotes and replaces escapes, which produces bytes.
//!
//! ```
//! use millrace_lang::config::{keyword, split_args, unquote};
//!
//! let args = split_args(r#"eth0, LIMIT 10 /* packets */, DATA "a, b\n""#);
//! let texts: Vec<&str> = args.iter().map(|arg| &*arg.text).collect();
//! assert_eq!(texts, ["eth0", "LIMIT 10", r#"DATA "a, b\n""#]);
//!
//! assert_eq!(keyword(texts[1]), Some(("LIMIT", "10")));
//! let (_, data) = keyword(texts[2]).unwrap();
//! assert_eq!(unquote(data), b"a, b\n");
//! ```
//!
//! The rules are those of Click's `confparse` and of the CONFIGURATION STRINGS section of its manual page
//! click(5). All functions need time and memory in proportion to the text.

use std::borrow::Cow;

/// One argument of a configuration string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgText<'a> {
    /// The argument without surrounding space; each comment inside is one space.
    pub text: Cow<'a, str>,
    /// Its first byte in the configuration string.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

/// Splits a configuration string into its arguments at unquoted commas.
///
/// Parentheses do not protect a comma; quotes do. An empty last argument is dropped, so `a, b,` has two
/// arguments.
pub fn split_args(text: &str) -> Vec<ArgText<'_>> {
    let mut args = Vec::new();
    let mut pos = 0;
    while pos < text.len() {
        let (arg, next) = uncomment_from(text, pos, true);
        let comma = next < text.len();
        if comma || !arg.text.is_empty() {
            args.push(arg);
        }
        pos = next + 1;
    }
    args
}

/// The text without surrounding space, each comment (with the space around it) replaced by one
/// space.
pub fn uncomment(text: &str) -> Cow<'_, str> {
    uncomment_from(text, 0, false).0.text
}

/// One word of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The word, quotes and escapes as written.
    pub text: &'a str,
    /// Its first byte in the argument.
    pub start: usize,
}

/// Splits an argument into words at unquoted space and comments.
///
/// ```
/// let words = millrace_lang::config::split_words("allow src 'a b'c");
/// let texts: Vec<&str> = words.iter().map(|word| word.text).collect();
/// assert_eq!(texts, ["allow", "src", "'a b'c"]);
/// ```
pub fn split_words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start = skip_blank(text.as_bytes(), 0);
    while start < text.len() {
        let end = word_end(text.as_bytes(), start);
        words.push(Word { text: text.get(start..end).unwrap_or(""), start });
        start = skip_blank(text.as_bytes(), end);
    }
    words
}

/// Splits the first word off a text: returns the word and the text after it, without the space between.
pub fn shift_word(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let start = skip_blank(bytes, 0);
    let end = word_end(bytes, start);
    let rest = skip_blank(bytes, end);
    (text.get(start..end).unwrap_or(""), text.get(rest..).unwrap_or(""))
}

/// The keyword that an argument starts with, and its value: `LIMIT 10` is `LIMIT` and `10`.
///
/// Keywords consist of letters, digits and `_.:?!`. Only the element knows whether it has such a keyword:
/// `eth0` by itself looks like one, too.
pub fn keyword(arg: &str) -> Option<(&str, &str)> {
    let end = arg.bytes().position(is_space).unwrap_or(arg.len());
    let (word, rest) = arg.split_at_checked(end)?;
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"_.:?!".contains(&b);
    (!word.is_empty() && word.bytes().all(valid)).then(|| (word, rest.trim_start_matches(space)))
}

/// Removes one level of quoting: returns the bytes that the text stands for.
///
/// `"..."` is replaced by its contents with escapes replaced, `'...'` by its unchanged contents, and `\<...>`
/// outside quotes by the bytes of its hexadecimal digits. Comments outside quotes are removed as by
/// [`uncomment`].
///
/// ```
/// use millrace_lang::config::unquote;
/// assert_eq!(unquote(r#""tab\t" 'no\t' \<48 69>"#), b"tab\t no\\t Hi");
/// ```
pub fn unquote(text: &str) -> Vec<u8> {
    let text = uncomment(text);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut quote = None;
    let mut pos = 0;
    while let Some(&b) = bytes.get(pos) {
        let next = bytes.get(pos + 1);
        let data = quote.is_none() && next == Some(&b'<');
        if b == b'\\' && next.is_some() && (quote == Some(b'"') || data) {
            pos = escape(bytes, pos, &mut out);
            continue;
        }
        match quote {
            None if b == b'"' || b == b'\'' => quote = Some(b),
            Some(q) if b == q => quote = None,
            _ => out.push(b),
        }
        pos += 1;
    }
    out
}

/// Quotes bytes so that [`unquote`] returns them, in printable ASCII.
///
/// ```
/// use millrace_lang::config::quote;
/// assert_eq!(quote(b"a\n$\"\xff"), r#""a\n\$\"\377""#);
/// ```
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &b in bytes {
        match b {
            b'\\' | b'"' | b'$' => out.extend(['\\', char::from(b)]),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            b' '..=b'~' => out.push(char::from(b)),
            _ => {
                let digit = |shift: u8| char::from(b'0' + ((b >> shift) & 7));
                out.extend(['\\', digit(6), digit(3), digit(0)]);
            }
        }
    }
    out.push('"');
    out
}

/// True for a Click identifier: letters, digits, `_` and `@`, with single slashes inside.
pub fn is_identifier(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_@".contains(&b))
    };
    text.split('/').all(part)
}

/// True for what Click calls a word: printable ASCII without space, quotes, backslash or comma.
pub fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"'\\,".contains(&b))
}

/// White space in the "C" locale.
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn space(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_space)
}

/// Where [`skip_opaque`] stopped.
pub(crate) struct Skip {
    /// One past the skipped bytes.
    pub(crate) pos: usize,
    /// True when the text ended before the quote or comment did.
    pub(crate) unclosed: bool,
}

/// Skips the quoted string, comment or `\<...>` that starts at `pos`, or the single byte there.
pub(crate) fn skip_opaque(bytes: &[u8], pos: usize) -> Skip {
    let open = Skip { pos: bytes.len(), unclosed: true };
    let closed = |pos: usize| Skip { pos, unclosed: false };
    let at = |i: usize| bytes.get(i).copied();
    let mut i = pos + 1;
    match (at(pos), at(pos + 1)) {
        (Some(b'\''), _) => {
            let end = bytes.get(i..).and_then(|rest| rest.iter().position(|&b| b == b'\''));
            end.map_or(open, |n| closed(i + n + 1))
        }
        (Some(b'"'), _) => loop {
            match (at(i), at(i + 1)) {
                (None, _) => return open,
                (Some(b'"'), _) => return closed(i + 1),
                (Some(b'\\'), Some(b'<')) => i = skip_opaque_data(bytes, i).pos,
                (Some(b'\\'), _) => i += 2,
                _ => i += 1,
            }
        },
        (Some(b'\\'), Some(b'<')) => skip_opaque_data(bytes, pos),
        (Some(b'/'), Some(b'/' | b'*')) => skip_comment(bytes, pos),
        (None, _) => closed(bytes.len()),
        _ => closed(i),
    }
}

/// Skips the comment that starts at `pos`, or the single byte there.
pub(crate) fn skip_comment_or_byte(bytes: &[u8], pos: usize) -> usize {
    if is_comment(bytes, pos) { skip_comment(bytes, pos).pos } else { pos + 1 }
}

/// Skips `\<...>`, which may contain comments.
fn skip_opaque_data(bytes: &[u8], pos: usize) -> Skip {
    let mut i = pos + 2;
    while let Some(&b) = bytes.get(i) {
        match (b, bytes.get(i + 1)) {
            (b'>', _) => return Skip { pos: i + 1, unclosed: false },
            (b'/', Some(b'/' | b'*')) => i = skip_comment(bytes, i).pos,
            _ => i += 1,
        }
    }
    Skip { pos: bytes.len(), unclosed: true }
}

/// Skips a comment; a line comment includes the end of the line.
fn skip_comment(bytes: &[u8], pos: usize) -> Skip {
    let rest = bytes.get(pos + 2..).unwrap_or_default();
    if bytes.get(pos + 1) == Some(&b'/') {
        let end = rest.iter().position(|&b| b == b'\n' || b == b'\r');
        return Skip { pos: end.map_or(bytes.len(), |n| pos + n + 3), unclosed: false };
    }
    let end = rest.windows(2).position(|pair| pair == b"*/");
    Skip { pos: end.map_or(bytes.len(), |n| pos + n + 4), unclosed: end.is_none() }
}

fn is_comment(bytes: &[u8], pos: usize) -> bool {
    bytes.get(pos) == Some(&b'/') && matches!(bytes.get(pos + 1), Some(b'/' | b'*'))
}

/// Skips space and comments.
fn skip_blank(bytes: &[u8], mut pos: usize) -> usize {
    loop {
        match bytes.get(pos) {
            Some(&b) if is_space(b) => pos += 1,
            Some(_) if is_comment(bytes, pos) => pos = skip_comment(bytes, pos).pos,
            _ => return pos,
        }
    }
}

/// The end of the word that starts at `pos`.
fn word_end(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(&b) = bytes.get(pos) {
        if is_space(b) || is_comment(bytes, pos) {
            break;
        }
        pos = skip_opaque(bytes, pos).pos;
    }
    pos
}

/// The text from `pos` to the end, or to a comma, without comments and outer space; and the position where it
/// stopped.
fn uncomment_from(text: &str, pos: usize, stop_at_comma: bool) -> (ArgText<'_>, usize) {
    let bytes = text.as_bytes();
    let start = skip_blank(bytes, pos);
    let (mut left, mut right, mut pos) = (start, start, start);
    let mut after_comment = false;
    let mut pieces = String::new();
    while let Some(&b) = bytes.get(pos) {
        if is_space(b) {
            pos += 1;
        } else if is_comment(bytes, pos) {
            pos = skip_comment(bytes, pos).pos;
            after_comment = true;
        } else if b == b',' && stop_at_comma {
            break;
        } else {
            if after_comment {
                pieces.push_str(text.get(left..right).unwrap_or(""));
                pieces.push(' ');
                left = pos;
                after_comment = false;
            }
            pos = skip_opaque(bytes, pos).pos;
            right = pos;
        }
    }
    let last = text.get(left..right).unwrap_or("");
    let text = if pieces.is_empty() { Cow::from(last) } else { Cow::from(pieces + last) };
    (ArgText { text, start, end: right }, pos)
}

/// Replaces the escape whose backslash is at `pos`; returns the position after it.
fn escape(bytes: &[u8], pos: usize, out: &mut Vec<u8>) -> usize {
    let Some(&kind) = bytes.get(pos + 1) else {
        out.push(b'\\');
        return bytes.len();
    };
    let digits = |from: usize, most: usize, valid: fn(&u8) -> bool| {
        bytes.iter().skip(from).take(most).take_while(|b| valid(b)).count()
    };
    let number = |from: usize, len: usize, base: u8| {
        let digit = |b: &u8| char::from(*b).to_digit(u32::from(base)).unwrap_or(0) as u8;
        let digits = bytes.iter().skip(from).take(len).map(digit);
        digits.fold(0u8, |value, digit| value.wrapping_mul(base).wrapping_add(digit))
    };
    match kind {
        b'\r' if bytes.get(pos + 2) == Some(&b'\n') => return pos + 3,
        b'\r' | b'\n' => {}
        b'a' => out.push(0x07),
        b'b' => out.push(0x08),
        b'f' => out.push(0x0c),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'v' => out.push(0x0b),
        b'0'..=b'7' => {
            let len = digits(pos + 1, 3, |b| (b'0'..=b'7').contains(b));
            out.push(number(pos + 1, len, 8));
            return pos + 1 + len;
        }
        b'x' => {
            let len = digits(pos + 2, usize::MAX, u8::is_ascii_hexdigit);
            out.push(number(pos + 2, len, 16));
            return pos + 2 + len;
        }
        b'<' => {
            let end = skip_opaque_data(bytes, pos).pos;
            hex_data(bytes.get(pos + 2..end).unwrap_or_default(), out);
            return end;
        }
        other => out.push(other),
    }
    pos + 2
}

/// The bytes given by pairs of hexadecimal digits; skips everything else, including comments.
fn hex_data(text: &[u8], out: &mut Vec<u8>) {
    let mut high = None;
    let mut pos = 0;
    while let Some(&b) = text.get(pos) {
        if is_comment(text, pos) {
            pos = skip_comment(text, pos).pos;
            continue;
        }
        pos += 1;
        let Some(digit) = char::from(b).to_digit(16) else { continue };
        match high.take() {
            None => high = Some(digit as u8),
            Some(first) => out.push(first << 4 | digit as u8),
        }
    }
}

//! Files of patterns: [plain](plain) ones, a pattern a line, and ones of [rules as Snort has them](snort).

mod cursor;
mod plain;
mod snort;
#[cfg(test)]
mod tests;
mod write;

use cursor::Cursor;
pub use cursor::ParseError;
pub use plain::PlainOptions;

use super::PatternSet;

/// How a file of patterns is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// As rules if its first word, after comments, is `alert`, else plain.
    #[default]
    Auto,
    /// A pattern a line. Blanks at both ends are not part of it; a line of blanks, or one that begins with `#`, is
    /// nothing. Escapes as in C (`\n`, `\x1f`, `\0`, `\\`...), `\#` and `\|`; bytes in hexadecimal between bars
    /// (`|0d 0a|`).
    Plain,
    /// A rule as Snort writes them: `alert tcp any any -> any any (content:"x"; msg:"y"; sid:1;)`.
    Snort,
}

impl PatternSet {
    /// Reads a file of patterns. Patterns may be of any bytes, so it need not be UTF-8.
    pub fn parse(text: &[u8], format: Format, plain: PlainOptions) -> Result<Self, ParseError> {
        // Some editors begin every file with a byte order mark; as a pattern it is written between bars.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut cursor = Cursor::new(text);
        match format {
            Format::Snort => snort::parse(&mut cursor),
            Format::Plain => plain::parse(&mut cursor, plain),
            Format::Auto => match is_rule(first_line(text)) {
                true => snort::parse(&mut cursor),
                false => plain::parse(&mut cursor, plain),
            },
        }
    }
}

/// The first line of a file that is no comment.
fn first_line(text: &[u8]) -> &[u8] {
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find(|line| !line.is_empty() && line[0] != b'#').unwrap_or(b"")
}

/// Whether a line begins as Snort's rules do. Its other actions are told as such, too, so that rules which cannot be
/// carried out are not searched for as if they were patterns.
fn is_rule(line: &[u8]) -> bool {
    const OTHERS: [&[u8]; 6] = [b"block", b"drop", b"log", b"pass", b"reject", b"sdrop"];
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match words.next() {
        Some(b"alert") => true,
        Some(action) => OTHERS.contains(&action) && words.any(|word| matches!(word, b"->" | b"<>")),
        None => false,
    }
}

//! Files of patterns: [plain](plain) files with one pattern per line, and files of [Snort rules](snort).

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

/// The format of a file of patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Snort rules if the first word after comments is `alert`, otherwise plain.
    #[default]
    Auto,
    /// One pattern per line. Blanks at both ends are not part of it. Blank lines and lines that begin with `#` are
    /// ignored. Escapes are those of C (`\n`, `\x1f`, `\0`, `\\`...), `\#` and `\|`. Bytes in hexadecimal are written
    /// between bars (`|0d 0a|`).
    Plain,
    /// A rule as Snort writes them: `alert tcp any any -> any any (content:"x"; msg:"y"; sid:1;)`.
    Snort,
}

impl PatternSet {
    /// Reads a file of patterns. Patterns may contain any bytes, so the file need not be UTF-8.
    pub fn parse(text: &[u8], format: Format, plain: PlainOptions) -> Result<Self, ParseError> {
        // Some editors begin every file with a byte order mark. As part of a pattern it must be written between bars.
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

/// The first line of a file that is not a comment.
fn first_line(text: &[u8]) -> &[u8] {
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find(|line| !line.is_empty() && line[0] != b'#').unwrap_or(b"")
}

/// True if a line begins like a Snort rule. Other actions of Snort are recognised as well, so that rules that are not
/// supported are not taken for plain patterns.
fn is_rule(line: &[u8]) -> bool {
    const OTHERS: [&[u8]; 6] = [b"block", b"drop", b"log", b"pass", b"reject", b"sdrop"];
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match words.next() {
        Some(b"alert") => true,
        Some(action) => OTHERS.contains(&action) && words.any(|word| matches!(word, b"->" | b"<>")),
        None => false,
    }
}

//! Packet contents as lines of text.

use std::fmt::Write;

use millrace_core::Arg;
use millrace_core::args::{ArgError, ArgText, Scope};

/// How contents are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Not at all.
    #[default]
    None,
    /// In hexadecimal.
    Hex,
    /// As text, with dots for bytes that cannot be printed.
    Ascii,
}

impl Arg for Contents {
    const EXPECTS: &'static str = "HEX, ASCII or NONE";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        if let Ok(hex) = bool::parse(text, scope) {
            return Ok(if hex { Self::Hex } else { Self::None });
        }
        match text.as_str().to_ascii_uppercase().as_str() {
            "NONE" => Ok(Self::None),
            "HEX" => Ok(Self::Hex),
            "ASCII" => Ok(Self::Ascii),
            _ => Err(ArgError::new(format!(
                "bad contents value '{}'; should be 'NONE', 'HEX', or 'ASCII'",
                text.as_str()
            ))),
        }
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// Appends bytes in hexadecimal, in groups of four. Each line of `line` bytes begins with `next`.
pub(crate) fn hex(text: &mut String, bytes: &[u8], line: usize, next: &str) {
    for (at, byte) in bytes.iter().enumerate() {
        separate(text, at, 4, line, next);
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
}

/// Appends bytes as text, in groups of eight. Each line of `line` bytes begins with `next`.
pub(crate) fn ascii(text: &mut String, bytes: &[u8], line: usize, next: &str) {
    for (at, &byte) in bytes.iter().enumerate() {
        separate(text, at, 8, line, next);
        text.push(if (32..=126).contains(&byte) { byte.into() } else { '.' });
    }
}

fn separate(text: &mut String, at: usize, group: usize, line: usize, next: &str) {
    if at.is_multiple_of(line) {
        text.push_str(next);
    } else if at.is_multiple_of(group) {
        text.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_grouped() {
        let mut text = String::new();
        hex(&mut text, b"\x00\x01\x02\x03\xff", usize::MAX, "");
        assert_eq!(text, "00010203 ff");
        let mut text = String::new();
        ascii(&mut text, b"abcdefgh\x00j", usize::MAX, "");
        assert_eq!(text, "abcdefgh .j");
        let mut text = String::new();
        hex(&mut text, &[0x41; 5], 4, "\n  ");
        assert_eq!(text, "\n  41414141\n  41");
    }
}

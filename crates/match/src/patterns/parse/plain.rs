//! Plain files: one pattern per line.

use super::cursor::{Cursor, ParseError, show};
use crate::patterns::{Content, PatternSet, Rule};

/// Options for plain patterns.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainOptions {
    /// True if `A` to `Z` match `a` to `z` in all patterns.
    pub nocase: bool,
}

pub(super) fn parse(
    cursor: &mut Cursor<'_>,
    options: PlainOptions,
) -> Result<PatternSet, ParseError> {
    let mut set = PatternSet::new();
    while cursor.peek().is_some() {
        cursor.skip_blanks();
        let place = cursor.place();
        if !matches!(cursor.peek(), Some(b'#' | b'\n') | None) {
            let content = Content { nocase: options.nocase, ..Content::of(pattern(cursor)?) };
            set.push(Rule::of(content)).map_err(|error| place.set_error(&error))?;
        }
        cursor.skip_line();
    }
    Ok(set)
}

/// Reads a pattern up to the end of its line, which is not empty.
fn pattern(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, ParseError> {
    let mut bytes = Vec::new();
    while !cursor.line_is_over() {
        let place = cursor.place();
        match cursor.next() {
            Some(b'|') => cursor.hex_run(place, &mut bytes)?,
            Some(b'\\') => bytes.push(escape(cursor)?),
            Some(byte) => bytes.push(byte),
            None => break,
        }
    }
    Ok(bytes)
}

/// Reads what follows a backslash.
fn escape(cursor: &mut Cursor<'_>) -> Result<u8, ParseError> {
    let place = cursor.place();
    Ok(match cursor.next() {
        Some(b'a') => 7,
        Some(b'b') => 8,
        Some(b't') => b'\t',
        Some(b'n') => b'\n',
        Some(b'v') => 11,
        Some(b'f') => 12,
        Some(b'r') => b'\r',
        Some(b'x') => {
            let place = cursor.place();
            return cursor.hex_byte(place);
        }
        Some(digit @ b'0'..=b'7') => {
            let mut value = u32::from(digit - b'0');
            for _ in 0..2 {
                if let Some(digit @ b'0'..=b'7') = cursor.peek() {
                    cursor.next();
                    value = value * 8 + u32::from(digit - b'0');
                }
            }
            return u8::try_from(value)
                .map_err(|_| place.error(format!("'\\{value:o}' is no byte")));
        }
        Some(byte @ (b'\\' | b'\'' | b'"' | b'?' | b'#' | b'|' | b' ')) => byte,
        Some(byte) => {
            return Err(place.error(format!("unknown escape '\\{}'", show(&[byte]))));
        }
        None => return Err(place.error("nothing after '\\'")),
    })
}

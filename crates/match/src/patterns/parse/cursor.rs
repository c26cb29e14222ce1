//! The position of a parser in its file, and the common parts of both formats.

use crate::patterns::SetError;

/// An error in a file of patterns, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The byte in the line, from 1.
    pub column: usize,
    /// The error, with the word in question.
    pub message: String,
}

/// A position in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    /// An error at this position.
    pub(super) fn error(self, message: impl Into<String>) -> ParseError {
        ParseError { line: self.line, column: self.column, message: message.into() }
    }

    /// An error about a rule at this position.
    pub(super) fn set_error(self, error: &SetError) -> ParseError {
        self.error(error.to_string())
    }
}

/// Reads bytes, and keeps track of the position.
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
    line_began: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, line: 1, line_began: 0 }
    }

    pub(super) fn place(&self) -> Place {
        Place { line: self.line, column: self.at - self.line_began + 1 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        if byte == b'\n' {
            self.line += 1;
            self.line_began = self.at;
        }
        Some(byte)
    }

    /// Takes a byte if it is the next one.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        if here {
            self.next();
        }
        here
    }

    /// Takes bytes as long as `is` holds.
    pub(super) fn take_while(&mut self, is: impl Fn(u8) -> bool) -> &'a [u8] {
        let began = self.at;
        while self.peek().is_some_and(&is) {
            self.next();
        }
        &self.text[began..self.at]
    }

    /// Blanks within a line.
    pub(super) fn skip_blanks(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    }

    /// Skips the rest of the line, including its end.
    pub(super) fn skip_line(&mut self) {
        self.take_while(|byte| byte != b'\n');
        self.next();
    }

    /// True if the rest of the line is blank.
    pub(super) fn line_is_over(&self) -> bool {
        let rest = self.text[self.at..].iter().take_while(|&&byte| byte != b'\n');
        rest.into_iter().all(u8::is_ascii_whitespace)
    }

    /// Reads bytes in hexadecimal up to the closing bar. The opening one was read before.
    pub(super) fn hex_run(&mut self, began: Place, bytes: &mut Vec<u8>) -> Result<(), ParseError> {
        let before = bytes.len();
        loop {
            self.skip_blanks();
            let place = self.place();
            match self.peek() {
                Some(b'|') if bytes.len() > before => {
                    self.next();
                    return Ok(());
                }
                Some(b'|') => return Err(place.error("no bytes between the bars '||'")),
                None | Some(b'\n') => return Err(began.error("the bar '|' is not closed")),
                Some(_) => bytes.push(self.hex_byte(place)?),
            }
        }
    }

    /// Reads a byte as two hexadecimal digits.
    pub(super) fn hex_byte(&mut self, place: Place) -> Result<u8, ParseError> {
        let mut digits = [0; 2];
        for digit in &mut digits {
            let value = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            *digit = value.ok_or_else(|| {
                let word = word_from(&self.text[self.at..]);
                place.error(format!("two hexadecimal digits are expected, not '{word}'"))
            })?;
            self.next();
        }
        Ok((digits[0] * 16 + digits[1]) as u8)
    }
}

/// The word at the start of a text, for messages; at least one character.
fn word_from(text: &[u8]) -> String {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"|;\"".contains(byte);
    let end = text.iter().position(ends).unwrap_or(text.len()).clamp(1, 16);
    show(&text[..end.min(text.len())])
}

/// A text, shortened for messages.
pub(super) fn show(text: &[u8]) -> String {
    text.escape_ascii().to_string()
}

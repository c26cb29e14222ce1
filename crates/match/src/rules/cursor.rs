//! Reads a line of a rule file word by word, and makes errors with positions.

use std::borrow::Cow;
use std::fmt;
use std::num::IntErrorKind;

/// An error in a line, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RuleError {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The error.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

/// An error at a byte of the line.
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) message: String,
}

impl Wrong {
    pub(super) fn on_line(self, line: &str, number: usize) -> RuleError {
        let before = line.get(..self.at).map_or(self.at, |text| text.chars().count());
        RuleError { line: number, column: before + 1, message: self.message }
    }
}

pub(super) type Read<T> = Result<T, Wrong>;

/// A position in a line, without its comment.
pub(super) struct Cursor<'a> {
    pub(super) line: &'a str,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        Self { line: line.trim_end(), at: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.line.get(self.at..).unwrap_or_default()
    }

    pub(super) fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest().as_bytes().first() == Some(&byte);
        self.at += usize::from(found);
        found
    }

    /// An error about the next word.
    pub(super) fn wrong_word(&mut self, expected: &str) -> Wrong {
        self.skip_space();
        match self.rest().split_whitespace().next() {
            Some(word) => self.wrong(format!("{expected}, not ‘{}’", shown(word))),
            None => self.wrong(format!("{expected}, not the end of the line")),
        }
    }

    pub(super) fn wrong(&self, message: impl Into<String>) -> Wrong {
        Wrong { at: self.at, message: message.into() }
    }

    /// The next word. `expected` says what it should be.
    pub(super) fn word(&mut self, expected: &str) -> Read<Word<'a>> {
        self.skip_space();
        let rest = self.rest();
        let text = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
        if text.is_empty() {
            return Err(self.wrong(format!("expected {expected} not the end of the line")));
        }
        let word = Word { at: self.at, text };
        self.at += text.len();
        Ok(word)
    }

    pub(super) fn port(&mut self, end: &str) -> Read<u16> {
        self.skip_space();
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(self.wrong_word(&format!("expected a {end} port")));
        }
        let word = Word { at: self.at, text: &rest[..digits] };
        self.at += digits;
        Ok(word.decimal(0xffff)? as u16)
    }
}

/// A word as messages show it; a long one is shortened.
pub(super) fn shown(word: &str) -> Cow<'_, str> {
    match word.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &word[..end]).into(),
        None => word.into(),
    }
}

/// A part of a line.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) at: usize,
    pub(super) text: &'a str,
}

impl<'a> Word<'a> {
    pub(super) fn wrong(&self, message: impl Into<String>) -> Wrong {
        Wrong { at: self.at, message: message.into() }
    }

    pub(super) fn split(&self, by: char) -> Option<(Self, Self)> {
        let (before, behind) = self.text.split_once(by)?;
        let at = self.at + before.len() + by.len_utf8();
        Some((Self { text: before, ..*self }, Self { at, text: behind }))
    }

    /// The name before `=`, and the text after it.
    pub(super) fn named(&self) -> (&'a str, Option<Self>) {
        self.split('=').map_or((self.text, None), |(name, value)| (name.text, Some(value)))
    }

    /// A value and its mask.
    pub(super) fn halves(&self, expected: &str) -> Read<(Self, Self)> {
        let message = || self.wrong(format!("expected {expected}, not ‘{}’", shown(self.text)));
        self.split('/').ok_or_else(message)
    }

    /// A number, decimal or hexadecimal with `0x`.
    pub(super) fn number(&self, most: u64) -> Read<u64> {
        let hex = self.text.strip_prefix("0x").or_else(|| self.text.strip_prefix("0X"));
        match hex {
            Some(digits) => self.digits(digits, 16, most),
            None => self.decimal(most),
        }
    }

    pub(super) fn decimal(&self, most: u64) -> Read<u64> {
        self.digits(self.text, 10, most)
    }

    pub(super) fn digits(&self, digits: &str, radix: u32, most: u64) -> Read<u64> {
        let number = match u64::from_str_radix(digits, radix) {
            _ if digits.starts_with(['+', '-']) => None,
            Ok(number) => Some(number),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => Some(u64::MAX),
            Err(_) => None,
        };
        match number {
            None => Err(self.wrong(format!("‘{}’ is not a number", shown(self.text)))),
            Some(number) if number > most && radix == 16 => {
                Err(self.wrong(format!("‘{}’ is more than {most:#x}", shown(self.text))))
            }
            Some(number) if number > most => {
                Err(self.wrong(format!("‘{}’ is more than {most}", shown(self.text))))
            }
            Some(number) => Ok(number),
        }
    }

    pub(super) fn ipv4(&self) -> Read<u32> {
        let mut address = 0;
        let mut parts = 0;
        for part in self.text.split('.') {
            let fits = (1..=3).contains(&part.len()) && part.bytes().all(|it| it.is_ascii_digit());
            let Some(byte) = part.parse::<u8>().ok().filter(|_| fits) else {
                return Err(self.no_ipv4());
            };
            address = address << 8 | u32::from(byte);
            parts += 1;
        }
        if parts == 4 { Ok(address) } else { Err(self.no_ipv4()) }
    }

    pub(super) fn no_ipv4(&self) -> Wrong {
        self.wrong(format!("‘{}’ is not an IPv4 address", shown(self.text)))
    }

    pub(super) fn ethernet(&self) -> Read<u64> {
        let mut address = 0;
        let mut parts = 0;
        for part in self.text.split([':', '-']) {
            let fits =
                (1..=2).contains(&part.len()) && part.bytes().all(|it| it.is_ascii_hexdigit());
            let byte = u8::from_str_radix(part, 16).ok().filter(|_| fits);
            let Some(byte) = byte.filter(|_| parts < 6) else { return Err(self.no_ethernet()) };
            address = address << 8 | u64::from(byte);
            parts += 1;
        }
        if parts == 6 { Ok(address) } else { Err(self.no_ethernet()) }
    }

    pub(super) fn no_ethernet(&self) -> Wrong {
        self.wrong(format!("‘{}’ is not an Ethernet address", shown(self.text)))
    }
}

//! Keys, from the bytes that a terminal sends for them.
//!
//! The event loop of crossterm would read the terminal itself: it installs signal handlers, does not end when the terminal
//! is gone, and waits inside of a sequence that does not go on.

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Turns bytes into keys. A sequence may come in parts.
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    pending: Vec<u8>,
}

/// The longest sequence that means something; longer ones are dropped.
const LONGEST: usize = 16;

impl Keyboard {
    /// Takes bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<KeyEvent> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut at = 0;
        while let Some(rest) = self.pending.get(at..).filter(|rest| !rest.is_empty()) {
            match decoded(rest) {
                Some((key, length)) => {
                    keys.extend(key);
                    at += length;
                }
                None if rest.len() > LONGEST => at += 1,
                None => break,
            }
        }
        self.pending.drain(..at);
        keys
    }

    /// Whether a key may have come in part.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Nothing more has come for a while: what begins like a sequence is the escape key.
    pub(super) fn settle(&mut self) -> Vec<KeyEvent> {
        let pending = std::mem::take(&mut self.pending);
        match pending.as_slice() {
            [ESCAPE] => vec![plain(KeyCode::Esc)],
            [ESCAPE, rest @ ..] => {
                let rest = String::from_utf8_lossy(rest).into_owned();
                let rest = rest.chars().filter(|c| !c.is_control()).map(KeyCode::Char);
                std::iter::once(KeyCode::Esc).chain(rest).map(plain).collect()
            }
            _ => Vec::new(),
        }
    }
}

const ESCAPE: u8 = 0x1b;

fn plain(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// The first key, if it means something, and how many bytes it has; none if it is not complete.
fn decoded(bytes: &[u8]) -> Option<(Option<KeyEvent>, usize)> {
    let key = |code| Some((Some(plain(code)), 1));
    match *bytes.first()? {
        ESCAPE => match bytes.get(1)? {
            b'[' | b'O' => sequence(bytes),
            // A key together with Alt, or two keys that came together.
            _ => key(KeyCode::Esc),
        },
        b'\r' | b'\n' => key(KeyCode::Enter),
        b'\t' => key(KeyCode::Tab),
        0x7f | 0x08 => key(KeyCode::Backspace),
        control @ 1..=26 => {
            let letter = char::from(control - 1 + b'a');
            Some((Some(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)), 1))
        }
        0..0x20 => Some((None, 1)),
        _ => letter(bytes),
    }
}

/// A sequence of ECMA-48: parameters, and a last byte that says what it is.
fn sequence(bytes: &[u8]) -> Option<(Option<KeyEvent>, usize)> {
    let body = bytes.get(2..)?;
    let end = body.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let number = body.get(..end)?.split(|byte| *byte == b';').next().unwrap_or_default();
    let code = match (body.get(end)?, number) {
        (b'A', _) => Some(KeyCode::Up),
        (b'B', _) => Some(KeyCode::Down),
        (b'C', _) => Some(KeyCode::Right),
        (b'D', _) => Some(KeyCode::Left),
        (b'H', _) | (b'~', b"1" | b"7") => Some(KeyCode::Home),
        (b'F', _) | (b'~', b"4" | b"8") => Some(KeyCode::End),
        (b'Z', _) => Some(KeyCode::BackTab),
        (b'P', _) | (b'~', b"11") => Some(KeyCode::F(1)),
        (b'~', b"5") => Some(KeyCode::PageUp),
        (b'~', b"6") => Some(KeyCode::PageDown),
        _ => None,
    };
    Some((code.map(plain), end + 3))
}

/// A character in UTF-8. A byte that belongs to none is dropped.
fn letter(bytes: &[u8]) -> Option<(Option<KeyEvent>, usize)> {
    let length = match *bytes.first()? {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return Some((None, 1)),
    };
    let head = bytes.get(..length.min(bytes.len()))?;
    match std::str::from_utf8(head) {
        Ok(text) => Some((text.chars().next().map(KeyCode::Char).map(plain), length)),
        Err(error) if error.error_len().is_none() => None,
        Err(_) => Some((None, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(keys: Vec<KeyEvent>) -> Vec<KeyCode> {
        keys.into_iter().map(|key| key.code).collect()
    }

    #[test]
    fn bytes_are_keys() {
        let cases: [(&[u8], &[KeyCode]); 12] = [
            (b"aG/", &[KeyCode::Char('a'), KeyCode::Char('G'), KeyCode::Char('/')]),
            (
                b"\r\t\x7f\x08",
                &[KeyCode::Enter, KeyCode::Tab, KeyCode::Backspace, KeyCode::Backspace],
            ),
            (
                b"\x1b[A\x1bOB\x1b[C\x1b[D",
                &[KeyCode::Up, KeyCode::Down, KeyCode::Right, KeyCode::Left],
            ),
            (
                b"\x1b[H\x1b[1~\x1b[F\x1b[4~",
                &[KeyCode::Home, KeyCode::Home, KeyCode::End, KeyCode::End],
            ),
            (b"\x1b[5~\x1b[6~\x1b[Z", &[KeyCode::PageUp, KeyCode::PageDown, KeyCode::BackTab]),
            (b"\x1bOP\x1b[11~", &[KeyCode::F(1), KeyCode::F(1)]),
            // With a modifier; keys without a meaning; an answer of the terminal.
            (b"\x1b[1;5A", &[KeyCode::Up]),
            (b"\x1b[24~\x1b[?1;2cx", &[KeyCode::Char('x')]),
            (b"\x1bq", &[KeyCode::Esc, KeyCode::Char('q')]),
            (b"\x1b\x1b[A", &[KeyCode::Esc, KeyCode::Up]),
            ("\u{e9}\u{4e16}".as_bytes(), &[KeyCode::Char('\u{e9}'), KeyCode::Char('\u{4e16}')]),
            (b"\xff\xc3(\x80x\0", &[KeyCode::Char('('), KeyCode::Char('x')]),
        ];
        for (bytes, keys) in cases {
            let mut keyboard = Keyboard::default();
            let mut came = codes(keyboard.take(bytes));
            came.retain(|code| keys.contains(code));
            assert_eq!(came, keys, "{bytes:?}");
            // Byte by byte it is the same.
            let mut keyboard = Keyboard::default();
            let each = bytes.iter().flat_map(|byte| keyboard.take(&[*byte])).collect();
            let mut each = codes(each);
            each.retain(|code| keys.contains(code));
            assert_eq!(each, keys, "{bytes:?}");
        }
        let control = Keyboard::default().take(b"\x03");
        assert_eq!(control, [KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)]);
    }

    #[test]
    fn an_escape_that_nothing_follows_is_a_key() {
        let mut keyboard = Keyboard::default();
        assert_eq!(keyboard.take(b"\x1b"), []);
        assert!(keyboard.is_pending());
        assert_eq!(codes(keyboard.settle()), [KeyCode::Esc]);
        assert_eq!(keyboard.take(b"\x1b["), []);
        assert_eq!(codes(keyboard.settle()), [KeyCode::Esc, KeyCode::Char('[')]);
        assert!(!keyboard.is_pending());
        // One that never ends is not kept.
        keyboard.take(b"\x1b[");
        (0..1000).for_each(|_| drop(keyboard.take(b"0")));
        assert!(keyboard.pending.len() <= LONGEST);
    }
}

//! The common part of the text formats of IP and TCP options.

use super::field::append;
use super::text::leading_number;

/// The maximum length of options.
const MAX_LEN: usize = 40;

/// A text that is consumed from its start.
pub(crate) struct Cursor<'t> {
    pub(crate) rest: &'t [u8],
}

impl Cursor<'_> {
    pub(crate) fn next(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub(crate) fn at(&self, offset: usize) -> Option<u8> {
        self.rest.get(offset).copied()
    }

    pub(crate) fn has_digit_at(&self, offset: usize) -> bool {
        self.at(offset).is_some_and(|byte| byte.is_ascii_digit())
    }

    pub(crate) fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    /// Consumes a word, if the text continues with it.
    pub(crate) fn eat(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word.as_bytes());
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Consumes a word, if the text continues with it and does not end there.
    pub(crate) fn eat_before(&mut self, word: &str) -> bool {
        self.rest.len() > word.len() && self.eat(word)
    }

    /// Consumes a number of at most `most`.
    pub(crate) fn number(&mut self, radix: Option<u32>, most: u32) -> Option<u32> {
        let (number, length) = leading_number(self.rest, radix);
        if length == 0 || number > most {
            return None;
        }
        self.skip(length);
        Some(number)
    }

    /// Consumes an option given as a number and optional data bytes: `99=0:5`.
    pub(crate) fn numbered(&mut self, out: &mut Vec<u8>) -> Option<()> {
        out.push(self.number(None, 255)? as u8);
        if self.next() != Some(b'=') || !self.has_digit_at(1) {
            return Some(());
        }
        let start = out.len() - 1;
        out.push(0);
        loop {
            self.skip(1);
            out.push(self.number(None, 255)? as u8);
            if self.next() != Some(b':') || !self.has_digit_at(1) {
                break;
            }
        }
        end_option(out, start)
    }

    /// Consumes a padding option.
    pub(crate) fn padding(&mut self, out: &mut Vec<u8>) -> bool {
        if self.eat("nop") {
            out.push(1);
            return true;
        }
        let is_end = self.rest.starts_with(b"eol") && self.at(3) != Some(b',');
        if is_end {
            self.skip(3);
            out.push(0);
        }
        is_end
    }
}

/// Sets the length byte of the option that begins at `start`.
pub(crate) fn end_option(out: &mut [u8], start: usize) -> Option<()> {
    let length = u8::try_from(out.len() - start).ok()?;
    *out.get_mut(start + 1)? = length;
    Some(())
}

/// The options, if they are not too long. Leading padding is removed as needed.
pub(crate) fn within_limit(mut options: Vec<u8>) -> Option<Vec<u8>> {
    let surplus = options.len().saturating_sub(MAX_LEN);
    let padding = options.iter().take_while(|&&byte| byte == 1).count();
    options.drain(..surplus.min(padding));
    (options.len() <= MAX_LEN).then_some(options)
}

/// Writes an option as its number and its data bytes.
pub(crate) fn show_numbered(out: &mut Vec<u8>, option: &[u8]) {
    for (index, byte) in option.iter().enumerate() {
        match index {
            0 => append(out, format_args!("{byte}")),
            1 => {}
            2 => append(out, format_args!("={byte}")),
            _ => append(out, format_args!(":{byte}")),
        }
    }
}

/// The options one by one, without padding; `None` for one that is truncated.
pub(crate) fn each(options: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = options;
    std::iter::from_fn(move || {
        while let Some((1, next)) = rest.split_first() {
            rest = next;
        }
        if rest.first().is_none_or(|&kind| kind == 0) {
            return None;
        }
        let length = rest.get(1).copied().unwrap_or_default();
        let found = rest.split_at_checked(length.into()).filter(|_| length >= 2);
        rest = found.map_or(&[], |(_, next)| next);
        Some(found.map(|(option, _)| option))
    })
}

//! Variables in configuration strings: `$name`, `${name}`, `${name-default}`, `${name[2]}` and
//! `$(call)`.
//!
//! Compound expansion replaces the names of its scopes; a script replaces its own variables and calls. Both
//! use [`expand`] with a function that returns the value of a name. References that the function does not
//! know do not change, so that a second expansion can find them.
//!
//! ```
//! use std::borrow::Cow;
//! use millrace_lang::variables::{Reference, expand};
//!
//! let lookup = |name: Reference<'_>| match name {
//!     Reference::Name("DEV") => Some(Cow::from("eth0")),
//!     _ => None,
//! };
//! let text = expand("$DEV, ${DEV}.1, '$DEV', $OTHER, ${MTU-1500}", 1000, lookup).unwrap();
//! assert_eq!(text, "eth0, eth0.1, '$DEV', $OTHER, 1500");
//! ```

use std::borrow::Cow;

use crate::config;

/// A reference after a `$`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// `$name` or `${name}`; also `$?`, `$#` and `$$`.
    Name(&'a str),
    /// `$(text)`, with the variables in the text already replaced.
    Call(&'a str),
}

/// The expanded text would be longer than the caller allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the expanded text is too long")]
pub struct TooLong;

/// Calls nested deeper than this do not change.
const MAX_NESTING: usize = 32;

/// Replaces the variables of a configuration string.
///
/// Nothing is replaced inside single quotes, in comments, and after a backslash in double quotes. Inside
/// double quotes the value is quoted as by [`config::quote`], so that it stays one string. `${name-default}`
/// gives the default when the name is unknown, `${name[2]}` the third word of the value.
///
/// # Errors
/// The result would have more than `limit` bytes.
pub fn expand<'t, 'v>(
    text: &'t str,
    limit: usize,
    lookup: impl FnMut(Reference<'_>) -> Option<Cow<'v, str>>,
) -> Result<Cow<'t, str>, TooLong> {
    expand_as(text, false, limit, lookup)
}

/// Like [`expand`], but puts a value that replaces a variable outside quotes into double quotes, as Click
/// does with the words of a script.
///
/// # Errors
/// The result would have more than `limit` bytes.
pub fn expand_quoted<'t, 'v>(
    text: &'t str,
    limit: usize,
    lookup: impl FnMut(Reference<'_>) -> Option<Cow<'v, str>>,
) -> Result<Cow<'t, str>, TooLong> {
    expand_as(text, true, limit, lookup)
}

fn expand_as<'t, 'v>(
    text: &'t str,
    quote_values: bool,
    limit: usize,
    mut lookup: impl FnMut(Reference<'_>) -> Option<Cow<'v, str>>,
) -> Result<Cow<'t, str>, TooLong> {
    let mut expander = Expander { lookup: &mut lookup, limit };
    expander.expand(text, quote_values, 0)
}

/// The first variable of a configuration string that [`expand`] would ask for by a name that a configuration can define.
pub fn first_name(text: &str) -> Option<String> {
    if !text.contains('$') {
        return None;
    }
    let mut first = None;
    // Nothing is replaced, so nothing gets longer.
    let _ = expand(text, text.len(), |reference| {
        if let Reference::Name(name) = reference
            && first.is_none()
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        {
            first = Some(name.to_owned());
        }
        None
    });
    first
}

/// The names that follow a `$` anywhere in a text, whether something would be replaced there or not.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_');
        rest.get(..end.unwrap_or(rest.len())).filter(|name| !name.is_empty())
    })
}

type Lookup<'f, 'v> = &'f mut dyn FnMut(Reference<'_>) -> Option<Cow<'v, str>>;

struct Expander<'f, 'v> {
    lookup: Lookup<'f, 'v>,
    limit: usize,
}

impl Expander<'_, '_> {
    fn expand<'t>(
        &mut self,
        text: &'t str,
        quote_values: bool,
        nesting: usize,
    ) -> Result<Cow<'t, str>, TooLong> {
        let bytes = text.as_bytes();
        let mut out = String::new();
        let (mut copied, mut pos) = (0, 0);
        let mut quote = None;
        while let Some(&b) = bytes.get(pos) {
            match b {
                b'\\' if quote == Some(b'"') => pos += 1,
                b'"' | b'\'' if quote.is_none() => quote = Some(b),
                b'"' | b'\'' if quote == Some(b) => quote = None,
                b'/' if quote.is_none() => {
                    pos = config::skip_comment_or_byte(bytes, pos);
                    continue;
                }
                b'$' if quote != Some(b'\'') => {
                    let found = match find(text, pos) {
                        Dollar::Reference(found) => found,
                        Dollar::Plain => {
                            pos += 1;
                            continue;
                        }
                        // As in Click, nothing after it is replaced either.
                        Dollar::Unclosed => break,
                    };
                    let value = self.value(&found, nesting)?;
                    let end = found.end();
                    if let Some(value) = value {
                        out.push_str(text.get(copied..pos).unwrap_or(""));
                        copied = end;
                        match quote {
                            None if quote_values => out.push_str(&config::quote(value.as_bytes())),
                            None => out.push_str(&value),
                            Some(_) => out.push_str(&quote_inside(&value)),
                        }
                        if out.len() > self.limit {
                            return Err(TooLong);
                        }
                    }
                    pos = end;
                    continue;
                }
                _ => {}
            }
            pos += 1;
        }
        if copied == 0 {
            return Ok(Cow::from(text));
        }
        out.push_str(text.get(copied..).unwrap_or(""));
        if out.len() > self.limit { Err(TooLong) } else { Ok(Cow::from(out)) }
    }

    /// The value of a reference; `None` when it must not change.
    fn value(&mut self, found: &Found<'_>, nesting: usize) -> Result<Option<String>, TooLong> {
        match *found {
            Found::Name { name, .. } => {
                Ok((self.lookup)(Reference::Name(name)).map(Cow::into_owned))
            }
            Found::Braced { name, index, default, .. } => {
                let value = (self.lookup)(Reference::Name(name)).map(Cow::into_owned);
                match (value, index, default) {
                    (Some(value), None, _) => Ok(Some(value)),
                    (Some(value), Some(index), _) => {
                        let index = match nesting < MAX_NESTING {
                            true => self.expand(index, false, nesting + 1)?,
                            false => Cow::from(index),
                        };
                        let Ok(index) = index.trim().parse::<usize>() else { return Ok(None) };
                        let words = config::split_words(&value);
                        Ok(Some(words.get(index).map_or(String::new(), |w| w.text.to_owned())))
                    }
                    (None, _, Some(default)) if nesting < MAX_NESTING => {
                        self.expand(default, false, nesting + 1).map(|s| Some(s.into_owned()))
                    }
                    (None, ..) => Ok(None),
                }
            }
            Found::Call { text, .. } => {
                if nesting >= MAX_NESTING {
                    return Ok(None);
                }
                let inner = self.expand(text, false, nesting + 1)?;
                match (self.lookup)(Reference::Call(&inner)) {
                    Some(value) => Ok(Some(value.into_owned())),
                    None if inner == text => Ok(None),
                    // The call is for somebody else, but its variables were ours.
                    None => Ok(Some(format!("$({inner})"))),
                }
            }
        }
    }
}

/// The form of a value inside double quotes.
fn quote_inside(value: &str) -> String {
    let quoted = config::quote(value.as_bytes());
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or("").to_owned()
}

/// A reference in a text.
enum Found<'t> {
    Name { name: &'t str, end: usize },
    Braced { name: &'t str, index: Option<&'t str>, default: Option<&'t str>, end: usize },
    Call { text: &'t str, end: usize },
}

impl Found<'_> {
    fn end(&self) -> usize {
        match *self {
            Found::Name { end, .. } | Found::Braced { end, .. } | Found::Call { end, .. } => end,
        }
    }
}

/// The meaning of a `$`.
enum Dollar<'t> {
    Reference(Found<'t>),
    /// A dollar sign without special meaning.
    Plain,
    /// The start of a reference that is not closed.
    Unclosed,
}

/// The meaning of the `$` at `pos`.
fn find(text: &str, pos: usize) -> Dollar<'_> {
    let bytes = text.as_bytes();
    let start = pos + 1;
    let slice = |from: usize, to: usize| text.get(from..to).unwrap_or("");
    let found = match bytes.get(start) {
        Some(b'{') => {
            let Some(end) = closing(bytes, start, b'{', b'}') else { return Dollar::Unclosed };
            let (name, index, default) = split_braced(slice(start + 1, end));
            Found::Braced { name, index, default, end: end + 1 }
        }
        Some(b'(') => {
            let Some(end) = closing(bytes, start, b'(', b')') else { return Dollar::Unclosed };
            Found::Call { text: slice(start + 1, end), end: end + 1 }
        }
        Some(b'?' | b'#' | b'$') => Found::Name { name: slice(start, start + 1), end: start + 1 },
        Some(&b) if is_name(b) => {
            let len = bytes.iter().skip(start).take_while(|&&b| is_name(b)).count();
            Found::Name { name: slice(start, start + len), end: start + len }
        }
        _ => return Dollar::Plain,
    };
    Dollar::Reference(found)
}

/// The position of the bracket that closes the one at `start`; quotes protect brackets.
fn closing(bytes: &[u8], start: usize, open: u8, close: u8) -> Option<usize> {
    let mut depth = 0usize;
    let mut quote = None;
    let mut pos = start;
    while let Some(&b) = bytes.get(pos) {
        match b {
            b'\\' if quote != Some(b'\'') => pos += 1,
            b'"' | b'\'' if quote.is_none() => quote = Some(b),
            b'"' | b'\'' if quote == Some(b) => quote = None,
            _ if quote.is_some() => {}
            _ if b == open => depth += 1,
            _ if b == close => {
                depth -= 1;
                if depth == 0 {
                    return Some(pos);
                }
            }
            _ => {}
        }
        pos += 1;
    }
    None
}

/// `name`, `name-default`, `name[index]` or `name[index]-default`.
fn split_braced(text: &str) -> (&str, Option<&str>, Option<&str>) {
    let len = text.bytes().position(|b| b == b'-' || b == b'[').unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(len).unwrap_or((text, ""));
    let indexed = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (index, rest) = indexed.map_or((None, rest), |(index, rest)| (Some(index), rest));
    (name, index, rest.strip_prefix('-'))
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

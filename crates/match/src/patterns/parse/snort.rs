//! Rules in Snort's format, as far as they search for strings.
//!
//! An option that would change which packets a rule alerts on, and that is not supported, is an error. An option
//! without such an effect is ignored.

use super::cursor::{Cursor, ParseError, Place, show};
use crate::patterns::{Content, Kind, Kinds, PatternSet, Rule};

/// Options that do not change what matches.
const WITHOUT_EFFECT: &[&str] = &[
    "classtype",
    "fast_pattern",
    "gid",
    "metadata",
    "priority",
    "rawbytes",
    "reference",
    "rem",
    "rev",
];

pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<PatternSet, ParseError> {
    let mut set = PatternSet::new();
    loop {
        skip_space(cursor)?;
        match cursor.peek() {
            None => return Ok(set),
            Some(b'#') => cursor.skip_line(),
            Some(_) => {
                let place = cursor.place();
                let rule = rule(cursor)?;
                set.push(rule).map_err(|error| place.set_error(&error))?;
                if !cursor.line_is_over() {
                    let (place, word) = word(cursor)?;
                    return Err(place.error(format!("'{word}' after the end of the rule")));
                }
            }
        }
    }
}

fn rule(cursor: &mut Cursor<'_>) -> Result<Rule, ParseError> {
    let (place, action) = word(cursor)?;
    if action != "alert" {
        return Err(place.error(format!("action '{action}': only 'alert' is supported")));
    }
    let kinds = protocol(cursor)?;
    any(cursor, "source address")?;
    any(cursor, "source port")?;
    let (place, direction) = word(cursor)?;
    if !matches!(direction.as_str(), "->" | "<>") {
        return Err(place.error(format!("'->' is expected, not '{direction}'")));
    }
    any(cursor, "destination address")?;
    any(cursor, "destination port")?;
    skip_space(cursor)?;
    let place = cursor.place();
    if !cursor.take(b'(') {
        return Err(place.error("'(' is expected before the options"));
    }
    let mut draft = Draft::default();
    loop {
        skip_space(cursor)?;
        if cursor.take(b')') {
            let Draft { contents, msg, sid } = draft;
            let contents = contents.into_iter().map(Drafted::done);
            let contents = contents.collect::<Result<_, _>>()?;
            return Ok(Rule { contents, kinds, msg, sid });
        }
        option(cursor, &mut draft)?;
    }
}

/// The parts of a rule that were read so far.
#[derive(Default)]
struct Draft {
    contents: Vec<Drafted>,
    msg: Option<String>,
    sid: Option<u32>,
}

/// A content, whose modifiers may follow.
struct Drafted {
    place: Place,
    bytes: Vec<u8>,
    nocase: bool,
    offset: Option<u32>,
    depth: Option<u32>,
}

impl Drafted {
    fn done(self) -> Result<Content, ParseError> {
        let Self { place, bytes, nocase, offset, depth } = self;
        let content = Content { bytes, nocase, offset: offset.unwrap_or(0), depth };
        content.check().map_err(|error| place.set_error(&error))?;
        Ok(content)
    }
}

/// The protocol of a rule's header.
fn protocol(cursor: &mut Cursor<'_>) -> Result<Kinds, ParseError> {
    let (place, word) = word(cursor)?;
    Ok(match word.as_str() {
        "ip" | "any" => Kinds::ALL,
        "tcp" => Kinds::only(Kind::Tcp),
        "udp" => Kinds::only(Kind::Udp),
        "icmp" => Kinds::only(Kind::Icmp),
        _ => return Err(place.error(format!("unknown protocol '{word}': ip, tcp, udp or icmp"))),
    })
}

/// Reads a part of the header that must be `any`.
fn any(cursor: &mut Cursor<'_>, what: &str) -> Result<(), ParseError> {
    match word(cursor)? {
        (_, word) if word == "any" => Ok(()),
        (place, word) => Err(place.error(format!(
            "{what} '{word}': only 'any' is supported; use a classifier before the matcher"
        ))),
    }
}

/// Reads an option, with the semicolon that ends it.
fn option(cursor: &mut Cursor<'_>, draft: &mut Draft) -> Result<(), ParseError> {
    let (place, name) = name(cursor, "an option")?;
    let valued = cursor.take(b':');
    skip_space(cursor)?;
    match name.as_str() {
        "content" => content(cursor, place, draft)?,
        "nocase" | "offset" | "depth" => modifier(cursor, place, &name, draft)?,
        "msg" => draft.msg = Some(once(place, &name, draft.msg.as_ref(), text(cursor)?)?),
        "sid" => {
            let number = number(cursor, &name)?;
            draft.sid = Some(once(place, &name, draft.sid.as_ref(), number)?);
        }
        _ if WITHOUT_EFFECT.contains(&name.as_str()) => {
            if valued {
                forget(cursor);
            }
        }
        _ => return Err(refused(place, &name)),
    }
    end(cursor, place, &name)
}

/// The error for an unsupported option.
fn refused(place: Place, name: &str) -> ParseError {
    place.error(format!("option '{name}' changes what matches, and is not supported"))
}

/// Stores a value that may be given only once.
fn once<T>(place: Place, name: &str, before: Option<&T>, value: T) -> Result<T, ParseError> {
    match before {
        Some(_) => Err(place.error(format!("'{name}' is given twice"))),
        None => Ok(value),
    }
}

/// Reads what follows `content:`: the string, and modifiers after commas as in Snort 3.
fn content(cursor: &mut Cursor<'_>, place: Place, draft: &mut Draft) -> Result<(), ParseError> {
    if cursor.peek() == Some(b'!') {
        return Err(cursor.place().error("a negated content ('!') is not supported"));
    }
    let bytes = string(cursor)?;
    if bytes.is_empty() {
        return Err(place.error("empty pattern"));
    }
    draft.contents.push(Drafted { place, bytes, nocase: false, offset: None, depth: None });
    loop {
        skip_space(cursor)?;
        if !cursor.take(b',') {
            return Ok(());
        }
        skip_space(cursor)?;
        let (place, name) = name(cursor, "a modifier")?;
        skip_space(cursor)?;
        match name.as_str() {
            "nocase" | "offset" | "depth" => modifier(cursor, place, &name, draft)?,
            "fast_pattern" => {}
            _ => return Err(refused(place, &name)),
        }
    }
}

/// `nocase`, or the number after `offset` or `depth`, for the last content.
fn modifier(
    cursor: &mut Cursor<'_>,
    place: Place,
    name: &str,
    draft: &mut Draft,
) -> Result<(), ParseError> {
    let Some(content) = draft.contents.last_mut() else {
        return Err(place.error(format!("'{name}' before any content")));
    };
    if name == "nocase" {
        content.nocase = true;
        return Ok(());
    }
    let value = number(cursor, name)?;
    let slot = if name == "offset" { &mut content.offset } else { &mut content.depth };
    *slot = Some(once(place, name, slot.as_ref(), value)?);
    Ok(())
}

/// A quoted string with escapes and bytes in hexadecimal.
fn string(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, ParseError> {
    let began = cursor.place();
    if !cursor.take(b'"') {
        return Err(began.error("a string in quotes is expected"));
    }
    let mut bytes = Vec::new();
    loop {
        let place = cursor.place();
        match cursor.next() {
            Some(b'"') => return Ok(bytes),
            Some(b'|') => cursor.hex_run(place, &mut bytes)?,
            Some(b'\\') => match cursor.next() {
                Some(byte @ (b'\\' | b'"' | b';' | b':' | b'|')) => bytes.push(byte),
                Some(byte) => {
                    return Err(place.error(format!("unknown escape '\\{}'", show(&[byte]))));
                }
                None => return Err(began.error("the string is not closed")),
            },
            Some(b';') => return Err(place.error("';' in a string is written '\\;'")),
            None | Some(b'\n') => return Err(began.error("the string is not closed")),
            Some(byte) => bytes.push(byte),
        }
    }
}

/// A quoted text for messages, without bytes in hexadecimal.
fn text(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    let began = cursor.place();
    if !cursor.take(b'"') {
        return Err(began.error("a string in quotes is expected"));
    }
    let mut bytes = Vec::new();
    loop {
        match cursor.next() {
            Some(b'"') => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Some(b'\\') => bytes.extend(cursor.next()),
            None | Some(b'\n') => return Err(began.error("the string is not closed")),
            Some(byte) => bytes.push(byte),
        }
    }
}

/// A number of 32 bits after the name of its option.
fn number(cursor: &mut Cursor<'_>, name: &str) -> Result<u32, ParseError> {
    let place = cursor.place();
    let word =
        show(cursor.take_while(|byte| !byte.is_ascii_whitespace() && !b",;)".contains(&byte)));
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| digits).ok_or_else(|| {
        place.error(format!("'{name}' takes a number from 0 to {}, not '{word}'", u32::MAX))
    })
}

/// Skips the value of an ignored option, up to its semicolon.
fn forget(cursor: &mut Cursor<'_>) {
    let mut quoted = false;
    while let Some(byte) = cursor.peek() {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' => _ = cursor.next(),
            b';' if !quoted => return,
            _ => {}
        }
        cursor.next();
    }
}

/// The semicolon after an option.
fn end(cursor: &mut Cursor<'_>, option: Place, name: &str) -> Result<(), ParseError> {
    skip_space(cursor)?;
    match cursor.take(b';') {
        true => Ok(()),
        false if cursor.peek().is_none() => {
            Err(option.error(format!("no ';' after option '{name}'")))
        }
        false => Err(cursor.place().error(format!("';' is expected after option '{name}'"))),
    }
}

/// The name of an option.
fn name(cursor: &mut Cursor<'_>, what: &str) -> Result<(Place, String), ParseError> {
    let place = cursor.place();
    let name = cursor.take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    match (name, cursor.peek()) {
        (b"", None) => Err(place.error(format!("{what} is expected at the end of the file"))),
        (b"", Some(byte)) => {
            Err(place.error(format!("{what} is expected, not '{}'", show(&[byte]))))
        }
        (name, _) => Ok((place, show(name))),
    }
}

/// A word of a rule's header.
fn word(cursor: &mut Cursor<'_>) -> Result<(Place, String), ParseError> {
    skip_space(cursor)?;
    let place = cursor.place();
    let word = cursor.take_while(|byte| !byte.is_ascii_whitespace() && byte != b'(');
    match word {
        b"" => Err(place.error("the header of the rule is not complete")),
        word => Ok((place, show(word))),
    }
}

/// Skips blanks, line ends, and backslashes that continue a line.
fn skip_space(cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
    loop {
        cursor.take_while(|byte| byte.is_ascii_whitespace());
        let place = cursor.place();
        if !cursor.take(b'\\') {
            return Ok(());
        }
        if !cursor.line_is_over() {
            return Err(place.error("'\\' is not at the end of its line"));
        }
    }
}

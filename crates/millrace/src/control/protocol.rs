//! The protocol of Click's ControlSocket, version 1.3, without sockets.
//!
//! A client sends lines of words, the server answers each with one or more lines that begin with
//! a number (2xy: done, 5xy: not done) and, after a read, with `DATA n` and n bytes. The manual of
//! Click's ControlSocket element describes it.
//!
//! ```
//! use millrace::control::{GREETING, Session, Target};
//! # use millrace_core::HandlerError;
//! # struct One;
//! # impl Target for One {
//! #     fn read(&self, path: &str, _: &[u8]) -> Result<Vec<u8>, HandlerError> {
//! #         if path == "c.count" { Ok(b"17".to_vec()) } else { Err(HandlerError::NoElement(path.into())) }
//! #     }
//! #     fn write(&self, _: &str, _: &[u8]) -> Result<(), HandlerError> { Ok(()) }
//! #     fn access(&self, _: &str) -> Result<(bool, bool), HandlerError> { Ok((true, true)) }
//! # }
//! # let router = One;
//! let mut answer = GREETING.to_vec();
//! Session::default().receive(b"READ c.count\r\n", &router, &mut answer);
//! assert_eq!(
//!     answer,
//!     b"Click::ControlSocket/1.3\r\n200 Read handler 'c.count' OK\r\nDATA 2\r\n17",
//! );
//! ```

use std::path::Path;
use std::sync::Arc;

use millrace_core::router::{hear, or_rather};
use millrace_core::{HandlerError, Router, os_error_text};
use millrace_lang::ascii_quotes;

/// The line that the server sends when a connection is opened.
pub const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";

/// The maximum number of bytes of a command, including its data.
pub const LONGEST_COMMAND: usize = 64 << 20;

/// The maximum number of bytes of a command's line.
const LONGEST_LINE: usize = 1 << 20;

/// While more bytes of answers than this wait to be sent, further commands of the client wait.
const ENOUGH_ANSWERS: usize = 256 << 10;

/// The router that a session acts on.
pub trait Target: Send + Sync {
    /// Reads a handler, with a parameter.
    ///
    /// # Errors
    /// As [`Router::read`].
    fn read(&self, path: &str, parameter: &[u8]) -> Result<Vec<u8>, HandlerError>;

    /// Writes a handler.
    ///
    /// # Errors
    /// As [`Router::write`].
    fn write(&self, path: &str, text: &[u8]) -> Result<(), HandlerError>;

    /// Whether a handler is readable, and whether it is writable.
    ///
    /// # Errors
    /// There is no such handler.
    fn access(&self, path: &str) -> Result<(bool, bool), HandlerError>;

    /// Calls a low-level function of an element, by its number.
    ///
    /// # Errors
    /// There is no such element or function, or it refuses; the error is the one that the system would return.
    fn low_level(&self, element: &str, number: u8, data: &[u8]) -> Result<Vec<u8>, HandlerError> {
        let _ = (element, number, data);
        Err(HandlerError::Refused("Invalid argument".to_owned()))
    }

    /// The path that was probably meant by one that names no handler.
    fn near(&self, path: &str, writes: bool) -> Option<String> {
        let _ = (path, writes);
        None
    }

    /// True if an element answers for the handlers of others.
    fn is_proxy(&self) -> bool {
        false
    }
}

impl Target for Router {
    fn read(&self, path: &str, parameter: &[u8]) -> Result<Vec<u8>, HandlerError> {
        Router::read(self, path, parameter)
    }

    fn write(&self, path: &str, text: &[u8]) -> Result<(), HandlerError> {
        Router::write(self, path, text)
    }

    fn access(&self, path: &str) -> Result<(bool, bool), HandlerError> {
        Router::access(self, path)
    }

    fn low_level(&self, element: &str, number: u8, data: &[u8]) -> Result<Vec<u8>, HandlerError> {
        Router::low_level(self, element, number, data)
    }

    fn near(&self, path: &str, writes: bool) -> Option<String> {
        self.near_path(path, writes)
    }
}

/// The numbers of answers.
mod code {
    pub(super) const OK: u16 = 200;
    pub(super) const OK_WITH_WARNINGS: u16 = 220;
    pub(super) const SYNTAX: u16 = 500;
    pub(super) const UNIMPLEMENTED: u16 = 501;
    pub(super) const NO_ELEMENT: u16 = 510;
    pub(super) const NO_HANDLER: u16 = 511;
    pub(super) const HANDLER_ERROR: u16 = 520;
    pub(super) const TOO_BIG: u16 = 521;
    pub(super) const PERMISSION: u16 = 530;
    pub(super) const LOW_LEVEL: u16 = 540;
    pub(super) const UNSPECIFIED: u16 = 590;
}

/// The server's side of one connection.
#[derive(Debug, Default)]
pub struct Session {
    /// Bytes that were received and not yet processed.
    input: Vec<u8>,
    /// The length of the part of `input` that was already searched for the end of what `awaited` waits for.
    searched: usize,
    awaited: Awaited,
    /// True if the last line ended with CR at the end of the input: if LF comes next, it belongs to that line.
    skip_newline: bool,
    /// True if `input` may contain further commands.
    unfinished: bool,
    access: Access,
    closed: bool,
}

/// What the client of a session may do.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// True if it may only read.
    pub read_only: bool,
    /// The token that it must first send with `AUTH`, if any.
    pub token: Option<Arc<str>>,
}

impl Access {
    /// Reads a token: the first line of a file.
    ///
    /// # Errors
    /// The file cannot be read, or its first line is empty; the message names the file.
    pub fn token_in(file: &Path) -> Result<Arc<str>, String> {
        let name = file.display();
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("{name}: {}", os_error_text(&error)))?;
        match text.lines().next().map(str::trim) {
            None | Some("") => {
                Err(format!("{name}: the first line must be a token, but it is empty"))
            }
            Some(token) => Ok(token.into()),
        }
    }

    /// Compares two texts in a time that does not depend on where they differ.
    pub(crate) fn opens_for(&self, offered: &[u8]) -> bool {
        let Some(token) = &self.token else { return true };
        let differences = token.bytes().zip(offered).fold(0, |sum, (a, b)| sum | (a ^ b));
        token.len() == offered.len() && differences == 0
    }
}

/// What a session waits for.
#[derive(Debug, Default)]
enum Awaited {
    /// The end of a command line.
    #[default]
    Command,
    /// This many bytes of data.
    Data(Call, usize),
    /// A line that equals the terminator.
    Until(Call, Vec<u8>),
}

/// A handler to call when its data is complete.
#[derive(Debug)]
struct Call {
    write: bool,
    /// True for a low-level call, `element#number`.
    low_level: bool,
    handler: String,
}

impl Session {
    /// A session with these rights.
    pub fn new(access: Access) -> Self {
        Self { access, ..Self::default() }
    }

    /// True if the client has ended the session or broken the protocol. The session answers nothing more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// True if commands wait until the answers so far are sent. Then call [`receive`](Self::receive) without bytes,
    /// to process them.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished && !self.closed
    }

    /// The number of bytes of incomplete commands in memory.
    pub fn held(&self) -> usize {
        self.input.capacity()
    }

    /// Processes bytes from the client, and appends the answers to `out`. If there are many answers, the remaining
    /// commands wait ([`is_unfinished`](Self::is_unfinished)).
    pub fn receive(&mut self, bytes: &[u8], target: &dyn Target, out: &mut Vec<u8>) {
        if self.closed {
            return;
        }
        self.input.extend_from_slice(bytes);
        let mut at = 0;
        if self.skip_newline && !bytes.is_empty() {
            at = usize::from(bytes.starts_with(b"\n"));
            self.skip_newline = false;
        }
        self.unfinished = true;
        while self.is_unfinished() && out.len() < ENOUGH_ANSWERS {
            self.unfinished = self.step(&mut at, target, out);
        }
        self.input.drain(..at.min(self.input.len()));
        let limit = match self.awaited {
            _ if self.unfinished => usize::MAX,
            Awaited::Command => LONGEST_LINE,
            Awaited::Data(..) | Awaited::Until(..) => LONGEST_COMMAND,
        };
        if self.input.len() > limit {
            answer(out, code::TOO_BIG, "Command too long");
            self.closed = true;
        }
    }

    /// Processes what is left when the client sends nothing more.
    pub fn finish(&mut self, target: &dyn Target, out: &mut Vec<u8>) {
        match std::mem::take(&mut self.awaited) {
            _ if self.closed => {}
            Awaited::Command => {
                let line = std::mem::take(&mut self.input);
                self.command(&line, target, out);
            }
            Awaited::Data(..) => answer(out, code::SYNTAX, "Not enough data"),
            Awaited::Until(..) => answer(out, code::SYNTAX, "Connection closed"),
        }
        match std::mem::take(&mut self.awaited) {
            _ if self.closed => {}
            Awaited::Command => {}
            Awaited::Data(call, 0) => self.call(&call, b"", target, out),
            Awaited::Data(..) => answer(out, code::SYNTAX, "Not enough data"),
            Awaited::Until(..) => answer(out, code::SYNTAX, "Connection closed"),
        }
        self.closed = true;
    }

    /// Takes one line or one piece of data from the input at `at`. Returns false if none is complete.
    fn step(&mut self, at: &mut usize, target: &dyn Target, out: &mut Vec<u8>) -> bool {
        match &self.awaited {
            Awaited::Command => {
                let Some((end, next)) = self.line(*at + self.searched) else {
                    self.searched = self.input.len() - *at;
                    return false;
                };
                let line = self.input[*at..end].to_vec();
                self.advance(at, next);
                self.command(&line, target, out);
            }
            &Awaited::Data(_, length) => {
                let Some(data) = self.input.get(*at..*at + length) else { return false };
                let data = data.to_vec();
                *at += length;
                if let Awaited::Data(call, _) = std::mem::take(&mut self.awaited) {
                    self.call(&call, &data, target, out);
                }
            }
            Awaited::Until(_, terminator) => {
                let mut start = *at + self.searched;
                if start > *at && self.input.get(start - 1..=start) == Some(b"\r\n") {
                    start += 1;
                }
                let Some((end, next)) = self.line(start) else { return false };
                if self.input[start..end].trim_ascii_end() != terminator.as_slice() {
                    self.searched = next - *at;
                    return true;
                }
                let data = self.input[*at..start].to_vec();
                self.advance(at, next);
                if let Awaited::Until(call, _) = std::mem::take(&mut self.awaited) {
                    self.call(&call, &data, target, out);
                }
            }
        }
        true
    }

    /// Moves to the byte after a line.
    fn advance(&mut self, at: &mut usize, next: usize) {
        *at = next;
        self.searched = 0;
        self.skip_newline = next == self.input.len() && self.input.last() == Some(&b'\r');
    }

    /// The end of the line that contains `from`, and the start of the next one. Lines end with CR, LF or CR LF.
    fn line(&self, from: usize) -> Option<(usize, usize)> {
        let rest = self.input.get(from..)?;
        let end = from + rest.iter().position(|&byte| byte == b'\r' || byte == b'\n')?;
        let long = self.input.get(end..end + 2) == Some(b"\r\n");
        Some((end, end + if long { 2 } else { 1 }))
    }

    fn command(&mut self, line: &[u8], target: &dyn Target, out: &mut Vec<u8>) {
        let words: Vec<&[u8]> = words(line).collect();
        let Some(&first) = words.first() else { return };
        let command = String::from_utf8_lossy(first).to_ascii_uppercase();
        let write = command.starts_with(['W', 'S']);
        if self.access.token.is_some() && !matches!(&*command, "AUTH" | "QUIT" | "CLOSE" | "BYE") {
            answer(out, code::PERMISSION, "Permission denied: send AUTH with the token first");
            // The following bytes may be data, which must not be read as commands.
            self.closed = true;
            return;
        }
        match (command.as_str(), &words[1..]) {
            ("AUTH", _) => match self.access.opens_for(after_words(line, 1)) {
                true => {
                    self.access.token = None;
                    answer(out, code::OK, "Welcome");
                }
                false => {
                    answer(out, code::PERMISSION, "Permission denied: wrong token");
                    self.closed = true;
                }
            },
            ("READ" | "GET" | "WRITE" | "SET", [handler, ..]) => {
                let call = Call::new(write, handler);
                self.call(&call, after_words(line, 2), target, out);
            }
            ("READDATA" | "WRITEDATA" | "SETDATA", [handler, length]) => {
                match std::str::from_utf8(length).ok().and_then(|text| text.parse().ok()) {
                    None => answer(out, code::SYNTAX, &format!("Syntax error in '{command}'")),
                    Some(length) if length > LONGEST_COMMAND => {
                        answer(out, code::TOO_BIG, "Data too large");
                        // The following bytes are data, which must not be read as commands.
                        self.closed = true;
                    }
                    Some(length) => {
                        self.awaited = Awaited::Data(Call::new(write, handler), length);
                    }
                }
            }
            ("READUNTIL" | "WRITEUNTIL", [handler, ..]) => {
                let terminator = after_words(line, 2).to_vec();
                self.awaited = Awaited::Until(Call::new(write, handler), terminator);
            }
            ("CHECKREAD" | "CHECKWRITE", [handler]) => {
                let call = Call::new(command == "CHECKWRITE", handler);
                self.check(&call, target, out);
            }
            ("LLRPC", [name, length @ ..]) if length.len() < 2 => {
                let call = Call { low_level: true, ..Call::new(false, name) };
                let length = length.first().map(|text| std::str::from_utf8(text).unwrap_or("-"));
                match length.unwrap_or("0").parse() {
                    Err(_) => answer(out, code::SYNTAX, "Syntax error in 'llrpc'"),
                    Ok(length) if length > LONGEST_COMMAND => {
                        answer(out, code::TOO_BIG, "Data too large");
                        self.closed = true;
                    }
                    Ok(0) => self.low_level(&call, b"", target, out),
                    Ok(length) => self.awaited = Awaited::Data(call, length),
                }
            }
            ("QUIT" | "CLOSE" | "BYE", rest) => {
                if !rest.is_empty() {
                    answer(out, code::SYNTAX, "Bad command syntax");
                }
                answer(out, code::OK, "Goodbye!");
                self.closed = true;
            }
            ("HELP", _) => answer_lines(out, code::OK, HELP),
            (
                "READ" | "GET" | "WRITE" | "SET" | "READDATA" | "WRITEDATA" | "SETDATA"
                | "READUNTIL" | "WRITEUNTIL" | "CHECKREAD" | "CHECKWRITE" | "LLRPC",
                _,
            ) => answer(out, code::SYNTAX, "Wrong number of arguments"),
            _ => {
                answer(out, code::UNIMPLEMENTED, &format!("Command '{command}' unimplemented"));
            }
        }
    }

    /// Makes a low-level call. Its number contains the direction and the size of the data, as for ioctl(2) in BSD.
    fn low_level(&self, call: &Call, data: &[u8], target: &dyn Target, out: &mut Vec<u8>) {
        const OUT: u32 = 1 << 30;
        const IN: u32 = 1 << 31;
        const FLAT: u32 = 1 << 14;
        let name = &call.handler;
        let (element, number) = call.path().split_once('#').unwrap_or((call.path(), ""));
        let digits = number.trim_start_matches("0x").trim_start_matches("0X");
        let Ok(number) = u32::from_str_radix(digits, 16) else {
            return answer(out, code::SYNTAX, &format!("Syntax error in LLRPC name '{name}'"));
        };
        let found = match element {
            "" => Err(HandlerError::NoHandler(String::new())),
            _ => target.access(&format!("{element}.name")),
        };
        if let Err(error) = found {
            let call = Call::new(false, format!("{element}.name").as_bytes());
            return refuse(out, &call, code::UNSPECIFIED, error, target);
        }
        let size = (number >> 16 & 0xfff) as usize;
        if size == 0 || number & (IN | OUT) == 0 || number & FLAT == 0 {
            let message = format!("Cannot call LLRPC '{name}' remotely");
            return answer(out, code::UNIMPLEMENTED, &message);
        }
        if self.access.read_only {
            return answer(out, code::PERMISSION, &format!("Permission denied for '{name}'"));
        }
        if number & IN != 0 && data.len() != size {
            let message = format!("LLRPC '{name}' requires {size} bytes input data");
            return answer(out, code::LOW_LEVEL, &message);
        }
        let data = if number & IN == 0 { b"" } else { data };
        match target.low_level(element, (number & 0xff) as u8, data) {
            Ok(text) => {
                answer(out, code::OK, &format!("LLRPC '{name}' OK"));
                let text: &[u8] = if number & OUT == 0 { b"" } else { &text };
                out.extend_from_slice(format!("DATA {}\r\n", text.len()).as_bytes());
                out.extend_from_slice(text);
            }
            Err(error) => {
                let why = match error {
                    HandlerError::Refused(why) => why,
                    _ => "Invalid argument".to_owned(),
                };
                answer(out, code::LOW_LEVEL, &format!("LLRPC '{name}' error: {why}"));
            }
        }
    }

    fn call(&self, call: &Call, data: &[u8], target: &dyn Target, out: &mut Vec<u8>) {
        if call.low_level {
            return self.low_level(call, data, target, out);
        }
        let name = &call.handler;
        if call.write {
            let (result, warnings) = match self.access.read_only
                && matches!(target.access(call.path()), Ok((_, true)))
            {
                true => {
                    let message = format!("Permission denied for '{name}'");
                    return answer(out, code::PERMISSION, &message);
                }
                false => hear(|| target.write(call.path(), data)),
            };
            match result {
                Ok(()) if warnings.is_empty() => {
                    answer(out, code::OK, &format!("Write handler '{name}' OK"));
                }
                Ok(()) => {
                    let lines = format!(
                        "Write handler '{name}' OK with warnings:\n{}",
                        warnings.join("\n")
                    );
                    answer_lines(out, code::OK_WITH_WARNINGS, &lines);
                }
                Err(error) => refuse(out, call, code::HANDLER_ERROR, error, target),
            }
            return;
        }
        match target.read(call.path(), data) {
            Ok(text) => {
                answer(out, code::OK, &format!("Read handler '{name}' OK"));
                out.extend_from_slice(format!("DATA {}\r\n", text.len()).as_bytes());
                out.extend_from_slice(&text);
            }
            Err(error) => refuse(out, call, code::UNSPECIFIED, error, target),
        }
    }

    fn check(&self, call: &Call, target: &dyn Target, out: &mut Vec<u8>) {
        let name = &call.handler;
        let (what, able) = if call.write { ("Write", "writable") } else { ("Read", "readable") };
        match target.access(call.path()) {
            Err(error) => refuse(out, call, code::UNSPECIFIED, error, target),
            Ok((_, true)) if call.write && self.access.read_only => {
                answer(out, code::PERMISSION, &format!("Permission denied for '{name}'"));
            }
            Ok((read, write)) if (if call.write { write } else { read }) => {
                answer(out, code::OK, &format!("{what} handler '{name}' OK"));
            }
            Ok(_) => answer(out, code::NO_HANDLER, &format!("Handler '{name}' not {able}")),
        }
    }
}

impl Call {
    fn new(write: bool, handler: &[u8]) -> Self {
        Self { write, low_level: false, handler: String::from_utf8_lossy(handler).into_owned() }
    }

    /// The handler's path. `.list` and `0.list` mean the global handler `list`.
    fn path(&self) -> &str {
        let name = self.handler.as_str();
        name.strip_prefix("0.").or_else(|| name.strip_prefix('.')).unwrap_or(name)
    }
}

/// Answers that a call failed. `other` is the number for an error of the handler itself.
fn refuse(out: &mut Vec<u8>, call: &Call, other: u16, error: HandlerError, target: &dyn Target) {
    let name = &call.handler;
    let what = if call.write { "Write" } else { "Read" };
    let near = || or_rather(target.near(call.path(), call.write));
    match error {
        HandlerError::NoElement(element) => {
            answer(out, code::NO_ELEMENT, &format!("No element named '{element}'{}", near()));
        }
        HandlerError::NoHandler(_) => {
            let proxied = if target.is_proxy() { "proxied " } else { "" };
            let line = format!("No {proxied}handler named '{name}'{}", near());
            answer(out, code::NO_HANDLER, &line);
        }
        HandlerError::WriteOnly(_) => {
            answer(out, code::PERMISSION, &format!("Handler '{name}' write-only"));
        }
        HandlerError::ReadOnly(_) => {
            answer(out, code::PERMISSION, &format!("Handler '{name}' read-only"));
        }
        HandlerError::Refused(message) => {
            let lines = format!("{what} handler '{name}' error:\n{message}");
            answer_lines(out, other, lines.trim_end_matches(['\n', ':']));
        }
    }
}

fn answer(out: &mut Vec<u8>, code: u16, line: &str) {
    out.extend_from_slice(format!("{code} ").as_bytes());
    // Whatever names and messages contain, an answer line must be one line of ASCII, as in Click.
    for &byte in ascii_quotes(line).as_bytes() {
        match byte {
            b' '..=b'~' => out.push(byte),
            0..b' ' => out.extend_from_slice(&[b'^', byte + b'@']),
            _ => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes several answer lines. All but the last have a hyphen after the number.
fn answer_lines(out: &mut Vec<u8>, code: u16, text: &str) {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let start = out.len();
        answer(out, code, line);
        if lines.peek().is_some()
            && let Some(separator) = out.get_mut(start + 3)
        {
            *separator = b'-';
        }
    }
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The text after the first `n` words, without surrounding white space.
fn after_words(line: &[u8], n: usize) -> &[u8] {
    let mut rest = line.trim_ascii();
    for _ in 0..n {
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        rest = rest[end..].trim_ascii_start();
    }
    rest
}

const HELP: &str = "\
Commands:
READ handler [text]          read a handler
READDATA handler n           read a handler, with the next n bytes as its parameter
READUNTIL handler [end]      read a handler, with the lines up to the line `end`
WRITE handler [text]         write a handler
WRITEDATA handler n          write a handler, with the next n bytes
WRITEUNTIL handler [end]     write a handler, with the lines up to the line `end`
CHECKREAD handler            say whether a handler can be read
CHECKWRITE handler           say whether a handler can be written
LLRPC element#number [n]     make a low-level call, with the next n bytes
AUTH token                   show the token of the socket, where it has one
QUIT                         close the connection";

#[cfg(test)]
mod tests;

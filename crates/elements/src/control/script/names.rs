//! What names in a script refer to: variables and handlers.

use std::borrow::Cow;

use millrace_core::element::{HandlerError, Text};
use millrace_core::router::or_rather;
use millrace_lang::config::unquote;
use millrace_lang::variables::{Reference, TooLong, expand, expand_quoted};

use super::functions;
use super::machine::{Kind, Run};
use super::program::split;

/// The longest text that replacing variables may produce.
const LONGEST: usize = 1 << 20;

/// The arguments of a script's call.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    /// `$0`: the handler.
    pub(super) handler: String,
    /// `$args`, and its words `$1`, `$2`, ...
    pub(super) text: String,
    /// `$write`.
    pub(super) writes: bool,
    /// `$input`.
    pub(super) input: usize,
}

/// The names of one run.
pub(super) struct Names<'a> {
    pub(super) run: &'a Run<'a>,
}

/// A handler to call, and the text for it.
struct Called {
    /// `None` for one of the router's own.
    element: Option<usize>,
    handler: String,
    text: Text,
}

impl Names<'_> {
    /// A text with its variables replaced, and a layer of quotes removed if requested.
    pub(super) fn text(&self, text: &str, unquotes: bool) -> Text {
        let text = self.expanded(text);
        if unquotes { unquote(&text) } else { text.into_bytes() }
    }

    /// A text with its variables replaced.
    pub(super) fn expanded(&self, text: &str) -> String {
        self.checked(expand(text, LONGEST, |reference| self.value(reference)))
    }

    /// A text with its variables replaced by their values in quotes.
    pub(super) fn expanded_quoted(&self, text: &str) -> String {
        self.checked(expand_quoted(text, LONGEST, |reference| self.value(reference)))
    }

    fn checked(&self, expanded: Result<Cow<'_, str>, TooLong>) -> String {
        match expanded {
            Ok(expanded) => expanded.into_owned(),
            Err(error) => {
                self.run.errors.error(&error.to_string());
                String::new()
            }
        }
    }

    /// Reads the handler that a text calls; `None`, and an error, if it fails.
    pub(super) fn called(&self, text: &str, unquotes: bool) -> Option<Text> {
        self.called_by_name(text, unquotes).map(|(_, value)| value)
    }

    /// As [`called`](Self::called), but also returns the handler's full name.
    pub(super) fn called_by_name(&self, text: &str, unquotes: bool) -> Option<(String, Text)> {
        let called = self.parse(&self.expanded(text), unquotes, false)?;
        match self.read(&called) {
            Ok(value) => Some((self.name_of(&called), value)),
            Err(error) => {
                self.run.errors.in_call(&self.call_of(&called), &error.to_string());
                None
            }
        }
    }

    /// Writes the handler that a text calls; returns the status, or `None` if there is no such handler.
    pub(super) fn written(&self, text: &str, unquotes: bool) -> Option<i32> {
        /// The result of Click's handlers on failure: "invalid argument", as a number.
        const REFUSED: i32 = -22;
        let called = self.parse(&self.expanded(text), unquotes, true)?;
        let router = self.run.place.router;
        let written = match called.element {
            Some(id) => router.write_of(id, &called.handler, &called.text),
            None => router.write_global(&called.handler, &called.text),
        };
        Some(match written {
            Ok(()) => 0,
            Err(error) => {
                let message = error.to_string();
                self.run.errors.in_call(&self.call_of(&called), &message);
                if message.is_empty() { -1 } else { REFUSED }
            }
        })
    }

    /// Finds the handler that a text without variables names.
    fn parse(&self, text: &str, unquotes: bool, writes: bool) -> Option<Called> {
        let (name, rest) = split(text);
        let text = if unquotes { unquote(rest) } else { rest.as_bytes().to_vec() };
        let name = String::from_utf8_lossy(&unquote(name)).into_owned();
        let (element, handler) = match self.locate(&name) {
            Ok(found) => found,
            Err(message) => {
                self.run.errors.error(&message);
                return None;
            }
        };
        let called = Called { element, handler: handler.to_owned(), text };
        let router = self.run.place.router;
        let access = router.access_of(called.element, &called.handler);
        let able = access.is_some_and(|(read, write)| if writes { write } else { read });
        if !able {
            let what = if writes { "write" } else { "read" };
            let near = router.near_handler(called.element, &called.handler, writes);
            let near = or_rather(near);
            self.run.errors.error(&format!("no ‘{}’ {what} handler{near}", self.name_of(&called)));
            return None;
        }
        Some(called)
    }

    /// The element and the handler that a name refers to: `element.handler`, `.handler` for one of the router's own, or
    /// `handler` for one of the script's or else of the router's.
    fn locate<'n>(&self, name: &'n str) -> Result<(Option<usize>, &'n str), String> {
        let place = self.run.place;
        let own = || place.router.access_of(Some(place.element), name).is_some();
        let global = || place.router.access_of(None, name).is_some();
        match name.split_once('.') {
            _ if name.is_empty() => Err("syntax error".to_owned()),
            Some(("", handler)) => Ok((None, handler)),
            Some((_, "")) => Err("syntax error".to_owned()),
            Some((element, handler)) => match place.router.resolve(place.element, element) {
                Some(id) => Ok((Some(id), handler)),
                None if own() => Ok((Some(place.element), name)),
                None if global() => Ok((None, name)),
                None => {
                    let near = or_rather(place.router.near_element(element));
                    Err(format!("no element named ‘{element}’{near}"))
                }
            },
            None if own() => Ok((Some(place.element), name)),
            None => Ok((None, name)),
        }
    }

    fn read(&self, called: &Called) -> Result<Text, HandlerError> {
        let router = self.run.place.router;
        match called.element {
            Some(id) => match self.read_own(id, called) {
                Some(value) => value,
                None => router.read_of(id, &called.handler, &called.text),
            },
            None => router.read_global(&called.handler, &called.text),
        }
    }

    /// Reads what only the run knows, not the script's handlers: the arguments of its own call.
    fn read_own(&self, id: usize, called: &Called) -> Option<Result<Text, HandlerError>> {
        if id != self.run.place.element || !matches!(&*called.handler, "get" | "shift") {
            return None;
        }
        let arguments = self.run.arguments.as_ref()?;
        let variable = String::from_utf8_lossy(&called.text);
        let variable = variable.trim();
        match &*called.handler {
            "shift" if variable.is_empty() || variable == "args" => {
                let mut arguments = arguments.borrow_mut();
                Some(Ok(shift(&mut arguments.text)))
            }
            "get" if variable == "args" => Some(Ok(arguments.borrow().text.clone().into_bytes())),
            _ => None,
        }
    }

    fn name_of(&self, called: &Called) -> String {
        match called.element {
            Some(id) => format!("{}.{}", self.run.place.router.name_of(id), called.handler),
            None => called.handler.clone(),
        }
    }

    fn call_of(&self, called: &Called) -> String {
        match called.text.as_slice() {
            [] => self.name_of(called),
            text => format!("{} {}", self.name_of(called), String::from_utf8_lossy(text)),
        }
    }

    fn value(&self, reference: Reference<'_>) -> Option<Cow<'static, str>> {
        let value = match reference {
            Reference::Name(name) => self.variable(name)?,
            Reference::Call(call) => {
                let called = self.parse(call, false, false)?;
                match self.read(&called) {
                    Ok(value) => value,
                    Err(error) => {
                        let message = error.to_string();
                        if !message.is_empty() {
                            self.run.errors.error(&message);
                        }
                        Text::new()
                    }
                }
            }
        };
        Some(String::from_utf8_lossy(&value).into_owned().into())
    }

    fn variable(&self, name: &str) -> Option<Text> {
        let machine = self.run.machine;
        if let Some(value) = machine.get(name) {
            return Some(value);
        }
        let packet = machine.kind == Kind::Packet;
        match (name, &self.run.arguments) {
            ("?", _) => Some(b"0".to_vec()),
            ("$", _) => Some(std::process::id().to_string().into_bytes()),
            (_, Some(own)) => own.borrow().variable(name, packet),
            (_, None) => machine.arguments().variable(name, packet),
        }
    }
}

impl Arguments {
    fn variable(&self, name: &str, packet: bool) -> Option<Text> {
        let text = match name {
            "args" => self.text.clone(),
            "0" => self.handler.clone(),
            "write" => self.writes.to_string(),
            "input" if packet => self.input.to_string(),
            "#" => functions::words(&self.text).len().to_string(),
            _ => {
                let number: usize = name.parse().ok()?;
                let words = functions::words(&self.text);
                let word = words.get(number.checked_sub(1)?);
                word.map_or(String::new(), |&word| word.to_owned())
            }
        };
        Some(text.into_bytes())
    }
}

/// Removes and returns the first word of a text.
pub(super) fn shift(text: &mut String) -> Text {
    let (word, rest) = split(text);
    let (word, rest) = (word.as_bytes().to_vec(), rest.to_owned());
    *text = rest;
    word
}

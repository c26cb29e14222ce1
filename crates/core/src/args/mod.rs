//! The reader for element arguments.
//!
//! An element reads its arguments by name, in order, and gets values, however the user wrote them:
//!
//! ```
//! # use millrace_core::args::{Args, Failed, Seconds};
//! # struct Shaper { rate: u32, burst: Seconds, active: bool }
//! fn configure(args: &mut Args) -> Result<Shaper, Failed> {
//!     let rate = args.mandatory("RATE");
//!     let burst = args.positional("BURST", Seconds::from_millis(20));
//!     let active = args.keyword("ACTIVE", true);
//!     if rate == 0 {
//!         args.error("RATE", "RATE must be positive");
//!     }
//!     args.complete()?;
//!     Ok(Shaper { rate, burst, active })
//! }
//! ```
//!
//! The reader follows Click's rules. A positional argument may also be given by its keyword (`BURST 1s`).
//! Keywords come in any order, and the last of several counts. An empty argument counts as absent. If a
//! reading fails, it records the error and returns a placeholder, so that an element reads all of its
//! arguments and the user sees all errors at once. [`complete`](Args::complete) rejects arguments that the
//! element did not read.

mod define;
mod scope;
mod text;
mod value;
mod values;

use std::ops::RangeInclusive;

use millrace_lang::{ConfigText, Diagnostic, Span, nearest};

pub use define::{address_info, port_info};
pub use scope::{ElementLookup, Scope};
pub use text::ArgText;
pub use value::{Arg, ArgError};
pub use values::*;

use crate::needs::Need;

/// The number of characters of a surplus argument that a message shows.
const MOST_SHOWN: usize = 40;

/// The arguments of one element, and the errors found in them.
#[derive(Debug)]
pub struct Args<'a> {
    scope: Scope<'a>,
    arguments: Vec<Argument>,
    whole: Option<Span>,
    asked: Vec<Asked>,
    needs: Vec<Need>,
    diagnostics: Vec<Diagnostic>,
}

/// Indicates that errors were recorded: they are in [`Args::into_diagnostics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("errors in the arguments")]
pub struct Failed;

/// How an argument may be given, and whether it is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By position or by keyword; required.
    Mandatory,
    /// By position or by keyword; optional.
    Positional,
    /// By keyword only; required.
    MandatoryKeyword,
    /// By keyword only; optional.
    Keyword,
}

impl Kind {
    fn is_mandatory(self) -> bool {
        matches!(self, Self::Mandatory | Self::MandatoryKeyword)
    }

    fn is_positional(self) -> bool {
        matches!(self, Self::Mandatory | Self::Positional)
    }
}

#[derive(Debug)]
struct Argument {
    text: ArgText,
    /// Length of the keyword that it appears to start with, 0 for none.
    keyword: usize,
    used: Option<Used>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    InPlace,
    ByKeyword,
}

/// An argument that the element has read.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its keyword.
    pub name: String,
    /// How it may be given.
    pub kind: Kind,
    /// What a valid value is: [`Arg::EXPECTS`] of its type.
    pub expects: String,
    /// Why it has no effect, if it is [ignored](Args::ignored).
    pub without_effect: Option<String>,
    given: Option<ArgText>,
}

impl<'a> Args<'a> {
    /// Reads the configuration string of the element that `scope` belongs to.
    pub fn new(config: &ConfigText, scope: Scope<'a>) -> Self {
        Self::of(ArgText::split_config(config), Some(config.span), scope)
    }

    /// Reads comma-separated arguments that come from no source file: the text that a handler was given.
    pub fn of_text(text: &str, scope: Scope<'a>) -> Self {
        Self::of(ArgText::split_text(text), None, scope)
    }

    /// Reads the words of a text as positional arguments.
    pub fn of_words(text: &ArgText, scope: Scope<'a>) -> Self {
        Self::of(text.words(), text.span(), scope)
    }

    fn of(texts: Vec<ArgText>, whole: Option<Span>, scope: Scope<'a>) -> Self {
        let arguments = texts.into_iter().map(|text| {
            let keyword = text.keyword_len();
            Argument { text, keyword, used: None }
        });
        let arguments = arguments.collect();
        Self {
            scope,
            arguments,
            whole,
            asked: Vec::new(),
            needs: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    /// The scope in which names are looked up.
    pub fn scope(&self) -> &Scope<'a> {
        &self.scope
    }

    /// Declares what the element [needs](crate::needs) while the router runs, as its arguments tell.
    pub fn needs(&mut self, needs: impl IntoIterator<Item = Need>) {
        self.needs.extend(needs);
    }

    /// What the element has declared.
    pub(crate) fn take_needs(&mut self) -> Vec<Need> {
        std::mem::take(&mut self.needs)
    }

    /// The number of arguments in the configuration string.
    pub fn len(&self) -> usize {
        self.arguments.len()
    }

    /// True when there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }

    /// A required argument, by position or by keyword.
    pub fn mandatory<T: Arg>(&mut self, name: &str) -> T {
        self.read(name, Kind::Mandatory).unwrap_or_else(T::placeholder)
    }

    /// An optional argument, by position or by keyword.
    pub fn positional<T: Arg>(&mut self, name: &str, default: T) -> T {
        self.read(name, Kind::Positional).unwrap_or(default)
    }

    /// An optional argument, by keyword.
    pub fn keyword<T: Arg>(&mut self, name: &str, default: T) -> T {
        self.read(name, Kind::Keyword).unwrap_or(default)
    }

    /// A required argument, by keyword.
    pub fn mandatory_keyword<T: Arg>(&mut self, name: &str) -> T {
        self.read(name, Kind::MandatoryKeyword).unwrap_or_else(T::placeholder)
    }

    /// An optional argument, by position or by keyword; `None` when it is absent.
    pub fn optional<T: Arg>(&mut self, name: &str) -> Option<T> {
        self.read(name, Kind::Positional)
    }

    /// An optional argument, by keyword; `None` when it is absent.
    pub fn optional_keyword<T: Arg>(&mut self, name: &str) -> Option<T> {
        self.read(name, Kind::Keyword)
    }

    /// An argument of any kind; `None` when it is absent or invalid. If it is invalid, records an error.
    pub fn read<T: Arg>(&mut self, name: &str, kind: Kind) -> Option<T> {
        self.with(name, kind, T::EXPECTS, T::parse)
    }

    /// An argument whose value must lie in a range.
    pub fn in_range<T>(&mut self, name: &str, kind: Kind, range: RangeInclusive<T>) -> Option<T>
    where
        T: Arg + PartialOrd + std::fmt::Display,
    {
        self.with(name, kind, T::EXPECTS, |text, scope| {
            let value = T::parse(text, scope)?;
            let bound = if value < *range.start() {
                range.start()
            } else if value > *range.end() {
                range.end()
            } else {
                return Ok(value);
            };
            Err(ArgError::new(format!("out of range, bound {bound}")))
        })
    }

    /// An argument that `parse` reads; `expects` describes a valid value in a few words.
    pub fn with<T, E: Into<ArgError>>(
        &mut self,
        name: &str,
        kind: Kind,
        expects: &str,
        parse: impl FnOnce(&ArgText, &Scope<'a>) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.find(name, kind);
        self.ask(name, kind, expects, text.clone());
        match text {
            Some(text) => self.parse(name, expects, &text, parse),
            None if kind.is_mandatory() => {
                let message = format!("{name}: required argument missing");
                let missing = Diagnostic::error(self.whole, message);
                self.diagnostics.push(missing.help(format!("expected {expects}")));
                None
            }
            None => None,
        }
    }

    /// An argument of Click or FastClick that has no effect here. Its value is checked nevertheless, and
    /// `millrace check` prints the reason.
    pub fn ignored<T: Arg>(&mut self, name: &str, kind: Kind, reason: &str) {
        let _checked: Option<T> = self.read(name, kind);
        if let Some(asked) = self.asked.last_mut() {
            asked.without_effect = Some(reason.to_owned());
        }
        if self.is_given(name) {
            self.advise(name, format!("{name} is accepted without effect: {reason}"));
        }
    }

    /// Every argument that was not read yet, none of which has an effect here.
    pub fn ignored_rest(&mut self, reason: &str) {
        if !self.rest().is_empty() {
            self.advise((), format!("the arguments are accepted without effect: {reason}"));
        }
    }

    /// Forgets the arguments that were read: the rest is read as if they had not been there. If the element
    /// reads keywords first, its positional arguments may be anywhere.
    pub fn consume(&mut self) {
        self.arguments.retain(|argument| argument.used.is_none());
    }

    /// All arguments given with this keyword, in order.
    pub fn repeated<T: Arg>(&mut self, name: &str) -> Vec<T> {
        let mut texts = Vec::new();
        for argument in &mut self.arguments {
            if argument.is_keyword(name) {
                argument.used = Some(Used::ByKeyword);
                texts.push(argument.value());
            }
        }
        let given = texts.last().cloned();
        self.ask(name, Kind::Keyword, T::EXPECTS, given);
        let given = texts.iter().filter(|text| !text.is_empty());
        given.filter_map(|text| self.parse(name, T::EXPECTS, text, T::parse)).collect()
    }

    /// All arguments that were not read yet, in any form, including empty ones. Read the keywords that the
    /// element knows first, because this reads everything.
    pub fn rest(&mut self) -> Vec<ArgText> {
        let unused = self.arguments.iter_mut().filter(|argument| argument.used.is_none());
        unused
            .map(|argument| {
                argument.used = Some(Used::InPlace);
                argument.text.clone()
            })
            .collect()
    }

    /// All arguments that were not read yet and have no keyword, including empty ones.
    pub fn rest_positional(&mut self) -> Vec<ArgText> {
        let unused = self.arguments.iter_mut();
        let unused = unused.filter(|argument| argument.used.is_none() && argument.keyword == 0);
        unused
            .map(|argument| {
                argument.used = Some(Used::InPlace);
                argument.text.clone()
            })
            .collect()
    }

    /// The text of an argument that was read, `None` when it is absent.
    pub fn text_of(&self, name: &str) -> Option<&ArgText> {
        self.asked.iter().rev().find(|asked| asked.name == name)?.given.as_ref()
    }

    /// True when the argument was read and is present.
    pub fn is_given(&self, name: &str) -> bool {
        self.text_of(name).is_some()
    }

    /// Records an error that the element found. The place is an argument's name, an [`ArgText`], a [`Span`],
    /// or `()` for the whole configuration string.
    pub fn error<'p>(&mut self, place: impl Into<Place<'p>>, message: impl Into<String>) {
        let span = self.locate(place.into());
        self.diagnostics.push(Diagnostic::error(span, message));
    }

    /// Records an error that the element found, with a line of help, which may be empty; see [`error`](Self::error).
    pub fn error_with_help<'p>(
        &mut self,
        place: impl Into<Place<'p>>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let (span, help) = (self.locate(place.into()), help.into());
        let error = Diagnostic::error(span, message);
        self.diagnostics.push(if help.is_empty() { error } else { error.help(help) });
    }

    /// Records advice that `millrace check` prints: not an error, but perhaps not what the user wants; see
    /// [`error`](Self::error).
    pub fn advise<'p>(&mut self, place: impl Into<Place<'p>>, message: impl Into<String>) {
        let span = self.locate(place.into());
        self.diagnostics.push(Diagnostic::advice(span, message));
    }

    /// Records a message that the configuration itself makes; see [`error`](Self::error).
    pub fn say<'p>(&mut self, place: impl Into<Place<'p>>, message: impl Into<String>) {
        let span = self.locate(place.into());
        self.diagnostics.push(Diagnostic::message(span, message));
    }

    /// Records a warning; see [`error`](Self::error).
    pub fn warn<'p>(&mut self, place: impl Into<Place<'p>>, message: impl Into<String>) {
        let span = self.locate(place.into());
        self.diagnostics.push(Diagnostic::warning(span, message));
    }

    /// Records a warning about a place outside the configuration, such as a line of a file.
    pub fn warn_at(&mut self, landmark: impl Into<String>, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning(self.whole, message).landmark(landmark));
    }

    /// Records a finding with its own place, labels and help.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Parses a text from [`rest`](Self::rest), and records errors in it under `name` (no name when empty).
    pub fn parse_as<T: Arg>(&mut self, name: &str, text: &ArgText) -> Option<T> {
        self.parse(name, T::EXPECTS, text, T::parse)
    }

    /// True when an error was recorded.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Rejects arguments that the element did not read.
    ///
    /// # Errors
    /// An error was recorded, by this call or by any earlier reading.
    pub fn complete(&mut self) -> Result<(), Failed> {
        self.refuse_unknown_keywords();
        self.refuse_leftovers();
        if self.has_errors() { Err(Failed) } else { Ok(()) }
    }

    /// The errors as a handler returns them, one per line.
    pub fn messages(&self) -> String {
        let errors = self.diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
        errors.map(|error| error.message.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The arguments that were asked for, in order.
    pub(crate) fn into_asked(self) -> Vec<Asked> {
        self.asked
    }

    /// The errors, warnings and advice, in the order in which they were found.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    fn ask(&mut self, name: &str, kind: Kind, expects: &str, given: Option<ArgText>) {
        let (name, expects) = (name.to_owned(), expects.to_owned());
        self.asked.push(Asked { name, kind, expects, without_effect: None, given });
    }

    /// The value of an argument; removes it from the arguments. The rules are those of Click's `Args::find`,
    /// except that an empty argument is not a value.
    fn find(&mut self, name: &str, kind: Kind) -> Option<ArgText> {
        // Arguments in their places come before all arguments read by keyword.
        let next = self.arguments.iter().position(|a| a.used != Some(Used::InPlace));
        let next = next.filter(|&at| self.arguments.get(at).is_some_and(|a| a.used.is_none()));
        let mut found = None;
        for (at, argument) in self.arguments.iter_mut().enumerate() {
            if argument.is_keyword(name) {
                argument.used = Some(Used::ByKeyword);
                found = Some((at, argument.value()));
            }
        }
        if let Some(at) = next
            && kind.is_positional()
            && let Some(argument) = self.arguments.get_mut(at)
            && argument.used.is_none()
            // What seems to start with a keyword is still the argument that must stand here.
            && (argument.keyword == 0 || (found.is_none() && kind.is_mandatory()))
        {
            argument.used = Some(Used::InPlace);
            if found.as_ref().is_none_or(|(keyword, _)| *keyword < at) {
                found = Some((at, argument.text.clone()));
            }
        }
        found.map(|(_, text)| text).filter(|text| !text.is_empty())
    }

    fn parse<T, E: Into<ArgError>>(
        &mut self,
        name: &str,
        expects: &str,
        text: &ArgText,
        parse: impl FnOnce(&ArgText, &Scope<'a>) -> Result<T, E>,
    ) -> Option<T> {
        match parse(text, &self.scope) {
            Ok(value) => Some(value),
            Err(error) => {
                self.diagnostics.push(error.into().into_diagnostic(name, expects, text));
                None
            }
        }
    }

    fn locate(&self, place: Place<'_>) -> Option<Span> {
        match place {
            Place::Whole => self.whole,
            Place::Name(name) => self.text_of(name).map_or(self.whole, ArgText::span),
            Place::At(span) => span,
        }
    }

    fn refuse_unknown_keywords(&mut self) {
        let unused = self.arguments.iter().filter(|a| a.used.is_none() && a.keyword > 0);
        let errors = unused.map(|argument| {
            let keyword = argument.text.part(0..argument.keyword);
            let error = Diagnostic::error(keyword.span(), format!("{keyword}: unknown argument"));
            let names = self.asked.iter().map(|asked| asked.name.as_str());
            match nearest(keyword.as_str(), names) {
                Some(name) => error.help(format!("did you mean ‘{name}’?")),
                None => error.help(self.all()),
            }
        });
        let errors: Vec<_> = errors.collect();
        self.diagnostics.extend(errors);
    }

    fn refuse_leftovers(&mut self) {
        let mut unused = self.arguments.iter().filter(|a| a.used.is_none() && a.keyword == 0);
        let Some(first) = unused.next() else { return };
        let span = match (first.text.span(), unused.next_back().and_then(|a| a.text.span())) {
            (Some(first), Some(last)) => Some(first.to(last)),
            (first, _) => first,
        };
        let help = format!("{}; {}", self.surplus(&first.text), self.all());
        self.diagnostics.push(Diagnostic::error(span, "too many arguments").help(help));
    }

    /// How many arguments are taken, and which is the first surplus one.
    fn surplus(&self, surplus: &ArgText) -> String {
        let by_keyword = |asked: &&Asked| asked.kind.is_positional() && asked.given.is_some();
        let in_place = self.arguments.iter().filter(|a| a.used == Some(Used::InPlace)).count();
        let taken = match in_place {
            0 => match self.asked.iter().find(by_keyword) {
                Some(Asked { name, .. }) => format!("{name} is given by keyword already"),
                None => "none is taken without a keyword".to_owned(),
            },
            1 => "1 is taken without a keyword".to_owned(),
            n => format!("{n} are taken without a keyword"),
        };
        let surplus: String = surplus.as_str().chars().take(MOST_SHOWN).collect();
        format!("{taken}, ‘{surplus}’ is the first surplus one")
    }

    /// The known arguments.
    fn all(&self) -> String {
        if self.asked.is_empty() {
            return "this element takes no arguments".to_owned();
        }
        let names = self.asked.iter().map(|asked| match asked.kind {
            Kind::Mandatory => asked.name.clone(),
            Kind::Positional => format!("[{}]", asked.name),
            Kind::MandatoryKeyword => format!("{} …", asked.name),
            Kind::Keyword => format!("[{} …]", asked.name),
        });
        format!("the arguments are {}", names.collect::<Vec<_>>().join(", "))
    }
}

impl Argument {
    /// True when it was given with this keyword and not read yet.
    fn is_keyword(&self, name: &str) -> bool {
        self.used.is_none()
            && self.keyword == name.len()
            && self.keyword > 0
            && self.text.as_str().starts_with(name)
    }

    /// The text after the keyword.
    fn value(&self) -> ArgText {
        self.text.split_first_word().1
    }
}

/// Reads one value that comes from no source file, such as the text that a handler was given.
///
/// # Errors
/// What is wrong with the text, as a sentence.
pub fn parse<T: Arg>(text: &str, scope: &Scope<'_>) -> Result<T, String> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Err(format!("expected {}", T::EXPECTS));
    }
    T::parse(&text.into(), scope).map_err(|error| error.describe(T::EXPECTS))
}

/// The place of an element's own error; see [`Args::error`].
#[derive(Clone, Copy, Debug)]
pub enum Place<'p> {
    /// The whole configuration string.
    Whole,
    /// The argument with this name; the whole string when it is absent.
    Name(&'p str),
    /// A place of its own.
    At(Option<Span>),
}

impl<'p> From<&'p str> for Place<'p> {
    fn from(name: &'p str) -> Self {
        Self::Name(name)
    }
}

impl From<Span> for Place<'_> {
    fn from(span: Span) -> Self {
        Self::At(Some(span))
    }
}

impl From<&ArgText> for Place<'_> {
    fn from(text: &ArgText) -> Self {
        Self::At(text.span())
    }
}

impl From<()> for Place<'_> {
    fn from((): ()) -> Self {
        Self::Whole
    }
}

#[cfg(test)]
mod tests;

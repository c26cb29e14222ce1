//! What a type must implement to be an argument.

use std::ops::Range;

use millrace_lang::Diagnostic;

use super::{ArgText, Scope};

/// A type that can be read from an argument.
pub trait Arg: Sized {
    /// A valid value, to follow “expected”: `an IP address`.
    const EXPECTS: &'static str;

    /// Reads a value. The text is never empty.
    ///
    /// # Errors
    /// The text is not such a value: [`ArgError::default`] when there is nothing to say except what was
    /// expected.
    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError>;

    /// The value that a reader returns after it has recorded an error. It need not make sense, because with
    /// an error recorded no element is created.
    fn placeholder() -> Self;
}

/// Why an argument was rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgError {
    message: Option<String>,
    part: Option<Range<usize>>,
    help: Option<String>,
}

impl ArgError {
    /// An error with its own message, in Click's style: `out of range, bound 255`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::default() }
    }

    /// Places the error at these bytes of the argument's text.
    #[must_use]
    pub fn at(self, part: Range<usize>) -> Self {
        Self { part: Some(part), ..self }
    }

    /// Adds advice.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// What is wrong; Click's `parse error` when the text is simply not such a value.
    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("parse error")
    }

    /// What is wrong, or else what was expected.
    pub fn describe(&self, expects: &str) -> String {
        self.message.clone().unwrap_or_else(|| format!("expected {expects}"))
    }

    pub(super) fn into_diagnostic(self, name: &str, expects: &str, text: &ArgText) -> Diagnostic {
        let message = match name {
            "" => self.message().to_owned(),
            name => format!("{name}: {}", self.message()),
        };
        let span = self.part.map_or(text.span(), |part| text.place(part));
        let mut error = Diagnostic::error(span, message);
        if self.message.is_none() {
            error = error.label(format!("expected {expects}"));
        }
        error.help = self.help;
        error
    }
}

impl From<String> for ArgError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for ArgError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

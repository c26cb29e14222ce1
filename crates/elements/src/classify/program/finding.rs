//! Errors and warnings about the patterns of a classifier, with their positions.

use std::fmt;
use std::ops::Range;

/// One finding about one argument of a classifier.
///
/// Displayed in Click's format: `pattern 2: expected a digit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// True for an error, which prevents compilation; false for a warning.
    pub is_error: bool,
    /// The argument, counted from 0.
    pub argument: usize,
    /// The byte range of the argument in question. Empty, and at its end, when something is missing.
    pub range: Range<usize>,
    /// The message, without a full stop.
    pub message: String,
    /// What to do about it; may be empty.
    pub help: String,
}

impl Finding {
    /// An error in a part of an argument.
    pub fn error(argument: usize, range: Range<usize>, message: impl Into<String>) -> Self {
        Self { is_error: true, argument, range, message: message.into(), help: String::new() }
    }

    /// The same finding with a line of help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// A warning about a part of an argument.
    pub fn warning(argument: usize, range: Range<usize>, message: impl Into<String>) -> Self {
        Self { is_error: false, ..Self::error(argument, range, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "pattern {}: {}", self.argument, self.message)
    }
}

impl std::error::Error for Finding {}

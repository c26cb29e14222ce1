//! The text of one argument, with its position.

use std::fmt;
use std::ops::Range;

use millrace_lang::{ConfigText, Span, config};

/// The text of one argument, or of a word of it: without comments, with quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgText {
    text: String,
    /// `None` for texts that come from no source file, such as those given to handlers.
    span: Option<Span>,
    /// True when `text` is the source text of `span` byte for byte.
    exact: bool,
}

impl ArgText {
    /// A text at `span`. With `exact`, the source text at `span` is `text` byte for byte, so that its parts
    /// have positions of their own.
    pub fn new(text: impl Into<String>, span: impl Into<Option<Span>>, exact: bool) -> Self {
        Self { text: text.into(), span: span.into(), exact }
    }

    /// The arguments of a configuration string.
    pub(super) fn split_config(config: &ConfigText) -> Vec<Self> {
        let cut = |argument: config::ArgText<'_>| {
            // Where a comment was taken out, the text is shorter than its place.
            let exact = config.verbatim && argument.text.len() == argument.end - argument.start;
            Self::new(argument.text, config.place(argument.start, argument.end), exact)
        };
        config::split_args(&config.text).into_iter().map(cut).collect()
    }

    /// The arguments of a text that comes from no source file.
    pub(super) fn split_text(text: &str) -> Vec<Self> {
        let arguments = config::split_args(text).into_iter();
        arguments.map(|argument| Self::new(argument.text, None, false)).collect()
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True for an empty argument.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The position of the argument; `None` when it comes from no source file.
    pub fn span(&self) -> Option<Span> {
        self.span
    }

    /// The position of a part of the text: exact when the text is verbatim, otherwise the whole text.
    pub fn place(&self, part: Range<usize>) -> Option<Span> {
        let span = self.span?;
        Some(if self.exact { span.sub(part.start, part.end) } else { span })
    }

    /// A part of the text as a text of its own; ignores bytes past the end.
    #[must_use]
    pub fn part(&self, part: Range<usize>) -> Self {
        let end = part.end.min(self.text.len());
        let start = part.start.min(end);
        let text = self.text.get(start..end).unwrap_or_default();
        Self { text: text.to_owned(), span: self.place(start..end), exact: self.exact }
    }

    /// The words of the text, separated by unquoted spaces.
    pub fn words(&self) -> Vec<Self> {
        self.places_of_words().map(|place| self.part(place)).collect()
    }

    /// The positions of its words in the text.
    pub(super) fn places_of_words(&self) -> impl Iterator<Item = Range<usize>> {
        let words = config::split_words(&self.text).into_iter();
        words.map(|word| word.start..word.start + word.text.len())
    }

    /// The first word, and the text after the space that follows it, which may be empty.
    pub fn split_first_word(&self) -> (Self, Self) {
        let first = self.places_of_words().next().unwrap_or(0..0);
        let (_, rest) = config::shift_word(&self.text);
        (self.part(first), self.part(self.text.len() - rest.len()..self.text.len()))
    }

    /// The text with one level of quotes removed and escapes expanded. Escapes can produce any bytes.
    pub fn unquote(&self) -> Vec<u8> {
        config::unquote(&self.text)
    }

    /// True when there is no space outside quotes, so that the text is one word.
    pub fn is_one_word(&self) -> bool {
        self.places_of_words().next() == Some(0..self.text.len())
    }

    /// Length of the keyword that the text starts with, 0 when it has none. A keyword is a word of letters,
    /// digits and `_:.?!` that does not start with a digit and is followed by a space and a value.
    pub(super) fn keyword_len(&self) -> usize {
        let bytes = self.text.as_bytes();
        if !bytes.first().is_some_and(|&b| b.is_ascii_alphabetic() || b == b'_') {
            return 0;
        }
        let in_keyword = |b: &&u8| b.is_ascii_alphanumeric() || b"_:.?!".contains(b);
        let len = bytes.iter().take_while(in_keyword).count();
        // Arguments never end in a space: what follows one is a value.
        if bytes.get(len).is_some_and(|&b| matches!(b, b' ' | b'\t'..=b'\r')) { len } else { 0 }
    }
}

/// A text that comes from no source file, such as what a handler is given.
impl From<&str> for ArgText {
    fn from(text: &str) -> Self {
        Self::new(text, None, false)
    }
}

/// The text as written.
impl fmt::Display for ArgText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

//! Problems in a configuration, with their location.

use crate::source::Span;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Not a problem: advice that only a check of the configuration prints.
    Advice,
    /// Not a problem: a message from the configuration itself.
    Message,
    /// The configuration runs, but deserves a look.
    Warning,
    /// The configuration does not run.
    Error,
}

/// One diagnostic about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The location, if there is one.
    pub span: Option<Span>,
    /// Text to print under the location.
    pub label: Option<String>,
    /// Advice: often the name that was meant.
    pub help: Option<String>,
    /// Other locations and remarks that explain the problem.
    pub notes: Vec<Note>,
    /// What was being done, in Click's words: ``While configuring ‘q :: Queue’``.
    pub context: Option<String>,
    /// Where that was being done, if it is not `span`: the element, for an error in one of its arguments.
    pub context_span: Option<Span>,
    /// A location outside the configuration, such as `trace.txt:3`.
    pub landmark: Option<String>,
    /// The text at that location.
    pub excerpt: Option<Excerpt>,
}

/// A line of a file outside the configuration, and a position in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The file's name.
    pub file: String,
    /// The number of the line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// The byte offset of the position; it extends to the end of the word.
    pub at: usize,
}

/// A remark that belongs to a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The remark.
    pub message: String,
    /// Its location, if it has one.
    pub span: Option<Span>,
    /// Whether Click prints it, too; other remarks are omitted where Click's messages are wanted.
    pub in_click: bool,
}

impl Diagnostic {
    /// An error at a location.
    pub fn error(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, span.into(), message.into())
    }

    /// Advice about a place.
    pub fn advice(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Advice, span.into(), message.into())
    }

    /// A message from the configuration itself.
    pub fn message(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Message, span.into(), message.into())
    }

    /// A warning at a location.
    pub fn warning(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, span.into(), message.into())
    }

    fn new(severity: Severity, span: Option<Span>, message: String) -> Self {
        Self {
            severity,
            message,
            span,
            label: None,
            help: None,
            notes: Vec::new(),
            context: None,
            context_span: None,
            landmark: None,
            excerpt: None,
        }
    }

    /// Adds text under the location.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a remark that Click also prints.
    #[must_use]
    pub fn note(mut self, span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        self.notes.push(Note { message: message.into(), span: span.into(), in_click: true });
        self
    }

    /// Adds a remark that Click does not print.
    #[must_use]
    pub fn remark(mut self, span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        self.notes.push(Note { message: message.into(), span: span.into(), in_click: false });
        self
    }

    /// Sets what was being done.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// Sets what was being done, and where.
    #[must_use]
    pub fn context_at(mut self, span: Span, context: impl Into<String>) -> Self {
        self.context_span = Some(span);
        self.context(context)
    }

    /// Sets a location outside the configuration: in a line of a file that an element reads.
    #[must_use]
    pub fn landmark(mut self, landmark: impl Into<String>) -> Self {
        self.landmark = Some(landmark.into());
        self
    }

    /// Sets the text at the location outside the configuration.
    #[must_use]
    pub fn excerpt(mut self, excerpt: Excerpt) -> Self {
        self.excerpt = Some(excerpt);
        self
    }

    /// True only for errors.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The diagnostics of one compilation, limited to a number that a person can read and that bounds the memory
/// for a hostile file.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    left_out: usize,
    left_out_errors: usize,
}

impl Findings {
    /// Further diagnostics are counted, but not kept.
    pub(crate) const MOST: usize = 1000;

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if self.list.len() < Self::MOST {
            self.list.push(diagnostic);
        } else {
            self.left_out += 1;
            self.left_out_errors += usize::from(diagnostic.is_error());
        }
    }

    /// True when there is no room left; work that only finds more problems may stop.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= Self::MOST
    }

    pub(crate) fn append(&mut self, other: Findings) {
        self.left_out += other.left_out;
        self.left_out_errors += other.left_out_errors;
        other.list.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.list.iter().any(Diagnostic::is_error)
    }

    /// The diagnostics in the order of the text, those without a location last; of diagnostics with the same
    /// location and text, only the first.
    pub(crate) fn into_sorted(self) -> Vec<Diagnostic> {
        let mut list = self.list;
        let place = |d: &Diagnostic| d.span.map_or((u32::MAX, u32::MAX), |s| (s.source.0, s.start));
        list.sort_by_key(place);
        list.dedup_by(|b, a| a.span == b.span && a.message == b.message);
        if self.left_out > 0 {
            let message = format!("{} more messages are not shown", self.left_out);
            list.push(match self.left_out_errors {
                0 => Diagnostic::warning(None, message),
                _ => Diagnostic::error(None, message),
            });
        }
        list
    }
}

/// A name of any length, shortened for a message.
pub(crate) fn shorten(name: &str) -> std::borrow::Cow<'_, str> {
    const MOST: usize = 60;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or("")).into(),
        None => name.into(),
    }
}

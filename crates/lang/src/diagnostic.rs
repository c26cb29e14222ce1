//! What is wrong with a configuration, and where.

use crate::source::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong, but the user may have meant something else. Only a check of the configuration says it.
    Advice,
    /// Nothing is wrong: the configuration says something.
    Message,
    /// The configuration runs; somebody should look.
    Warning,
    /// The configuration does not run.
    Error,
}

/// One finding about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The place, when there is one.
    pub span: Option<Span>,
    /// Words to stand under the place.
    pub label: Option<String>,
    /// What to do: often the name that was meant.
    pub help: Option<String>,
    /// Other places and remarks that explain the finding.
    pub notes: Vec<Note>,
    /// What was being done, as Click says it: ``While configuring ‘q :: Queue’``.
    pub context: Option<String>,
    /// Where that was being done, when it is not `span`: the element, for a mistake in one of its
    /// arguments.
    pub context_span: Option<Span>,
    /// A place outside of the configuration, such as `trace.txt:3`.
    pub landmark: Option<String>,
    /// What stands at that place.
    pub excerpt: Option<Excerpt>,
}

/// A line of a file outside of the configuration, and a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The file's name.
    pub file: String,
    /// The number of the line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// The byte of it where the place begins; it ends with the word.
    pub at: usize,
}

/// A remark that belongs to a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The remark.
    pub message: String,
    /// Its place, when it has one.
    pub span: Option<Span>,
    /// Click says it, too; other remarks are left out where its messages are wanted.
    pub in_click: bool,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, span.into(), message.into())
    }

    /// Advice about a place.
    pub fn advice(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Advice, span.into(), message.into())
    }

    /// A message of the configuration's own.
    pub fn message(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Message, span.into(), message.into())
    }

    /// A warning at a place.
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

    /// Adds words under the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a remark that Click makes, too.
    #[must_use]
    pub fn note(mut self, span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        self.notes.push(Note { message: message.into(), span: span.into(), in_click: true });
        self
    }

    /// Adds a remark that Click does not make.
    #[must_use]
    pub fn remark(mut self, span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        self.notes.push(Note { message: message.into(), span: span.into(), in_click: false });
        self
    }

    /// Says what was being done.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// Says what was being done, and where.
    #[must_use]
    pub fn context_at(mut self, span: Span, context: impl Into<String>) -> Self {
        self.context_span = Some(span);
        self.context(context)
    }

    /// Says where outside of the configuration it was found: in a line of a file that an element reads.
    #[must_use]
    pub fn landmark(mut self, landmark: impl Into<String>) -> Self {
        self.landmark = Some(landmark.into());
        self
    }

    /// Shows what stands at the place outside of the configuration.
    #[must_use]
    pub fn excerpt(mut self, excerpt: Excerpt) -> Self {
        self.excerpt = Some(excerpt);
        self
    }

    /// True only of errors.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Findings of one compilation, kept to a number that somebody can read and that bounds the
/// memory a hostile file can take.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    left_out: usize,
    left_out_errors: usize,
}

impl Findings {
    /// More findings than this are counted, not kept.
    pub(crate) const MOST: usize = 1000;

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if self.list.len() < Self::MOST {
            self.list.push(diagnostic);
        } else {
            self.left_out += 1;
            self.left_out_errors += usize::from(diagnostic.is_error());
        }
    }

    /// True when there is no room left; work that only finds more may stop.
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

    /// The findings in the order of the text, those without a place last; of findings with the
    /// same place and words, the first.
    pub(crate) fn into_sorted(self) -> Vec<Diagnostic> {
        let mut list = self.list;
        let place = |d: &Diagnostic| d.span.map_or((u32::MAX, u32::MAX), |s| (s.source.0, s.start));
        list.sort_by_key(place);
        list.dedup_by(|b, a| a.span == b.span && a.message == b.message);
        if self.left_out > 0 {
            let message = format!("{} more messages left out", self.left_out);
            list.push(match self.left_out_errors {
                0 => Diagnostic::warning(None, message),
                _ => Diagnostic::error(None, message),
            });
        }
        list
    }
}

/// A name of any length, short enough for a message.
pub(crate) fn shorten(name: &str) -> std::borrow::Cow<'_, str> {
    const MOST: usize = 60;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or("")).into(),
        None => name.into(),
    }
}

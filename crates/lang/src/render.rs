//! Diagnostics as text for people.
//!
//! [`Style::Snippet`] shows the location in the source, like rustc:
//!
//! ```
//! use millrace_lang::{Options, SourceMap, Style, compile, render};
//!
//! let mut map = SourceMap::default();
//! let source = map.add("router.click", "Idle -> Qeueu -> Discard;\n");
//! let classes = ["Idle", "Queue", "Discard"].map(String::from);
//! let options = Options { classes: Some(&classes), ..Options::default() };
//! let (_, diagnostics) = compile(&mut map, source, &options);
//! assert_eq!(render(&diagnostics[0], &map, Style::Snippet { color: false }), "\
//! error: undeclared element ‘Qeueu’
//!  --> router.click:1:9
//!   |
//! 1 | Idle -> Qeueu -> Discard;
//!   |         ^^^^^
//!   |
//!   = help: did you mean ‘Queue’?
//! ");
//! ```
//!
//! [`Style::Click`] is Click's output, for programs that read it:
//!
//! ```
//! # use millrace_lang::{Options, SourceMap, Style, compile, render};
//! # let mut map = SourceMap::default();
//! # let source = map.add("router.click", "Idle -> Qeueu -> Discard;\n");
//! # let classes = ["Idle", "Queue", "Discard"].map(String::from);
//! # let options = Options { classes: Some(&classes), ..Options::default() };
//! # let (_, diagnostics) = compile(&mut map, source, &options);
//! assert_eq!(render(&diagnostics[0], &map, Style::Click),
//!     "router.click:1: undeclared element ‘Qeueu’\n");
//! ```

use std::fmt::Write;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Excerpt, Note, Severity};
use crate::source::{SourceMap, Span};

/// The style of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The message, its location in the source, and all advice.
    Snippet {
        /// With the escape sequences of a terminal.
        color: bool,
    },
    /// Click's own form: `file:line: message`, and no help.
    Click,
}

/// Longer lines are shown in part.
const MAX_LINE: usize = 400;

/// Of a longer range, only the start is shown.
const MAX_PLACE: usize = 4000;

/// Further notes are only counted.
const MAX_NOTES: usize = 12;

/// Renders one diagnostic. The text ends with a newline.
pub fn render(diagnostic: &Diagnostic, map: &SourceMap, style: Style) -> String {
    render_all(std::slice::from_ref(diagnostic), map, style)
}

/// Renders diagnostics one after the other. In Click's style, diagnostics with the same context are printed
/// under it, and the context only once.
pub fn render_all(diagnostics: &[Diagnostic], map: &SourceMap, style: Style) -> String {
    let mut out = String::new();
    let mut context = None;
    for (index, diagnostic) in diagnostics.iter().enumerate() {
        match style {
            Style::Click => context = render_click(diagnostic, map, context, &mut out),
            Style::Snippet { color } => {
                if index > 0 {
                    out.push('\n');
                }
                render_snippet(diagnostic, map, color, &mut out);
            }
        }
    }
    out
}

/// A context line that has been printed: its location and text.
type Context<'d> = Option<(String, &'d str)>;

fn render_click<'d>(
    diagnostic: &'d Diagnostic,
    map: &SourceMap,
    printed: Context<'d>,
    out: &mut String,
) -> Context<'d> {
    let landmark = |span: Option<Span>| {
        let landmark = span.map(|span| map.landmark(span)).unwrap_or_default();
        if landmark.is_empty() { landmark } else { landmark + ": " }
    };
    let level = match diagnostic.severity {
        Severity::Warning => "warning: ",
        Severity::Advice => "note: ",
        Severity::Message | Severity::Error => "",
    };
    let mut line = |prefix: &str, text: &str| {
        for text in text.lines() {
            _ = writeln!(out, "{prefix}{text}");
        }
    };
    let Some(context) = &diagnostic.context else {
        let own = diagnostic.landmark.as_ref().map(|own| format!("{own}: "));
        let own = own.unwrap_or_else(|| landmark(diagnostic.span));
        line(&own, &format!("{level}{}", diagnostic.message));
        for note in diagnostic.notes.iter().filter(|note| note.in_click) {
            line(&landmark(note.span.or(diagnostic.span)), &note.message);
        }
        return None;
    };
    let at = landmark(diagnostic.context_span.or(diagnostic.span));
    let context = Some((at, context.trim_end_matches(':')));
    if context != printed
        && let Some((at, words)) = &context
    {
        line(at, &format!("{words}:"));
    }
    let own = diagnostic.landmark.as_ref().map_or_else(String::new, |own| format!("{own}: "));
    line(&format!("{own}  "), &format!("{level}{}", diagnostic.message));
    for note in diagnostic.notes.iter().filter(|note| note.in_click) {
        line("  ", &note.message);
    }
    context
}

fn render_snippet(diagnostic: &Diagnostic, map: &SourceMap, color: bool, out: &mut String) {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Message => Level::INFO,
        Severity::Advice => Level::NOTE,
    };
    let message = match (&diagnostic.landmark, &diagnostic.excerpt) {
        (Some(landmark), None) => format!("{landmark}: {}", diagnostic.message),
        _ => diagnostic.message.clone(),
    };
    let mut main = Group::with_title(level.primary_title(printable(&message)));
    if let Some(excerpt) = &diagnostic.excerpt {
        main = main.elements(line_of(excerpt));
    } else if let Some(span) = diagnostic.span {
        main = main.elements(excerpt(span, diagnostic.label.as_deref(), map));
    }
    if let Some(context) = &diagnostic.context {
        main = main.element(Level::NOTE.message(printable(context)));
    }
    let (shown, more) = match diagnostic.notes.split_at_checked(MAX_NOTES) {
        Some((shown, more)) => (shown, more.len()),
        None => (&diagnostic.notes[..], 0),
    };
    // Remarks without a place belong under the message, before places that draw the eye away.
    let text = |note: &Note| printable(note.message.trim());
    for note in shown.iter().filter(|note| note.span.is_none()) {
        main = main.element(Level::NOTE.message(text(note)));
    }
    if let Some(help) = &diagnostic.help {
        main = main.element(Level::HELP.message(printable(help)));
    }
    let mut report = vec![main];
    for note in shown {
        let Some(span) = note.span else { continue };
        // The heading of a list: here each entry has its own.
        if note.message.ends_with(':') {
            continue;
        }
        let group = Group::with_title(Level::NOTE.secondary_title(text(note)));
        report.push(group.elements(excerpt(span, None, map)));
    }
    if more > 0 {
        let message = format!("and {more} more");
        report.push(Group::with_title(Level::NOTE.secondary_title(message)));
    }
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    out.push_str(&renderer.render(&report));
    out.push('\n');
}

/// The lines around a location, with the location marked.
fn excerpt<'m>(span: Span, label: Option<&str>, map: &'m SourceMap) -> Vec<Element<'m>> {
    let Some(source) = map.get(span.source) else { return Vec::new() };
    let text = source.text.as_str();
    let place = clamp(text, span);
    let (file, line) = source.file_and_line(place.start as u32);
    let first = source.line_range(source.line_index(place.start as u32)).start;
    let last = source.line_range(source.line_index(place.end.max(place.start + 1) as u32 - 1)).end;
    let column = source.location(place.start as u32).column as usize;
    marked(text, first..last, &place, label, (file, line as usize, column))
}

/// The line of another file, with the position marked.
fn line_of(excerpt: &Excerpt) -> Vec<Element<'_>> {
    let Excerpt { file, line, text, at } = excerpt;
    let start = floor(text, *at);
    let rest = text.get(start..).unwrap_or("");
    let word = rest.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(rest.len());
    let place = start..start + word;
    let column = text.get(..start).map_or(0, |before| before.chars().count()) + 1;
    marked(text, 0..text.len(), &place, None, (file, *line, column))
}

/// These lines of a text, with the location marked, which has this file, line and column.
fn marked<'t>(
    text: &'t str,
    lines: Range<usize>,
    place: &Range<usize>,
    label: Option<&str>,
    (file, line, column): (&str, usize, usize),
) -> Vec<Element<'t>> {
    let first = lines.start;
    let window = window(text, lines, place);
    let shown = text.get(window.clone()).unwrap_or("");
    let marked = place.start - window.start..place.end.min(window.end) - window.start;
    let mark = AnnotationKind::Primary.span(marked).label(label.map(printable));
    let snippet = Snippet::source(shown).line_start(line).annotation(mark);
    if window.start == first {
        return vec![snippet.path(printable(file)).into()];
    }
    // The column is not that of what is shown.
    let origin = Origin::path(printable(file)).line(line).char_column(column);
    vec![origin.into(), snippet.into()]
}

/// The range in bytes, adjusted to the text and to character boundaries.
fn clamp(text: &str, span: Span) -> Range<usize> {
    let start = floor(text, span.start as usize);
    let end = ceil(text, (span.end as usize).max(start));
    let end = if end - start > MAX_PLACE { line_end(text, start, end) } else { end };
    start..end
}

/// The part of `lines` to show: all, or the surroundings of the location when they are long.
fn window(text: &str, lines: Range<usize>, place: &Range<usize>) -> Range<usize> {
    let start = if place.start - lines.start > MAX_LINE {
        ceil(text, place.start - MAX_LINE / 4).min(place.start)
    } else {
        lines.start
    };
    let end = if lines.end - start > MAX_PLACE + 2 * MAX_LINE || lines.end - place.end > MAX_LINE {
        let most = place.end.min(start + MAX_PLACE) + MAX_LINE / 2;
        floor(text, most).clamp(start, lines.end)
    } else {
        lines.end
    };
    start..end
}

/// The end of the line that contains `start`, or `end` if that is before it.
fn line_end(text: &str, start: usize, end: usize) -> usize {
    let rest = text.get(start..end).unwrap_or("");
    rest.find(['\n', '\r']).map_or(floor(text, start + MAX_PLACE), |n| start + n).min(end)
}

/// The last character boundary that is not after `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

/// The first character boundary that is not before `at`.
fn ceil(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (at..=text.len()).find(|&i| text.is_char_boundary(i)).unwrap_or(text.len())
}

/// A text from a configuration, made harmless for a terminal.
fn printable(text: &str) -> String {
    let visible = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}

/// The text with Click's quotation marks as ASCII apostrophes, as Click prints them outside UTF-8 locales.
pub fn ascii_quotes(text: &str) -> String {
    text.replace(['‘', '’'], "'")
}

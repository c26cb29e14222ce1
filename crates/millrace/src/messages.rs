//! Standard error: what the user should know, and what is wrong with a configuration.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use millrace_core::router::in_locale;
use millrace_lang::{Diagnostic, SourceMap, Style, render_all};

/// Tells the user something. That nobody listens is no error.
pub(crate) fn say(message: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{message}");
}

/// Tells the user what went wrong.
pub(crate) fn complain(message: impl Display) {
    say(format_args!("millrace: {message}"));
}

/// Tells the user as Click does: with the quotation marks of his locale.
pub(crate) fn complain_as_click(message: impl Display) {
    say(in_locale(&message.to_string()));
}

/// The number of findings that are shown.
const MOST_SHOWN: usize = 200;

/// Shows what is wrong with a configuration, each with its place in the text.
pub(crate) fn show(diagnostics: &[Diagnostic], map: &SourceMap) {
    let (diagnostics, rest) = diagnostics.split_at(diagnostics.len().min(MOST_SHOWN));
    if !diagnostics.is_empty() {
        let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        say(render_all(diagnostics, map, Style::Snippet { color }));
    }
    if !rest.is_empty() {
        say(format_args!("and {} more", tally(rest)));
    }
}

/// `1 error, 2 warnings`; nothing when there are none.
pub(crate) fn tally(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    let counts = [(errors, "error"), (diagnostics.len() - errors, "warning")];
    let parts: Vec<String> = counts
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}{}", if *n == 1 { "" } else { "s" }))
        .collect();
    parts.join(", ")
}

//! Messages on standard error: information, and the errors of configurations.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

use millrace_core::router::in_locale;
use millrace_lang::{Diagnostic, SourceMap, Style, render_all};

/// Prints information in one piece. A closed standard error is ignored.
pub(crate) fn say(message: impl Display) {
    let _ = std::io::stderr().lock().write_all(format!("{message}\n").as_bytes());
}

/// Prints an error.
pub(crate) fn complain(message: impl Display) {
    say(format_args!("millrace: {message}"));
}

/// Prints an error as Click does, with the quotation marks of the user's locale.
pub(crate) fn complain_as_click(message: impl Display) {
    say(in_locale(&message.to_string()));
}

/// The maximum number of diagnostics that are printed.
const MOST_SHOWN: usize = 200;

/// Prints diagnostics, each with its place in the text.
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

/// The numbers of errors and warnings, such as `1 error, 2 warnings`; empty if there are none.
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

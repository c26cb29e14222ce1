//! The manuals of classes, for terminals.

use std::fmt::Write;

use millrace_core::Registry;

/// The manual of a class that this program has.
pub(crate) fn of_class(class: &str) -> Option<String> {
    Registry::linked().get(class).map(|info| plain(&info.manual()))
}

/// Markdown converted for a terminal: headings in capitals, text indented, no fences.
pub(crate) fn plain(manual: &str) -> String {
    let mut text = String::new();
    let mut fenced = false;
    for line in manual.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if let Some(heading) = line.strip_prefix("# ").filter(|_| !fenced) {
            let _ = writeln!(text, "{}", heading.to_uppercase());
        } else if line.is_empty() || text.is_empty() {
            let _ = writeln!(text, "{line}");
        } else {
            let indent = if fenced { "      " } else { "  " };
            let _ = writeln!(text, "{indent}{line}");
        }
    }
    text
}

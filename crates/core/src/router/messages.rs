//! What a router says to its user.

use std::borrow::Cow;
use std::io::Write;
use std::sync::LazyLock;

use millrace_lang::ascii_quotes;

use super::Router;

impl Router {
    /// Prints a message to the user while the router runs, on standard error, with the quotation marks of the
    /// locale.
    pub fn chatter(&self, message: &str) {
        // One piece, so that lines of several programs on the same terminal or pipe do not mix. Where nobody can listen,
        // nothing need be said.
        let _ = std::io::stderr().write_all(format!("{}\n", in_locale(message)).as_bytes());
    }

    /// Stores a message for the end of the run.
    pub fn complain(&self, message: String) {
        self.complaints.lock().push(message);
    }

    pub(crate) fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.complaints.lock())
    }
}

/// A message with the quotation marks of the locale: plain ones where its characters are not UTF-8.
pub fn in_locale(message: &str) -> Cow<'_, str> {
    static UTF8: LazyLock<bool> = LazyLock::new(speaks_utf8);
    match message.contains(['‘', '’']) && !*UTF8 {
        true => Cow::from(ascii_quotes(message)),
        false => Cow::from(message),
    }
}

/// Whether the locale's characters are UTF-8: the first of these variables that is set counts, locale(7).
fn speaks_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(std::env::var_os);
    let first = set.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let name = first.to_string_lossy().to_ascii_lowercase();
    name.ends_with("utf-8") || name.ends_with("utf8")
}

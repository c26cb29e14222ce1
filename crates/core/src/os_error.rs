//! What the operating system says of an error.

use std::io;
use std::sync::OnceLock;

/// What follows when the system refuses something.
static ADVICE: OnceLock<&'static str> = OnceLock::new();

/// From now on, the text of an error says this too, in parentheses, if the system refused permission: this process has
/// given up privileges, and the advice says how to keep them. Only the first advice counts.
pub fn advise_on_refusals(advice: &'static str) {
    // It is the same for the whole process.
    let _ = ADVICE.set(advice);
}

/// The [advice](advise_on_refusals) for an error, with a space before it; empty if there is none.
#[must_use]
pub fn refusal_advice(error: &io::Error) -> String {
    let refused = error.kind() == io::ErrorKind::PermissionDenied;
    match ADVICE.get().filter(|_| refused) {
        Some(advice) => format!(" ({advice})"),
        None => String::new(),
    }
}

/// The text of an error as Unix programs print it: without the number.
#[must_use]
pub fn os_error_text(error: &io::Error) -> String {
    let text = error.to_string();
    let advice = refusal_advice(error);
    match text.split_once(" (os error ") {
        Some((words, _)) => format!("{words}{advice}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_lose_their_number() {
        let missing = io::Error::from_raw_os_error(2);
        assert_eq!(os_error_text(&missing), "No such file or directory");
        assert_eq!(os_error_text(&io::Error::other("too long")), "too long");
    }
}

//! Warnings of handlers, for whoever wrote them.

use std::cell::RefCell;

use super::Router;

thread_local! {
    /// The warnings of the write that this thread makes, if somebody listens.
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Writes handlers, and returns what they warn of, too. Handlers run on the thread that writes them.
pub fn hear<T>(write: impl FnOnce() -> T) -> (T, Vec<String>) {
    let outer = HEARD.replace(Some(Vec::new()));
    let written = write();
    (written, HEARD.replace(outer).unwrap_or_default())
}

/// Passes a warning to whoever listens, or prints it as `line`.
pub(super) fn tell(router: &Router, warning: &str, line: impl FnOnce() -> String) {
    if !warn_listener(warning) {
        router.chatter(&line());
    }
}

/// Passes a warning to whoever listens to this thread's writes. Returns whether somebody does.
pub fn warn_listener(warning: &str) -> bool {
    HEARD.with_borrow_mut(|heard| match heard {
        Some(heard) => {
            heard.push(warning.to_owned());
            true
        }
        None => false,
    })
}

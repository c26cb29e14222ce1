//! What the operating system says of an error.

use std::io;

/// The text of an error as Unix programs print it: without the number.
#[must_use]
pub fn os_error_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
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

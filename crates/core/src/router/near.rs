//! The handlers that were probably meant by names that there are not.

use millrace_lang::nearest;

use super::Router;
use super::control::split_path;

impl Router {
    /// The path that was probably meant by one that [`read`](Self::read) or [`write`](Self::write) does not know.
    pub fn near_path(&self, path: &str, writes: bool) -> Option<String> {
        match split_path(path) {
            (None, handler) => self.near_handler(None, handler, writes),
            (Some(element), handler) => match self.known(element) {
                Ok(id) => {
                    let near = self.near_handler(Some(id), handler, writes)?;
                    Some(format!("{element}.{near}"))
                }
                Err(_) => Some(format!("{}.{handler}", self.near_element(element)?)),
            },
        }
    }

    /// The handler of an element, or the global one, that was probably meant by a name.
    pub fn near_handler(&self, id: Option<usize>, name: &str, writes: bool) -> Option<String> {
        let mut known = match id {
            Some(id) => self.handlers_of(id),
            None => self.global_handlers(),
        };
        known
            .retain(|&(ref known, read, write)| known != name && if writes { write } else { read });
        nearest(name, known.iter().map(|(known, ..)| known.as_str())).map(str::to_owned)
    }

    /// The element that was probably meant by a name.
    pub fn near_element(&self, name: &str) -> Option<&str> {
        nearest(name, self.members.iter().map(|member| member.name.as_str()))
    }
}

/// The end of a message about a name that there is not: the one that was probably meant.
pub fn or_rather(near: Option<impl AsRef<str>>) -> String {
    near.map(|near| format!("; did you mean ‘{}’?", near.as_ref())).unwrap_or_default()
}

//! The view of a running router on the terminal: of another process (`millrace top`), and of this one (`millrace run`).
//!
//! From below: `source` gives snapshots, `history` and `data` keep them, `lists` makes tables of them, `pages` is what can
//! be opened, `state` is all that is on the screen, which keys change, `view` draws it, `screen` is the terminal.

mod data;
mod history;
mod keyboard;
mod listing;
mod lists;
mod messages;
mod once;
mod own;
mod pages;
mod screen;
mod session;
mod source;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod view;

pub(crate) use once::once;
pub(crate) use own::Live;
pub(crate) use screen::release;
pub(crate) use session::watch;
pub(crate) use source::Remote;

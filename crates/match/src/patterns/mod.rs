//! Pattern sets, and the engines that search for them in payloads.
//!
//! A [`PatternSet`] is a list of rules. Each has one or more contents (strings of bytes) that must all occur in a
//! text. The text is a whole payload. A rule *alerts* if each of its contents occurs in its window of the text. The
//! **result** of a text is the lowest-numbered rule that alerts, plus 1, or 0. Every engine gives the same result:
//! the one for the CPU ([`Dfa`]), the kernel for a GPU, and the plain search over an image ([`image::search`]) that
//! defines it.

mod automaton;
mod dfa;
pub mod image;
mod matcher;
mod outside;
mod parse;
mod set;
mod stream;
#[cfg(test)]
mod testing;
mod verify;

pub use dfa::{Dfa, Scratch};
pub use image::{BuildError, Image};
pub use matcher::{EngineChoice, Matcher};
pub use parse::{Format, ParseError, PlainOptions};
pub use set::{Content, Kind, Kinds, PatternSet, Rule, SetError};
pub use stream::{StreamMatcher, StreamPlace, StreamState};

/// A text to search in: a payload, and its protocol.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The protocol of the payload.
    pub kind: Kind,
}

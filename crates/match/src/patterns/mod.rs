//! Pattern sets: what is searched for in payloads, and the engines that search.
//!
//! A [`PatternSet`] is a list of rules, each with one or more contents (strings of bytes) that must all occur in a
//! text. The text is a whole payload. A rule *alerts* when each of its contents lies in its window of the text;
//! the **result** of a text is the lowest-numbered rule that alerts, plus 1, or 0. Every engine gives the same
//! result, bit for bit: the one of the CPU ([`Dfa`]), the kernel of a GPU, and the plain walk over an image
//! ([`image::search`]) that defines it.

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

/// A text to search in: a payload, and what it was the payload of.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The protocol that they came by.
    pub kind: Kind,
}

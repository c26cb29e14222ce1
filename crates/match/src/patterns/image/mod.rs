//! The flat image of a pattern set: what a GPU walks. The CPU finds the same by a [table](super::Dfa) that is made for its
//! caches.
//!
//! An image is an array of 32-bit words. Every place in it is told as a *word offset from its beginning*, so that it
//! can lie anywhere. Bytes in words are little-endian (byte `i` of a run of bytes is `word[i / 4] >> (8 * (i % 4))`).
//!
//! It holds an Aho-Corasick automaton (Aho and Corasick, CACM 18(6), 1975) with every failure resolved: one
//! transition a byte. Each rule has one **trigger**, its longest content (the first of those). The automaton finds
//! triggers; where one ends, the rule is *verified*. If any trigger is `nocase`, the automaton reads `A` to `Z` as
//! `a` to `z` (the class map does it), and triggers with case are compared at the hit.
//!
//! # Header, words 0 to 15
//! | word | | |
//! |---|---|---|
//! | 0 | [`MAGIC`] | `0x49_53_44_49`, "IDSI" |
//! | 1 | [`VERSION`] | 1 |
//! | 2 | `words` | words in the image |
//! | 3 | `flags` | bit 0 [`FOLDS`]: the class map folds case; bit 1 [`ASKS_KIND`]: some rule is not for every protocol |
//! | 4 | `states` | states of the automaton, at least 1 |
//! | 5 | `classes` | byte classes, 1 to 256 |
//! | 6 | `stride` | words in a row of the transition table: `classes + 1` |
//! | 7 | `class_map` | offset of the class map, 64 words |
//! | 8 | `rows` | offset of the transition table, `states * stride` words |
//! | 9 | `output_from` | states from this number on have output |
//! | 10 | `contents` | offset of the table of contents, 8 words each |
//! | 11 | `rules` | offset of the table of rules, 4 words each |
//! | 12 | `rule_count` | rules in it |
//! | 13 | `longest` | bytes of the longest trigger, 0 without rules |
//! | 14 | `shortest` | bytes of the shortest trigger, 0 without rules: a shorter text has result 0 |
//! | 15 | 0 | |
//!
//! # Class map, 64 words
//! 256 bytes: the class of each byte. Class 0 are the bytes in no trigger (none, if all 256 values are in one).
//!
//! # Transition table
//! A row a state. **States are numbered by their rows: state number = row index * stride**, the word offset of the
//! row from `rows`. The beginning is state 0. `image[rows + state + class]` is the next state. States without output
//! come first (breadth first: those near the beginning lie together), so that *output* is `state >= output_from`.
//! The last word of a row, `image[rows + state + classes]`, is the offset of the output list, 0 where there is none.
//!
//! # Output lists
//! One word `n`, at least 1, then `n` entries of 2 words, in ascending order of rules:
//!
//! | word | |
//! |---|---|
//! | 0 | rule index |
//! | 1 | content index of its trigger, or [`CERTAIN`]: the rule alerts, nothing needs to be verified |
//!
//! Shorter triggers that end at the same place are in the list, too: no suffix links need to be followed. A rule is
//! in a list once at most.
//!
//! # Contents, 8 words each
//! | word | | |
//! |---|---|---|
//! | 0 | `rule` | rule index |
//! | 1 | `length` | bytes, at least 1 |
//! | 2 | `flags` | bit 0 [`NOCASE`]; bit 1 [`TRIGGER`]; bit 2 [`COMPARE`]: a trigger whose bytes must be compared at a hit, because the automaton folds case and it does not |
//! | 3 | `offset` | it begins at this position of the text or later |
//! | 4 | `end` | it ends at this position or earlier (exclusive: start + length <= end), `0xffff_ffff` if anywhere |
//! | 5 | `bytes` | offset of the bytes, in lower case if `NOCASE`, padded with 0 to a word |
//! | 6, 7 | 0 | |
//!
//! # Rules, 4 words each
//! | word | | |
//! |---|---|---|
//! | 0 | `first` | index of its first content; its contents are one after another |
//! | 1 | `count` | how many, at least 1 |
//! | 2 | `kinds` | bit 0 TCP, 1 UDP, 2 ICMP, 3 other: payloads of which protocols it is for ([`Kind`]); 15 is all |
//! | 3 | `trigger` | content index of its trigger |
//!
//! # The search
//! [`search`] is the definition in code. In words: begin in state 0 at the first byte; follow a transition for each
//! byte; in a state with output after the byte at `i`, for each entry of its list whose rule is lower than the lowest
//! so far: the trigger lies at `i + 1 - length ..= i`. The rule alerts if `kinds` has the text's kind, the trigger
//! lies in its window (`start >= offset`, `start + length <= end`), is equal byte by byte if `COMPARE`, and every
//! other content of the rule is found somewhere in its own window, wherever that is relative to the trigger. The
//! result is the lowest such rule plus 1, or 0.
//!
//! A text may be cut into chunks that are walked apart: a walk that is to find all triggers that end in
//! `a .. b` begins in state 0 at `max(0, a - (longest - 1))`. What it finds that ends before `a` is true as well.
//! Whether the other contents of a rule are found does not depend on where its trigger lies: once they are not found
//! in a text, the rule need not be verified again in this text, which bounds what hostile texts cost.

mod build;
mod search;
#[cfg(test)]
mod tests;

pub use build::BuildError;
pub(super) use build::at_most;
pub use search::search;

use std::sync::Arc;

use super::Kind;

/// Word 0 of every image.
pub const MAGIC: u32 = 0x4953_4449;
/// Word 1: the layout described here.
pub const VERSION: u32 = 1;
/// Words in the header.
pub const HEADER: usize = 16;
/// Header flag: the class map folds case.
pub const FOLDS: u32 = 1;
/// Header flag: some rule is not for every protocol, so the search must know a text's.
pub const ASKS_KIND: u32 = 2;
/// Content flag: case does not matter.
pub const NOCASE: u32 = 1;
/// Content flag: the automaton searches for it.
pub const TRIGGER: u32 = 2;
/// Content flag: its bytes must be compared at a hit.
pub const COMPARE: u32 = 4;
/// In an output list instead of a content: there is nothing to verify.
pub const CERTAIN: u32 = u32::MAX;
/// Words of a content.
pub const CONTENT: usize = 8;
/// Words of a rule.
pub const RULE: usize = 4;

/// A pattern set compiled: see the [module](self) for the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    words: Arc<Vec<u32>>,
}

/// The header, named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table at the head of the module says what they are")]
pub struct Header {
    pub words: usize,
    pub flags: u32,
    pub states: usize,
    pub classes: usize,
    pub stride: usize,
    pub class_map: usize,
    pub rows: usize,
    pub output_from: u32,
    pub contents: usize,
    pub rules: usize,
    pub rule_count: usize,
    pub longest: usize,
    pub shortest: usize,
}

impl Image {
    /// The words, to walk or to copy elsewhere.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The words, for who keeps them.
    pub fn shared(&self) -> Arc<Vec<u32>> {
        self.words.clone()
    }

    /// The header.
    pub fn header(&self) -> Header {
        Header::read(&self.words)
    }

    /// The class of each byte.
    pub fn class_map(&self) -> [u8; 256] {
        let at = self.header().class_map;
        std::array::from_fn(|byte| byte_at(&self.words, at, byte))
    }
}

impl Header {
    /// Reads the header of an image, whose first word is [`MAGIC`] and second [`VERSION`].
    fn read(image: &[u32]) -> Self {
        let word = |index: usize| image[index] as usize;
        Self {
            words: word(2),
            flags: image[3],
            states: word(4),
            classes: word(5),
            stride: word(6),
            class_map: word(7),
            rows: word(8),
            output_from: image[9],
            contents: word(10),
            rules: word(11),
            rule_count: word(12),
            longest: word(13),
            shortest: word(14),
        }
    }
}

/// Byte `index` of a run of bytes that begins at word `at`.
fn byte_at(image: &[u32], at: usize, index: usize) -> u8 {
    image[at + index / 4].to_le_bytes()[index % 4]
}

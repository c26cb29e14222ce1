//! Words in a stream of bytes that arrives in parts.
//!
//! At each position, the first word of the list that is there is found, and the search goes on behind it. What is found
//! does not depend on where the parts end: bytes that may be the beginning of a word wait for the next part.

use aho_corasick::{AhoCorasick, MatchKind};

/// Words to look for.
pub(crate) struct Words {
    words: Vec<Vec<u8>>,
    /// The bytes that words begin with.
    firsts: [bool; 256],
    /// Finds words that are whole, if they are not too many for it.
    finder: Option<AhoCorasick>,
    longest: usize,
}

impl Words {
    /// Words, none of which is empty.
    pub(crate) fn new(words: Vec<Vec<u8>>) -> Self {
        let mut firsts = [false; 256];
        for first in words.iter().filter_map(|word| word.first()) {
            if let Some(place) = firsts.get_mut(usize::from(*first)) {
                *place = true;
            }
        }
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(&words).ok();
        let longest = words.iter().map(Vec::len).max().unwrap_or_default();
        Self { words, firsts, finder, longest }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().map(Vec::as_slice)
    }

    fn begins(&self, byte: u8) -> bool {
        self.firsts.get(usize::from(byte)).copied().unwrap_or_default()
    }

    /// What comes next in `bytes`, to which more may come if `grows`, and where.
    fn next(&self, bytes: &[u8], grows: bool) -> Option<(usize, Here<'_>)> {
        let mut from = 0;
        if let Some(finder) = &self.finder {
            // What is before does not depend on what follows.
            from =
                bytes.len().saturating_sub(if grows { self.longest.saturating_sub(1) } else { 0 });
            let found = finder.find(bytes).filter(|found| found.start() < from);
            if let Some(found) = found
                && let Some(word) = self.words.get(found.pattern().as_usize())
            {
                return Some((found.start(), Here::Word(word)));
            }
        }
        loop {
            let rest = bytes.get(from..)?;
            from += rest.iter().position(|byte| self.begins(*byte))?;
            let here = self.at(bytes.get(from..)?, grows);
            if here.is_some() {
                return here.map(|here| (from, here));
            }
            from += 1;
        }
    }

    /// What is at the beginning of `bytes`, to which more may come if `grows`.
    fn at(&self, bytes: &[u8], grows: bool) -> Option<Here<'_>> {
        for word in self.iter() {
            if bytes.starts_with(word) {
                return Some(Here::Word(word));
            }
            if grows && word.starts_with(bytes) {
                return Some(Here::Perhaps);
            }
        }
        None
    }
}

enum Here<'w> {
    Word(&'w [u8]),
    /// It depends on what follows.
    Perhaps,
}

/// The state of a search.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Bytes that may be the beginning of a word.
    waiting: Vec<u8>,
}

impl Search {
    /// The next part of the stream, of which `ends` says that nothing follows: appends to `out` what becomes of it and of
    /// bytes that waited. `replace` is called for each word found, appends what stands in its place, and returns whether
    /// the search goes on in this part. Returns false, and appends nothing, if the part stays as it is.
    pub(crate) fn feed(
        &mut self,
        words: &Words,
        part: &[u8],
        ends: bool,
        out: &mut Vec<u8>,
        mut replace: impl FnMut(&[u8], &mut Vec<u8>) -> bool,
    ) -> bool {
        let joined;
        let is_joined = !self.waiting.is_empty();
        let bytes: &[u8] = match is_joined {
            false => part,
            true => {
                self.waiting.extend_from_slice(part);
                joined = std::mem::take(&mut self.waiting);
                &joined
            }
        };
        let (mut rest, mut is_same) = (bytes, !is_joined);
        while let Some((place, here)) = words.next(rest, !ends) {
            let (before, from) = rest.split_at_checked(place).unwrap_or((rest, &[]));
            if is_same {
                out.reserve(bytes.len() + 64);
            }
            out.extend_from_slice(before);
            is_same = false;
            match here {
                Here::Word(word) => {
                    rest = from.get(word.len()..).unwrap_or_default();
                    if !replace(word, out) {
                        break;
                    }
                }
                Here::Perhaps => {
                    self.waiting = from.to_vec();
                    return true;
                }
            }
        }
        if !is_same {
            out.extend_from_slice(rest);
        }
        !is_same
    }

    /// Whether bytes wait.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn replaced(words: &Words, parts: &[&[u8]]) -> Vec<u8> {
        let (mut search, mut out) = (Search::default(), Vec::new());
        for (n, part) in parts.iter().enumerate() {
            let (waited, before) = (search.waits(), out.len());
            let changes = search.feed(words, part, n + 1 == parts.len(), &mut out, |word, out| {
                out.extend_from_slice(format!("<{}>", word.len()).as_bytes());
                true
            });
            if !changes {
                assert!(!waited && !search.waits() && out.len() == before);
                out.extend_from_slice(part);
            }
        }
        assert!(!search.waits());
        out
    }

    #[test]
    fn words_are_found_across_parts() {
        let words = Words::new(vec![b"attack".to_vec(), b"at".to_vec(), b"tt".to_vec()]);
        for (parts, expected) in [
            (&["an att", "ack at", " noon"][..], "an <6> <2> noon"),
            (&["atta", "", "c", "h"], "<2>tach"),
            (&["att"], "<2>t"),
            (&["a", "t", "t", "t"], "<2><2>"),
            (&["", "a", ""], "a"),
        ] {
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            assert_eq!(replaced(&words, &parts), expected.as_bytes(), "{parts:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_make_no_difference(
            text in "[abc]{0,60}",
            words in prop::collection::vec("[abc]{1,4}", 1..4),
            cuts in prop::collection::vec(0_usize..60, 0..8),
        ) {
            let words = Words::new(words.into_iter().map(String::into_bytes).collect());
            let text = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
            cuts.sort_unstable();
            let mut parts = Vec::new();
            let mut from = 0;
            for cut in cuts {
                parts.push(&text[from..cut]);
                from = cut;
            }
            parts.push(&text[from..]);
            let whole = replaced(&words, &[text]);
            prop_assert_eq!(&replaced(&words, &parts), &whole);
            let without = Words { finder: None, ..words };
            prop_assert_eq!(&replaced(&without, &parts), &whole);
        }
    }
}

//! Payloads: harmless ones, ones that contain patterns, and ones that are expensive to search.
//!
//! There are two kinds of expensive payloads, for two families of matchers. [`near_miss`] with [`Part::Head`]
//! consists of prefixes of patterns, which lead an Aho-Corasick automaton deep into its tables. [`Part::Tail`]
//! consists of suffixes, which make a matcher such as Hyperscan, that filters by the last bytes of patterns and then
//! verifies, verify in vain.

use std::collections::{HashMap, HashSet};

/// HTTP requests and responses, one after the other, cut at the end of the payload.
#[must_use]
pub fn http(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let mut payload = Vec::with_capacity(length + 512);
    while payload.len() < length {
        let message = if random.bool() { request(random) } else { answer(random) };
        payload.extend_from_slice(message.as_bytes());
    }
    payload.truncate(length);
    payload
}

/// A part of a text from a random position. If the text is too short, it is repeated.
#[must_use]
pub fn text(corpus: &[u8], random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let start = random.usize(..corpus.len().max(1));
    corpus.iter().copied().cycle().skip(start).take(length).collect()
}

/// Random bytes.
#[must_use]
pub fn noise(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

/// Writes a pattern over the bytes at a position, and returns its range. `None` if it does not fit; then nothing is
/// changed.
pub fn plant(payload: &mut [u8], pattern: &[u8], place: Place) -> Option<std::ops::Range<usize>> {
    let start = match place {
        Place::First => 0,
        Place::Last => payload.len().checked_sub(pattern.len())?,
        Place::At(start) => start,
    };
    let range = start..start.checked_add(pattern.len())?;
    payload.get_mut(range.clone())?.copy_from_slice(pattern);
    Some(range)
}

/// The position where [`plant`] writes a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the first byte.
    First,
    /// At the end of the payload.
    Last,
    /// From this byte on.
    At(usize),
}

/// Writes the first `cut` bytes of a pattern to the end of one payload, and the others to the start of the next. The
/// pattern is visible in the flow, but not in a single packet. False if they do not fit; then nothing is changed.
pub fn plant_across(first: &mut [u8], second: &mut [u8], pattern: &[u8], cut: usize) -> bool {
    let Some((head, tail)) = pattern.split_at_checked(cut) else { return false };
    if head.len() > first.len() || tail.len() > second.len() {
        return false;
    }
    plant(first, head, Place::Last).is_some() && plant(second, tail, Place::First).is_some()
}

/// The parts of patterns that hostile payloads consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Patterns without their last byte.
    Head,
    /// Patterns without their first byte.
    Tail,
}

/// Makes payloads from long parts of patterns that contain no whole pattern.
#[derive(Clone, Debug)]
pub struct NearMiss {
    parts: Vec<Vec<u8>>,
    index: Index,
}

/// A payload of parts of patterns. To make many, [`NearMiss`] is faster.
#[must_use]
pub fn near_miss<P: AsRef<[u8]>>(
    patterns: &[P],
    part: Part,
    random: &mut fastrand::Rng,
    length: usize,
) -> Vec<u8> {
    NearMiss::new(patterns, part).make(random, length)
}

impl NearMiss {
    /// Selects the parts: from the longest quarter of the patterns, those that contain no pattern.
    #[must_use]
    pub fn new<P: AsRef<[u8]>>(patterns: &[P], part: Part) -> Self {
        let index = Index::new(patterns);
        let mut longest: Vec<&[u8]> = patterns.iter().map(AsRef::as_ref).collect();
        longest.sort_by_key(|pattern| std::cmp::Reverse(pattern.len()));
        let cut = |pattern: &&[u8]| match part {
            Part::Head => pattern.split_last().map(|(_, head)| head.to_vec()),
            Part::Tail => pattern.split_first().map(|(_, tail)| tail.to_vec()),
        };
        let parts: Vec<Vec<u8>> = longest
            .iter()
            .filter_map(cut)
            .filter(|part| part.len() > 1 && !index.is_match(part))
            .take(patterns.len().div_ceil(4))
            .collect();
        Self { parts, index }
    }

    /// A payload without a pattern: parts one after the other. If two of them together contain a pattern, a byte is
    /// inserted between them. If the patterns leave no usable part, one byte is repeated.
    #[must_use]
    pub fn make(&self, random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
        let mut payload: Vec<u8> = Vec::with_capacity(length + 256);
        let mut tries = 0;
        while payload.len() < length && tries < length + 64 {
            tries += 1;
            let Some(part) = random.choice(&self.parts) else { break };
            let before = payload.len();
            payload.extend_from_slice(part);
            // A new match ends in the new part.
            let around = before.saturating_sub(self.index.longest);
            if payload.get(around..).is_some_and(|bytes| self.index.is_match(bytes)) {
                payload.truncate(before);
                payload.push(random.u8(..));
                let around = payload.get(around..);
                if around.is_some_and(|bytes| self.index.is_match(bytes)) {
                    payload.pop();
                }
            }
        }
        payload.truncate(length);
        // A byte that no pattern begins with creates no match.
        let starts = |byte: &u8| !self.index.patterns[usize::from(*byte)].is_empty();
        let filler = (0..=u8::MAX).find(|byte| !starts(byte)).unwrap_or_default();
        payload.resize(length, filler);
        payload
    }
}

/// The naive search, indexed by first byte and length: an oracle that is fast enough to make payloads.
#[derive(Clone, Debug)]
struct Index {
    /// For each first byte, the patterns by length.
    patterns: Vec<HashMap<usize, HashSet<Vec<u8>>>>,
    longest: usize,
}

impl Index {
    fn new<P: AsRef<[u8]>>(patterns: &[P]) -> Self {
        let mut index = Self { patterns: vec![HashMap::new(); 256], longest: 0 };
        for pattern in patterns.iter().map(AsRef::as_ref) {
            let Some(first) = pattern.first() else { continue };
            let of_length = index.patterns[usize::from(*first)].entry(pattern.len()).or_default();
            of_length.insert(pattern.to_vec());
            index.longest = index.longest.max(pattern.len());
        }
        index
    }

    fn is_match(&self, bytes: &[u8]) -> bool {
        let starts = bytes.iter().enumerate();
        starts.into_iter().any(|(start, first)| {
            let mut lengths = self.patterns[usize::from(*first)].iter();
            lengths.any(|(length, patterns)| {
                bytes.get(start..start + length).is_some_and(|it| patterns.contains(it))
            })
        })
    }
}

const WORDS: [&str; 48] = [
    "river", "mill", "stone", "garden", "winter", "letter", "market", "bridge", "morning", "paper",
    "window", "forest", "summer", "island", "weather", "kitchen", "village", "harbour", "station",
    "picture", "teacher", "journey", "silver", "valley", "quiet", "bright", "narrow", "early",
    "warm", "green", "distant", "gentle", "and", "or", "of", "the", "with", "under", "before",
    "after", "to", "from", "is", "was", "has", "had", "will", "near",
];

fn word(random: &mut fastrand::Rng) -> &'static str {
    random.choice(WORDS).unwrap_or("mill")
}

fn request(random: &mut fastrand::Rng) -> String {
    let (path, page, host) = (word(random), word(random), word(random));
    let kind = random.choice(["html", "css", "js", "png", "json"]).unwrap_or("html");
    let mut text = format!(
        "GET /{path}/{page}-{}.{kind}?page={}&sort={} HTTP/1.1\r\n\
         Host: www.{host}.example\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
         Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n\
         Accept-Language: en-GB,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n",
        random.u16(..),
        random.u8(..),
        word(random),
    );
    if random.bool() {
        text += &format!("Referer: https://www.{host}.example/{}/\r\n", word(random));
    }
    text += &format!("Cookie: visit={:032x}\r\nConnection: keep-alive\r\n\r\n", random.u128(..));
    text
}

fn answer(random: &mut fastrand::Rng) -> String {
    let words = random.usize(40..200);
    let mut body = String::from("<!DOCTYPE html>\n<html><body>\n<p>");
    for at in 0..words {
        body += word(random);
        body += if at % 12 == 11 { ".</p>\n<p>" } else { " " };
    }
    body += "</p>\n</body></html>\n";
    format!(
        "HTTP/1.1 200 OK\r\nDate: Mon, 0{} Jun 2026 1{}:{:02}:00 GMT\r\nServer: Apache\r\n\
         Content-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nETag: \"{:x}\"\r\n\r\n{body}",
        random.u8(1..10),
        random.u8(..10),
        random.u8(..60),
        body.len(),
        random.u64(..),
    )
}

#[cfg(test)]
mod tests {
    use super::super::patterns;
    use super::*;

    fn contains(payload: &[u8], pattern: &[u8]) -> bool {
        payload.windows(pattern.len()).any(|window| window == pattern)
    }

    #[test]
    fn payloads_are_as_long_as_asked() {
        let mut random = fastrand::Rng::with_seed(1);
        let patterns = patterns::made_up(50, 1);
        for length in [0, 1, 63, 1500, 20_000] {
            assert_eq!(http(&mut random, length).len(), length);
            assert_eq!(text(b"abc", &mut random, length).len(), length);
            assert_eq!(noise(&mut random, length).len(), length);
            for part in [Part::Head, Part::Tail] {
                assert_eq!(near_miss(&patterns, part, &mut random, length).len(), length);
            }
        }
        assert!(http(&mut random, 4000).is_ascii());
        assert_eq!(noise(&mut random, 20_000).iter().collect::<HashSet<_>>().len(), 256);
    }

    #[test]
    fn patterns_are_planted_where_they_are_wanted() {
        let mut payload = *b"..........";
        assert_eq!(plant(&mut payload, b"ab", Place::First), Some(0..2));
        assert_eq!(plant(&mut payload, b"yz", Place::Last), Some(8..10));
        assert_eq!(plant(&mut payload, b"m", Place::At(5)), Some(5..6));
        assert_eq!(&payload, b"ab...m..yz");
        for place in [Place::First, Place::Last, Place::At(0)] {
            assert_eq!(plant(&mut payload, &[b'x'; 11], place), None);
        }
        assert_eq!(plant(&mut payload, b"xx", Place::At(9)), None);
        assert_eq!(plant(&mut payload, b"x", Place::At(usize::MAX)), None);
        assert_eq!(&payload, b"ab...m..yz");
    }

    #[test]
    fn a_pattern_across_two_payloads_is_in_neither() {
        let (mut first, mut second) = (*b"....", *b"....");
        assert!(plant_across(&mut first, &mut second, b"secret", 2));
        assert_eq!((&first, &second), (b"..se", b"cret"));
        assert!(!plant_across(&mut first, &mut second, b"secret", 1));
        assert!(!plant_across(&mut first, &mut second, b"secret", 7));
        assert_eq!((&first, &second), (b"..se", b"cret"));
    }

    #[test]
    fn near_misses_are_long_parts_and_no_matches() {
        let mut random = fastrand::Rng::with_seed(1);
        let patterns = patterns::made_up(500, 3);
        for part in [Part::Head, Part::Tail] {
            let maker = NearMiss::new(&patterns, part);
            let payload = maker.make(&mut random, 5000);
            for pattern in &patterns {
                assert!(!contains(&payload, pattern), "{part:?} {:?}", pattern.escape_ascii());
            }
            let mut covered = vec![false; payload.len()];
            for part in &maker.parts {
                for start in 0..payload.len().saturating_sub(part.len()) {
                    if payload[start..].starts_with(part) {
                        covered[start..start + part.len()].fill(true);
                    }
                }
            }
            let covered = covered.into_iter().filter(|it| *it).count();
            assert!(covered > 4700, "{part:?}: {covered} bytes are of parts");
        }
    }

    #[test]
    fn near_misses_of_strange_patterns() {
        let mut random = fastrand::Rng::with_seed(1);
        // There is no usable part; every byte but one is a pattern; empty patterns.
        for patterns in [vec![b"a".to_vec()], vec![], vec![vec![]], vec![vec![0; 2], vec![1]]] {
            let payload = near_miss(&patterns, Part::Head, &mut random, 100);
            let found = patterns.iter().filter(|it| !it.is_empty() && contains(&payload, it));
            assert_eq!((payload.len(), found.count()), (100, 0), "{patterns:?}");
        }
    }
}

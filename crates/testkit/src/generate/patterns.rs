//! Pattern sets.
//!
//! [`made_up`] contains difficult cases on purpose: patterns inside one another, common prefixes and suffixes, NUL
//! and other bytes that are not text, and lengths from one to a hundred bytes. [`phrases`] are real: those of the
//! OWASP rules for web application firewalls, 3,640 of them, whose Aho-Corasick automaton has 40,282 states.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use super::{random, weighted};

/// `count` different patterns of 1 to 100 bytes.
///
/// A third of them begin like an earlier one, a sixth end like one, and a few are inside one. One in eight consists
/// of bytes of any value instead of text.
#[must_use]
pub fn made_up(count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = random(seed, "patterns");
    let mut seen = HashSet::new();
    let mut patterns: Vec<Vec<u8>> = Vec::with_capacity(count);
    while patterns.len() < count {
        // Short ones are rare, as in real sets, because each of them is found often.
        let short = if patterns.len() < 2000 { 1 } else { 0 };
        let ranges = [((1, 3), short), ((3, 6), 10), ((6, 13), 50), ((13, 30), 35), ((30, 101), 5)];
        let (from, to) = weighted(&mut random, &ranges).unwrap_or((6, 13));
        let fresh = some_bytes(&mut random, from, to);
        let pattern = match random.choice(&patterns).map(Vec::as_slice) {
            Some(other) if other.len() > 2 => relative(other, &fresh, &mut random),
            _ => fresh,
        };
        if seen.insert(pattern.clone()) {
            patterns.push(pattern);
        }
    }
    patterns
}

/// The phrases in the files `*.data` of a folder: one phrase per line, without surrounding blanks, in lower case,
/// sorted and without duplicates. `#` begins a comment.
///
/// # Errors
/// The folder or one of its files cannot be read.
pub fn phrases(folder: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "data") {
            files.push(path);
        }
    }
    files.sort();
    let mut seen = HashSet::new();
    let mut phrases = Vec::new();
    for file in files {
        for line in fs::read(file)?.split(|byte| *byte == b'\n') {
            let phrase = line.trim_ascii().to_ascii_lowercase();
            let is_phrase = !phrase.is_empty() && !phrase.starts_with(b"#");
            if is_phrase && seen.insert(phrase.clone()) {
                phrases.push(phrase);
            }
        }
    }
    Ok(phrases)
}

/// The number of states of the patterns' Aho-Corasick automaton: the different prefixes, including the empty one.
#[must_use]
pub fn states<P: AsRef<[u8]>>(patterns: &[P]) -> usize {
    let heads = patterns.iter().map(AsRef::as_ref);
    let heads = heads.flat_map(|pattern| (0..=pattern.len()).map(move |end| &pattern[..end]));
    heads.collect::<HashSet<_>>().len()
}

/// One pattern per line. Text is unchanged; other bytes, special characters, and blanks and `#` at an end are written
/// as `|hex|`.
#[must_use]
pub fn plain<P: AsRef<[u8]>>(patterns: &[P]) -> String {
    let is_bare = |byte: &u8| b" #".contains(byte);
    let line = |pattern: &P| {
        let pattern = pattern.as_ref();
        let inner = pattern.iter().position(|byte| !is_bare(byte)).unwrap_or(pattern.len());
        let end = pattern.iter().rposition(|byte| !is_bare(byte)).map_or(inner, |last| last + 1);
        let ends = [(0..inner, true), (inner..end, false), (end..pattern.len(), true)];
        let parts = ends.map(|(range, is_bare)| match (&pattern[range], is_bare) {
            ([], _) => String::new(),
            (bytes, true) => hex(bytes),
            (bytes, false) => content(bytes),
        });
        format!("{}\n", parts.concat())
    };
    patterns.iter().map(line).collect()
}

/// A Snort rule for each pattern, numbered from 1. Text is unchanged; other bytes and special characters are written
/// as `|hex|`.
#[must_use]
pub fn snort_rules<P: AsRef<[u8]>>(patterns: &[P]) -> String {
    let rule = |(number, pattern): (usize, &P)| {
        let content = content(pattern.as_ref());
        format!(
            "alert tcp any any -> any any (msg:\"pattern {number}\"; content:\"{content}\"; sid:{number};)\n"
        )
    };
    (1..).zip(patterns).map(rule).collect()
}

/// A pattern as the words of `content` in Snort's language.
fn content(pattern: &[u8]) -> String {
    let is_text = |byte: u8| matches!(byte, b' '..=b'~') && !b"\"|;:\\".contains(&byte);
    let mut text = String::new();
    for run in pattern.chunk_by(|one, next| is_text(*one) == is_text(*next)) {
        if run.first().copied().is_some_and(is_text) {
            text.extend(run.iter().copied().map(char::from));
        } else {
            text += &hex(run);
        }
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("|{}|", digits.join(" "))
}

fn some_bytes(random: &mut fastrand::Rng, from: usize, to: usize) -> Vec<u8> {
    let length = random.usize(from..to);
    if random.u8(..8) == 0 {
        // Zeros and ones are typical sources of errors.
        let byte = |random: &mut fastrand::Rng| match random.u8(..8) {
            0 => 0,
            1 => 0xff,
            _ => random.u8(..),
        };
        return (0..length).map(|_| byte(random)).collect();
    }
    const LETTERS: &[u8] = b"eeeettaaooiinnsshhrrddlcumwfgypbvkxjqz0123456789._-/=%&?<>() ";
    (0..length).map(|_| random.choice(LETTERS).copied().unwrap_or(b'e')).collect()
}

/// A pattern that is related to another one, or is not.
fn relative(other: &[u8], fresh: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let half = other.len() / 2;
    match random.u8(..12) {
        0..4 => [&other[..half], fresh].concat(),
        4 | 5 => [fresh, &other[half..]].concat(),
        6 => other[1..].to_vec(),
        7 if other.len() > 3 => other[1..other.len() - 1].to_vec(),
        _ => fresh.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_patterns_have_the_hard_cases() {
        let patterns = made_up(3000, 1);
        assert_eq!(patterns, made_up(3000, 1));
        assert_ne!(patterns, made_up(3000, 2));
        let different: HashSet<_> = patterns.iter().collect();
        assert_eq!(different.len(), 3000);
        let lengths = patterns.iter().map(Vec::len);
        assert_eq!(lengths.clone().min(), Some(1));
        assert!(lengths.clone().max().is_some_and(|longest| (90..=200).contains(&longest)));
        let inside = |one: &Vec<u8>| {
            let within = |other: &Vec<u8>| other.windows(one.len()).any(|it| it == *one);
            patterns.iter().any(|other| one != other && other.len() > one.len() && within(other))
        };
        assert!(patterns.iter().filter(|one| one.len() > 3 && inside(one)).count() > 200);
        assert!(patterns.iter().filter(|one| one.contains(&0)).count() > 100);
        // Common prefixes make the number of states smaller than the number of bytes.
        let bytes: usize = patterns.iter().map(Vec::len).sum();
        assert!(states(&patterns) < bytes * 9 / 10, "{} {bytes}", states(&patterns));
    }

    #[test]
    fn phrases_are_lines_of_data_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("b.data", "# comment\n\n Etc/Passwd \r\n/bin/sh\n");
        write("a.data", "/bin/sh\nx y\n");
        write("c.conf", "no phrase\n");
        let found = phrases(folder.path()).unwrap();
        assert_eq!(found, [&b"/bin/sh"[..], b"x y", b"etc/passwd"]);
        assert_eq!(states(&found), 1 + 7 + 3 + 10);
        assert!(phrases(&folder.path().join("none")).is_err());
    }

    #[test]
    fn the_number_of_real_phrases_is_as_documented() {
        let Some(phrases) = crate::phrases!() else { return };
        assert_eq!((phrases.len(), states(&phrases)), (3640, 40_282));
    }

    #[test]
    fn patterns_become_text() {
        let patterns = [&b"a;b|\"\\:"[..], b"\0\xffGET ", b"plain"];
        let expected = [r#"a|3b|b|7c 22 5c 3a|"#, "|00 ff|GET ", "plain"];
        assert_eq!(patterns.map(content), expected);
        assert_eq!(plain(&[b" #a b# ".as_slice(), b"##", b"c"]), "|20 23|a b|23 20|\n|23 23|\nc\n");
        assert_eq!(
            snort_rules(&patterns[2..]),
            "alert tcp any any -> any any (msg:\"pattern 1\"; content:\"plain\"; sid:1;)\n"
        );
    }
}

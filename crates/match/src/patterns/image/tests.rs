//! Compares images with a search that does not use an automaton.

use proptest::prelude::*;

use super::*;
use crate::patterns::testing::{naive, sets, texts};
use crate::patterns::{Content, Kinds, PatternSet, Rule};

#[test]
fn an_image_without_rules_finds_nothing() {
    let image = Image::build(&PatternSet::new()).unwrap();
    assert_eq!(image.header().states, 1);
    assert_eq!(search(image.words(), b"anything", Kind::Tcp), 0);
}

#[test]
fn the_layout_is_as_documented() {
    let mut set = PatternSet::new();
    let content = Content { nocase: true, offset: 3, depth: Some(9), ..Content::of("aBa") };
    set.push(Rule { kinds: Kinds::only(Kind::Udp), ..Rule::of(content) }).unwrap();
    set.push(Rule::of(Content::of("a"))).unwrap();
    let image = Image::build(&set).unwrap();
    let (header, words) = (image.header(), image.words());
    assert_eq!(words[..2], [MAGIC, VERSION]);
    assert_eq!(header.words, words.len());
    assert_eq!(header.flags, FOLDS | ASKS_KIND);
    // "", "a", "ab", "aba"; a, b and the rest.
    assert_eq!((header.states, header.classes, header.stride), (4, 3, 4));
    assert_eq!((header.longest, header.shortest), (3, 1));
    let map = image.class_map();
    assert_eq!(
        [b'a', b'A', b'b', b'B', b'c', 0].map(|byte| map[usize::from(byte)]),
        [1, 1, 2, 2, 0, 0]
    );
    // States without output ("" and "ab") come first. "a" and "aba" have output.
    assert_eq!(header.output_from, 8);
    let rows = &words[header.rows..][..16];
    assert_eq!(rows[..4], [0, 8, 0, 0]);
    assert_eq!(rows[4..8], [0, 12, 0, 0]);
    assert_eq!(rows[8..11], [0, 8, 4]);
    assert_eq!(rows[12..15], [0, 8, 4]);
    // "a" must be compared, because the automaton folds case.
    assert_eq!(words[rows[11] as usize..][..3], [1, 1, 1]);
    assert_eq!(words[rows[15] as usize..][..5], [2, 0, 0, 1, 1]);
    let contents = &words[header.contents..][..16];
    assert_eq!(contents[..5], [0, 3, NOCASE | TRIGGER, 3, 12]);
    assert_eq!(words[contents[5] as usize], u32::from_le_bytes(*b"aba\0"));
    assert_eq!(contents[8..13], [1, 1, TRIGGER | COMPARE, 0, u32::MAX]);
    assert_eq!(words[header.rules..][..8], [0, 1, 2, 0, 1, 1, 15, 1]);
}

#[test]
fn every_byte_value_is_distinguished() {
    let mut set = PatternSet::new();
    let all: Vec<u8> = (0..=255).collect();
    set.push(Rule::of(Content::of(all.clone()))).unwrap();
    let image = Image::build(&set).unwrap();
    assert_eq!(image.header().classes, 256);
    assert_eq!(search(image.words(), &all, Kind::Other), 1);
    assert_eq!(search(image.words(), &all[1..], Kind::Other), 0);
}

#[test]
fn an_image_that_is_too_large_is_rejected_before_it_is_built() {
    let of = |patterns: Vec<Vec<u8>>| {
        let mut set = PatternSet::new();
        patterns.into_iter().for_each(|bytes| set.push(Rule::of(Content::of(bytes))).unwrap());
        Image::build(&set).map(|image| image.header().states).map_err(|error| error.to_string())
    };
    let long = |number: u32, byte: u8| {
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.resize(PatternSet::LONGEST, byte);
        bytes
    };
    let error = of((0..100_u32).map(|number| long(number << 24, number as u8)).collect());
    let error = error.unwrap_err();
    assert!(
        error.contains("6553501 states for 101 classes of bytes take up to 2550 MiB"),
        "{error}"
    );
    // Short patterns end in every state of long ones.
    let short = (1..2000).map(|length| vec![b'a'; length]);
    let error = of(short.chain((0..4).map(|number| long(number, b'a'))).collect()).unwrap_err();
    assert!(error.contains(" patterns that end in others take up to "), "{error}");
    let mut same = vec![b"a".to_vec(); 20_000];
    same.push(b"ba".repeat(10_000));
    let error = of(same).unwrap_err();
    assert!(error.contains("200020001 rules in lists of states take up to 1527 MiB"), "{error}");
    // Equal patterns and common prefixes need no additional states.
    assert_eq!(of(vec![vec![b'a'; 60_000]; 10]).unwrap(), 60_001);
    assert_eq!(of(vec![b"abc".to_vec(), b"abd".to_vec(), b"ab".to_vec()]).unwrap(), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn the_search_equals_the_naive_search(set in sets(), texts in texts()) {
        let image = Image::build(&set).unwrap();
        for (text, kind) in &texts {
            let expected = naive::first(&set, text, *kind);
            prop_assert_eq!(search(image.words(), text, *kind), expected, "in {:?}", text);
        }
    }

    /// The statement about chunks at the start of the module.
    #[test]
    fn a_text_can_be_walked_in_chunks(set in sets(), texts in texts(), size in 1_usize..9) {
        // Windows and further contents refer to the whole text, so the test divides texts only for simple rules.
        let mut plain = PatternSet::new();
        for rule in set.rules() {
            plain.push(Rule::of(Content { offset: 0, depth: None, ..rule.contents[0].clone() })).unwrap();
        }
        let image = Image::build(&plain).unwrap();
        let overlap = image.header().longest.saturating_sub(1);
        for (text, kind) in &texts {
            let lowest = (0..text.len()).step_by(size).map(|from| {
                let chunk = &text[from.saturating_sub(overlap)..text.len().min(from + size)];
                search(image.words(), chunk, *kind).wrapping_sub(1)
            });
            let lowest = lowest.min().unwrap_or(u32::MAX).wrapping_add(1);
            prop_assert_eq!(lowest, search(image.words(), text, *kind));
        }
    }
}

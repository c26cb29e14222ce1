//! Compares the engine with the naive search, one text at a time and side by side.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::patterns::testing::{naive, sets, texts};
use crate::patterns::{Content, Kind, Rule};

/// The same rules with longer contents, for which there is a sieve.
fn longer(set: &PatternSet, more: &[u8]) -> PatternSet {
    let mut longer = PatternSet::new();
    for rule in set.rules() {
        let mut rule = rule.clone();
        for content in &mut rule.contents {
            content.bytes.extend_from_slice(more);
            content.depth = content.depth.map(|depth| depth + more.len() as u32);
        }
        longer.push(rule).unwrap();
    }
    longer
}

/// One by one, side by side, and all alerts.
fn finds_what_the_naive_search_finds(
    set: &PatternSet,
    dfa: &Dfa,
    texts: &[(Vec<u8>, Kind)],
) -> Result<(), TestCaseError> {
    let mut scratch = Scratch::default();
    let texts: Vec<Text<'_>> =
        texts.iter().map(|(bytes, kind)| Text { bytes, kind: *kind }).collect();
    let mut results = vec![7; texts.len()];
    dfa.firsts(&texts, &mut results, &mut scratch);
    for (&text, result) in texts.iter().zip(results) {
        let expected = naive::first(set, text.bytes, text.kind);
        prop_assert_eq!(dfa.first(text, &mut scratch), expected, "single, {:?}", text);
        prop_assert_eq!(result, expected, "in lockstep, {:?}", text);
        let mut all = Vec::new();
        dfa.each(text, &mut scratch, |rule| all.push(rule));
        all.sort_unstable();
        prop_assert_eq!(all, naive::all(set, text.bytes, text.kind));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn with_a_sieve_it_finds_what_the_naive_search_finds(
        set in sets(),
        texts in texts(),
        more in prop::sample::select(vec![&b"aba"[..], b"abab", b"ab@b\0a"]),
    ) {
        let set = longer(&set, more);
        let dfa = Dfa::new(&set).unwrap();
        prop_assert_eq!(dfa.sieve.is_some(), !set.is_empty());
        // Long enough for several uses of the sieve, with gaps and without.
        let texts: Vec<(Vec<u8>, Kind)> = texts
            .iter()
            .flat_map(|(bytes, kind)| {
                let far = [&bytes[..], &[b'.'; 70], bytes, more, &[b'.'; 5], bytes].concat();
                [(bytes.clone(), *kind), (bytes.repeat(4), *kind), (far, *kind)]
            })
            .collect();
        finds_what_the_naive_search_finds(&set, &dfa, &texts)?;
    }

    #[test]
    fn it_finds_what_the_naive_search_finds(set in sets(), texts in texts()) {
        finds_what_the_naive_search_finds(&set, &Dfa::new(&set).unwrap(), &texts)?;
    }
}

/// Many texts with and without hits, with patterns across block boundaries: lanes take new texts in between.
#[test]
fn rounds_with_hits_give_the_same_results() {
    let mut set = PatternSet::new();
    for pattern in [&b"needle"[..], b"needles and", b"dle", b"\0x", b"xyzzy"] {
        set.push(Rule::of(Content::of(pattern))).unwrap();
    }
    let dfa = Dfa::new(&set).unwrap();
    let texts: Vec<Vec<u8>> = (0..400)
        .map(|number| {
            let mut text = vec![b'n'; number % 61];
            if number % 3 == 0 {
                text.extend([&b"needle"[..], b"dle", b"\0x", b"needles an"][number % 4]);
            }
            text.resize(text.len() + number % 7, b'e');
            text
        })
        .collect();
    let texts: Vec<Text<'_>> = texts.iter().map(|bytes| Text { bytes, kind: Kind::Tcp }).collect();
    let mut results = vec![7; texts.len()];
    dfa.firsts(&texts, &mut results, &mut Scratch::default());
    for (text, result) in texts.iter().zip(results) {
        assert_eq!(result, naive::first(&set, text.bytes, text.kind), "{text:?}");
    }
}

#[test]
fn an_automaton_that_is_too_large_is_rejected_before_it_is_built() {
    let mut set = PatternSet::new();
    for number in 0..130_u8 {
        set.push(Rule::of(Content::of(vec![number; crate::patterns::PatternSet::LONGEST])))
            .unwrap();
    }
    let error = Dfa::new(&set).unwrap_err().to_string();
    assert!(error.ends_with("8519551 states, 8388608 are too many"), "{error}");
}

#[test]
fn the_image_is_built_on_demand() {
    let mut set = PatternSet::new();
    set.push(Rule::of(Content::of("ab"))).unwrap();
    let dfa = Dfa::new(&set).unwrap();
    let before = dfa.memory();
    assert_eq!(dfa.image(), Some(&super::super::Image::build(&set).unwrap()));
    assert_eq!(dfa.memory(), before);
    assert!(Arc::ptr_eq(&dfa.image().unwrap().shared(), &dfa.image().unwrap().shared()));
}

#[test]
fn padding_of_the_last_block_never_matches() {
    let mut set = PatternSet::new();
    set.push(Rule::of(Content::of([b'a', 0]))).unwrap();
    let dfa = Dfa::new(&set).unwrap();
    let texts = [b"aaa".as_slice(); 9].map(|bytes| Text { bytes, kind: Kind::Tcp });
    let mut results = [7; 9];
    dfa.firsts(&texts, &mut results, &mut Scratch::default());
    assert_eq!(results, [0; 9]);
}

#[test]
fn a_scratch_serves_engines_of_any_size() {
    let mut scratch = Scratch::default();
    let mut set = PatternSet::new();
    for _ in 0..3 {
        let both = vec![Content::of("ab"), Content::of("c")];
        set.push(Rule { contents: both, ..Rule::of(Content::of("ab")) }).unwrap();
        let dfa = Dfa::new(&set).unwrap();
        for (bytes, expected) in [(&b"ababab"[..], 0), (b"abcab", 1)] {
            assert_eq!(dfa.first(Text { bytes, kind: Kind::Tcp }, &mut scratch), expected);
        }
    }
}

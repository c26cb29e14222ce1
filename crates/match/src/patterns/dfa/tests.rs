//! The engine against the naive search, one by one and side by side.

use proptest::prelude::*;

use super::*;
use crate::patterns::testing::{naive, sets, texts};
use crate::patterns::{Content, Kind, Rule};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn it_finds_what_the_naive_search_finds(set in sets(), texts in texts()) {
        let dfa = Dfa::new(&set).unwrap();
        let mut scratch = Scratch::default();
        let texts: Vec<Text<'_>> =
            texts.iter().map(|(bytes, kind)| Text { bytes, kind: *kind }).collect();
        let mut results = vec![7; texts.len()];
        dfa.firsts(&texts, &mut results, &mut scratch);
        for (&text, result) in texts.iter().zip(results) {
            let expected = naive::first(&set, text.bytes, text.kind);
            prop_assert_eq!(dfa.first(text, &mut scratch), expected, "single, {:?}", text);
            prop_assert_eq!(result, expected, "in lockstep, {:?}", text);
            let mut all = Vec::new();
            dfa.each(text, &mut scratch, |rule| all.push(rule));
            all.sort_unstable();
            prop_assert_eq!(all, naive::all(&set, text.bytes, text.kind));
        }
    }
}

#[test]
fn the_filling_of_the_last_block_is_not_in_the_text() {
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

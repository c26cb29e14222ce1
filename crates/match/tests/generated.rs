//! What the generators of `millrace_testkit` write, the parsers read and the engines understand as the generators do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use millrace_match::patterns::{Dfa, Format, Kind, PatternSet, PlainOptions, Scratch, Text};
use millrace_match::rules::{Action, Key, RuleSet};
use millrace_testkit::generate::frame::Frame;
use millrace_testkit::generate::payload::{self, NearMiss, Part, Place};
use millrace_testkit::generate::rules::{self, Fields, KINDS};
use millrace_testkit::generate::trace::Trace;
use millrace_testkit::generate::{patterns, rules::Rule};

/// The first rule by the generator's definition and by the parsed rules.
fn assert_agreement(made: &[Rule]) {
    let read = RuleSet::parse(&rules::text(made)).unwrap();
    assert_eq!(read.rules.len(), made.len());
    let actions = made.iter().map(|rule| Action::Output(rule.action));
    assert!(read.rules.iter().map(|rule| rule.action).eq(actions));
    let trace = Trace { misses: 20, ..Trace::new(500) };
    for (at, header) in trace.make(made).into_iter().enumerate() {
        let vlans = [&[][..], &[7], &[100, 7]][at % 3];
        let frame = Frame { header, vlans, options: (at % 11) as u8, payload: b"x" }.bytes();
        let key = Key::of_frame(&frame);
        assert_eq!(read.first_match(&key), rules::first_match(made, &header), "{header:?}");
    }
}

#[test]
fn generated_rules_mean_what_they_say() {
    for fields in [Fields::Five, Fields::Seven] {
        for kind in &KINDS {
            let set = rules::RuleSet { fields, ..rules::RuleSet::new(kind, 300) };
            assert_agreement(&set.make());
        }
    }
}

fn plain(text: &str) -> PatternSet {
    PatternSet::parse(text.as_bytes(), Format::Plain, PlainOptions::default()).unwrap()
}

/// The patterns of a set of one content a rule.
fn contents(set: &PatternSet) -> Vec<Vec<u8>> {
    set.rules().iter().map(|rule| rule.contents[0].bytes.clone()).collect()
}

#[test]
fn generated_patterns_are_read_back() {
    let made = patterns::made_up(2000, 5);
    assert_eq!(contents(&plain(&patterns::plain(&made))), made);
    let rules = patterns::snort_rules(&made);
    let read = PatternSet::parse(rules.as_bytes(), Format::Snort, PlainOptions::default()).unwrap();
    assert_eq!(contents(&read), made);
    assert_eq!(read.rules()[6].sid, Some(7));
}

/// What is planted is found, and a near miss is none.
fn assert_finds(made: &[Vec<u8>]) {
    let engine = Dfa::new(&plain(&patterns::plain(made))).unwrap();
    let mut scratch = Scratch::default();
    let mut first = |bytes: &[u8]| engine.first(Text { bytes, kind: Kind::Tcp }, &mut scratch);
    let mut random = fastrand::Rng::with_seed(1);
    for part in [Part::Head, Part::Tail] {
        let maker = NearMiss::new(made, part);
        for at in 0..30 {
            let mut payload = maker.make(&mut random, 700);
            assert_eq!(first(&payload), 0, "{part:?} {}", payload.escape_ascii());
            let pattern = &made[at * made.len() / 30];
            let place = [Place::First, Place::Last, Place::At(300)][at % 3];
            payload::plant(&mut payload, pattern, place).unwrap();
            let naive = made.iter().position(|it| payload.windows(it.len()).any(|at| at == it));
            assert_eq!(first(&payload) as usize, naive.unwrap() + 1);
        }
    }
}

#[test]
fn planted_patterns_are_found_and_near_misses_are_none() {
    assert_finds(&patterns::made_up(1000, 5));
}

#[test]
fn real_phrases_are_found() {
    let Some(phrases) = millrace_testkit::phrases!() else { return };
    assert_finds(&phrases);
}

//! The kernel `aho_corasick` against the search that defines its table.

use fastrand::Rng;
use millrace_match::patterns::image::search;
use millrace_match::patterns::{Content, Dfa, Image, Kind, Kinds, PatternSet, Rule, Scratch, Text};
use millrace_testkit::generate::payload::{NearMiss, Part, Place, http, plant};

use super::testing::{Batch, Slice};
use super::{Condition, Kernel, MAX_EXTENSIONS, NONE, PAYLOAD_LANES};

/// Searches for the phrases of web application firewalls in requests, in near misses and in text, and compares with
/// the engine of the CPU.
#[test]
pub(crate) fn real_phrases() {
    let Some(phrases) = millrace_testkit::phrases!() else { return };
    let mut rng = Rng::with_seed(26);
    let mut set = PatternSet::new();
    for phrase in &phrases {
        let content = Content { nocase: rng.u8(0..4) != 0, ..Content::of(phrase.clone()) };
        set.push(Rule::of(content)).unwrap();
    }
    let engine = Dfa::new(&set).unwrap();
    let near = NearMiss::new(&phrases, Part::Head);
    let text = |row: usize, rng: &mut Rng| {
        let length = rng.usize(0..1460);
        let mut text =
            if row.is_multiple_of(2) { near.make(rng, length) } else { http(rng, length) };
        if row.is_multiple_of(3) {
            plant(&mut text, rng.choice(&phrases).unwrap(), Place::At(length / 2));
        }
        text
    };
    let texts: Vec<Vec<u8>> = (0..300).map(|row| text(row, &mut rng)).collect();
    let search = |text: &Vec<u8>| {
        engine.first(Text { bytes: text, kind: Kind::Tcp }, &mut Scratch::default()).wrapping_sub(1)
    };
    let expected: Vec<u32> = texts.iter().map(search).collect();
    for lanes in [1, PAYLOAD_LANES] {
        let mut batch = Batch::new(&mut rng, texts.len(), &[], &texts);
        batch.launch.constants = [lanes, 0, Kind::Tcp as u32, 0];
        batch.run(&mut rng, Kernel::AhoCorasick, engine.image().unwrap().words(), None);
        let results: Vec<u32> = (0..texts.len()).map(|row| batch.result(row)).collect();
        assert_eq!(results, expected);
    }
}

/// Runs the kernel on texts with every number of threads, and compares.
fn check(rng: &mut Rng, set: &PatternSet, texts: &[Vec<u8>], kind: Kind) {
    let image = Image::build(set).unwrap();
    assert_eq!(crate::table::check(image.words()), Ok(()));
    let expected: Vec<u32> =
        texts.iter().map(|text| search(image.words(), text, kind).wrapping_sub(1)).collect();
    for lanes in [0, 1, 2, 3, 8, 32, 33] {
        let mut batch = Batch::new(rng, texts.len(), &[], texts);
        batch.launch.constants = [lanes, 0, kind as u32, 0];
        (batch.launch.field_shift, batch.launch.field_mask) = (1, 6);
        // A predicate that all threads of a row read, and one of them writes.
        batch.set_conditions(&[Condition { mask: 6, value: 0 }][..rng.usize(..2)]);
        batch.run(rng, Kernel::AhoCorasick, image.words(), None);
        for (row, text) in texts.iter().enumerate() {
            let (result, expected) = (batch.result(row), expected[row]);
            assert_eq!(result, expected, "{lanes} lanes, {} in {set:?}", text.escape_ascii());
            assert_eq!(batch.predicate(row), if expected == NONE { 2 } else { 4 });
        }
    }
}

fn bytes(rng: &mut Rng, alphabet: &[u8], length: usize) -> Vec<u8> {
    (0..length).map(|_| alphabet[rng.usize(..alphabet.len())]).collect()
}

/// A set of short contents over a small alphabet, with all options that a rule can have.
pub(crate) fn random_set(rng: &mut Rng, alphabet: &[u8]) -> PatternSet {
    let mut set = PatternSet::new();
    for _ in 0..rng.usize(0..15) {
        let content = |rng: &mut Rng| {
            let length = if rng.u8(0..4) == 0 { rng.usize(1..60) } else { rng.usize(1..6) };
            let offset = if rng.bool() { 0 } else { rng.u32(0..300) };
            let depth = (rng.u8(0..3) == 0).then(|| length as u32 + rng.u32(0..200));
            Content { bytes: bytes(rng, alphabet, length), nocase: rng.bool(), offset, depth }
        };
        let contents = (0..rng.usize(1..4)).map(|_| content(rng)).collect();
        let kinds = if rng.u8(0..4) == 0 { Kinds::only(Kind::Udp) } else { Kinds::ALL };
        set.push(Rule { contents, kinds, msg: None, sid: None }).unwrap();
    }
    set
}

#[test]
pub(crate) fn random_sets_and_texts() {
    let mut rng = Rng::with_seed(21);
    for round in 0..150 {
        let alphabet: &[u8] = [b"ab".as_slice(), b"aAbB\0", b"abcdefgh\0\xff"][round % 3];
        let set = random_set(&mut rng, alphabet);
        // Empty texts, short ones, and some that several threads share.
        let text = |rng: &mut Rng| {
            let most = *rng.choice([1, 8, 40, 700].iter()).unwrap();
            let length = rng.usize(0..=most);
            bytes(rng, alphabet, length)
        };
        let texts: Vec<Vec<u8>> = (0..rng.usize(1..40)).map(|_| text(&mut rng)).collect();
        let kind = *rng.choice([Kind::Tcp, Kind::Udp].iter()).unwrap();
        check(&mut rng, &set, &texts, kind);
    }
}

/// One pattern at any position of a long text: across the parts of threads, and at both ends.
#[test]
pub(crate) fn a_pattern_anywhere() {
    let mut rng = Rng::with_seed(22);
    for length in [1_usize, 2, 15, 16, 17, 18, 90, 130, 400] {
        let mut set = PatternSet::new();
        let pattern: Vec<u8> = (0..length).map(|index| index as u8 % 7).collect();
        set.push(Rule::of(Content::of(b"n"))).unwrap();
        set.push(Rule::of(Content::of(pattern.clone()))).unwrap();
        let mut texts = vec![vec![9; 600], pattern.clone(), pattern[1..].to_vec()];
        for size in [length, 300, 512, 513, 1460] {
            let places = size.saturating_sub(length);
            let ends = [129, 145, 257, 513].map(|end: usize| end.saturating_sub(length));
            let starts =
                [0, 1, 127, 128, 129, 255, 256, places / 2, places.saturating_sub(1), places];
            for at in ends.into_iter().chain(starts) {
                let mut text = vec![9; size.max(length)];
                let at = at.min(text.len() - length);
                text[at..at + length].copy_from_slice(&pattern);
                texts.push(text);
            }
        }
        check(&mut rng, &set, &texts, Kind::Other);
    }
}

/// Many rules whose triggers are in a text and whose other contents are not: more than a walk remembers, before one
/// that matches.
#[test]
pub(crate) fn rules_that_nearly_alert() {
    let mut rng = Rng::with_seed(23);
    for (count, alerting) in [(3, 2), (4, 3), (5, 4), (9, 8), (40, 39), (40, 0), (40, 17), (40, 40)]
    {
        let mut set = PatternSet::new();
        for rule in 0..count {
            let trigger = [b"trigger".as_slice(), &[rule as u8 / 3]].concat();
            let other: &[u8] = if rule == alerting { b"there" } else { b"absent" };
            set.push(Rule {
                contents: vec![Content::of(other), Content::of(trigger)],
                ..Rule::of(Content::of(""))
            })
            .unwrap();
        }
        set.push(Rule::of(Content::of("there"))).unwrap();
        let mut text = b"there ".to_vec();
        let mut order: Vec<usize> = (0..count).collect();
        rng.shuffle(&mut order);
        for rule in order {
            text.extend_from_slice(b"trigger");
            text.push(rule as u8 / 3);
        }
        let without = text[1..].to_vec();
        let behind = [without.as_slice(), b"there"].concat();
        check(&mut rng, &set, &[text, without, behind], Kind::Tcp);
    }
}

#[test]
pub(crate) fn the_protocol_is_that_of_the_network_header() {
    let mut rng = Rng::with_seed(24);
    let mut set = PatternSet::new();
    for kind in [Kind::Tcp, Kind::Udp, Kind::Icmp, Kind::Other] {
        set.push(Rule { kinds: Kinds::only(kind), ..Rule::of(Content::of("x")) }).unwrap();
    }
    let image = Image::build(&set).unwrap();
    let v4 = |protocol| {
        let mut header = vec![0x45; 20];
        header[9] = protocol;
        header
    };
    let v6 = |next, extensions: &[u8]| {
        let mut header = vec![0; 40];
        (header[0], header[6]) = (0x60, next);
        header.extend_from_slice(extensions);
        header
    };
    let options = |next| [next, 0, 1, 4, 0, 0, 0, 0];
    let fragment = |next, offset: u16| {
        let [high, low] = (offset << 3 | 1).to_be_bytes();
        [next, 0, high, low, 0, 0, 0, 7]
    };
    let longer = |next| [[next, 1, 1, 12, 0, 0, 0, 0], [0; 8]].concat();
    let authentication = |next| [[next, 1, 0, 0, 0, 0, 0, 0].as_slice(), &[0; 4]].concat();
    let chain = |most| [options(60).repeat(most - 1), options(17).to_vec()].concat();
    let cases = [
        (v4(6), Kind::Tcp),
        (v4(17), Kind::Udp),
        (v4(1), Kind::Icmp),
        (v4(47), Kind::Other),
        (v4(6)[..19].to_vec(), Kind::Other),
        (vec![], Kind::Other),
        (vec![0; 40], Kind::Other),
        (v6(6, &[]), Kind::Tcp),
        (v6(58, &[]), Kind::Icmp),
        (v6(59, &[]), Kind::Other),
        (v6(6, &[])[..39].to_vec(), Kind::Other),
        (v6(0, &options(17)), Kind::Udp),
        (v6(0, &[options(60).to_vec(), longer(6)].concat()), Kind::Tcp),
        (v6(43, &[options(51).to_vec(), authentication(17)].concat()), Kind::Udp),
        (v6(44, &fragment(6, 0)), Kind::Tcp),
        // The payload of a later fragment is not an extension header.
        (v6(44, &[fragment(60, 1), options(6)].concat()), Kind::Other),
        (v6(44, &fragment(17, 5)), Kind::Udp),
        // The maximum number of headers, and one more.
        (v6(60, &chain(MAX_EXTENSIONS)), Kind::Udp),
        (v6(60, &chain(MAX_EXTENSIONS + 1)), Kind::Other),
        // Beyond the slice, or an endless chain.
        (v6(0, &options(0)), Kind::Other),
        (
            v6(0, &[options(0).to_vec(), options(0).to_vec(), options(0).to_vec()].concat()),
            Kind::Other,
        ),
    ];
    let headers: Vec<Vec<u8>> = cases.iter().map(|(header, _)| header.clone()).collect();
    let texts = vec![b"..x..".to_vec(); cases.len()];
    let other = vec![vec![1, 2]; cases.len()];
    let slices = [Slice { rows: &other, width: 2 }, Slice { rows: &headers, width: 192 }];
    let mut batch = Batch::new(&mut rng, cases.len(), &slices, &texts);
    batch.launch.constants = [4, 2, 0, 0];
    batch.run(&mut rng, Kernel::AhoCorasick, image.words(), None);
    for (row, (header, kind)) in cases.iter().enumerate() {
        assert_eq!(batch.result(row), (*kind as u32).trailing_zeros(), "{header:x?}");
    }
}

/// Offsets and lengths of a batch are used only within its payload, and rows without a matching condition are
/// skipped.
#[test]
pub(crate) fn wrong_offsets_and_lengths() {
    let mut rng = Rng::with_seed(25);
    let mut set = PatternSet::new();
    set.push(Rule::of(Content::of("ab"))).unwrap();
    set.push(Rule::of(Content::of("\0"))).unwrap();
    let image = Image::build(&set).unwrap();
    let texts = vec![b"a0123456789abcdefxxxxb".to_vec(), vec![0; 20], b"last one: ab".to_vec()];
    let wrong: [(u32, u32); 3] = [(u32::MAX - 15, u32::MAX), (8, 100), (64, u32::MAX)];
    for (row, expected) in [(0, NONE), (1, NONE), (2, 0)] {
        let mut batch = Batch::new(&mut rng, 3, &[], &texts);
        let (offset, length) = wrong[row];
        batch.put(batch.launch.offset.of(row), &offset.to_ne_bytes());
        batch.put(batch.launch.length.of(row), &length.to_ne_bytes());
        batch.run(&mut rng, Kernel::AhoCorasick, image.words(), None);
        assert_eq!(batch.result(row), expected);
    }
    // The pattern continues after the text's end.
    let mut batch = Batch::new(&mut rng, 3, &[], &texts);
    batch.put(batch.launch.length.of(2), &11_u32.to_ne_bytes());
    batch.run(&mut rng, Kernel::AhoCorasick, image.words(), None);
    assert_eq!(batch.result(2), NONE);
    let mut batch = Batch::new(&mut rng, 3, &[], &texts);
    batch.set_conditions(&[Condition { mask: 1, value: 1 }]);
    batch.set_predicate(2, 3);
    batch.run(&mut rng, Kernel::AhoCorasick, image.words(), None);
    assert_eq!([0, 1, 2].map(|row| batch.result(row)), [NONE, NONE, 0]);
}

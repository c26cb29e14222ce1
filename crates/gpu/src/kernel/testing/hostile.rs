//! Batches that plans never or seldom make: wrong values, or data that ends where the kernel must stop.
//!
//! For most of them, the tests do not define the result: the host and the [PTX](super::ptx) must agree, and neither
//! may access other memory. Kernels trust the host for the counts in the header, the positions of columns and the
//! lengths of slices, but not for texts.

use fastrand::Rng;
use millrace_match::patterns::{Content, Image, Kind, PatternSet, Rule};
use millrace_match::rules::{Action, LiveRules, RuleSet};

use super::{Batch, Slice};
use crate::kernel::aho_corasick::random_set;
use crate::kernel::{Condition, Kernel, NONE, TILE};
use crate::table::{Decisions, Lpm6, Route};

/// Runs all tests of this file, for other ways to execute them.
pub(crate) fn every_hostile_batch() {
    batches_of_all_sizes();
    a_text_to_the_last_byte();
    texts_that_end_anywhere();
    wrong_texts();
    headers_of_any_bytes();
}

fn any_bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    (0..rng.usize(0..=most)).map(|_| rng.u8(..)).collect()
}

/// Sets random predicates, conditions and field.
fn any_predicates(rng: &mut Rng, batch: &mut Batch) {
    for row in 0..batch.rows {
        batch.set_predicate(row, rng.u32(..));
    }
    let conditions: Vec<Condition> =
        (0..rng.usize(..=8)).map(|_| Condition { mask: 1 << rng.u32(..32), value: 0 }).collect();
    batch.set_conditions(&conditions);
    let shift = rng.u32(..32);
    (batch.launch.field_shift, batch.launch.field_mask) = (shift, rng.u32(..) << shift);
    if rng.bool() {
        // The result is not requested.
        batch.launch.result.stride = 0;
    }
}

/// No row, one row, and numbers of rows that fill tiles exactly or nearly, up to the capacity.
#[test]
pub(crate) fn batches_of_all_sizes() {
    let mut rng = Rng::with_seed(41);
    let decisions = Decisions { hops: &[5, 6], miss: 2 };
    let routes = [(0, 0, 1), (0x2001_0db8 << 96, 32, 0), (1, 128, 1)];
    let routes = routes.map(|(prefix, length, hop)| Route { prefix, length, hop });
    let six = Lpm6::build(routes, decisions).unwrap();
    let rules = LiveRules::new(RuleSet::default());
    let rules = rules.with(0, millrace_match::rules::Rule::any(Action::Output(3)));
    for rows in [0, 1, 31, 32, 33, TILE - 1, TILE, TILE + 1, 2 * TILE, 4 * TILE - 1, 4 * TILE] {
        for (kernel, table, widths) in [
            (Kernel::Lpm6, six.words().as_slice(), [16].as_slice()),
            (Kernel::Classify, rules.table(1).as_slice(), &[14, 2, 20, 4]),
            (Kernel::Invert, &[], &[9]),
        ] {
            let bytes: Vec<Vec<Vec<u8>>> = widths
                .iter()
                .map(|&width| (0..rows).map(|_| any_bytes(&mut rng, width)).collect())
                .collect();
            let slices: Vec<Slice<'_>> = std::iter::zip(&bytes, widths)
                .map(|(rows, &width)| Slice { rows, width })
                .collect();
            let mut batch = Batch::new(&mut rng, rows, &slices, &[]);
            any_predicates(&mut rng, &mut batch);
            let written = (kernel == Kernel::Invert).then_some((0, widths[0]));
            batch.run(&mut rng, kernel, table, written);
        }
    }
}

fn two_patterns() -> Image {
    let mut set = PatternSet::new();
    set.push(Rule::of(Content::of("the end"))).unwrap();
    set.push(Rule::of(Content::of("d"))).unwrap();
    Image::build(&set).unwrap()
}

/// The last byte of the pattern is the last byte of the slot.
#[test]
pub(crate) fn a_text_to_the_last_byte() {
    let mut rng = Rng::with_seed(42);
    let texts = [b"the end".to_vec(), vec![], b"to the last byte: the end".to_vec()];
    let mut batch = Batch::new(&mut rng, 3, &[], &texts);
    batch.put(8, &(16 + 25_u32).to_ne_bytes());
    batch.launch.constants = [1, 0, Kind::Tcp as u32, 0];
    batch.run(&mut rng, Kernel::AhoCorasick, two_patterns().words(), None);
    assert_eq!([0, 1, 2].map(|row| batch.result(row)), [0, NONE, 0]);
}

/// Texts whose lengths are near the units that threads share and load, up to the slot's end, for any number of
/// threads.
#[test]
pub(crate) fn texts_that_end_anywhere() {
    let mut rng = Rng::with_seed(43);
    let around = |length: usize| length.saturating_sub(1)..=length + 1;
    let lengths: Vec<usize> =
        [0, 7, 16, 32, 128, 144, 256, 512].into_iter().flat_map(around).collect();
    for lanes in [1, 2, 4, 8, 16, 32] {
        for last in [0, 1, 15, 16, 17, 128, 130, 143, 257] {
            let mut texts: Vec<Vec<u8>> =
                lengths.iter().map(|&length| vec![b'e'; length]).collect();
            rng.shuffle(&mut texts);
            texts.push(vec![b'e'; last]);
            for text in &mut texts {
                let from = text.len().saturating_sub(7);
                let end = &b"the end"[7 - (text.len() - from)..];
                text[from..].copy_from_slice(end);
            }
            let mut batch = Batch::new(&mut rng, texts.len(), &[], &texts);
            let before: usize =
                texts[..texts.len() - 1].iter().map(|text| text.len().next_multiple_of(16)).sum();
            batch.put(8, &((before + last) as u32).to_ne_bytes());
            batch.launch.constants = [lanes, 0, Kind::Tcp as u32, 0];
            batch.run(&mut rng, Kernel::AhoCorasick, two_patterns().words(), None);
            for (row, text) in texts.iter().enumerate() {
                let expected = match text.len() {
                    0 => NONE,
                    1..7 => 1,
                    _ => 0,
                };
                assert_eq!(batch.result(row), expected, "{lanes} lanes, {} bytes", text.len());
            }
        }
    }
}

/// Texts with wrong positions and lengths, and a payload whose declared length is too short.
#[test]
pub(crate) fn wrong_texts() {
    let mut rng = Rng::with_seed(44);
    for _ in 0..120 {
        let alphabet: &[u8] = [b"ab".as_slice(), b"aAbB\0"][rng.usize(..2)];
        let set = random_set(&mut rng, alphabet);
        let image = Image::build(&set).unwrap();
        let texts: Vec<Vec<u8>> = (0..rng.usize(1..50))
            .map(|_| (0..rng.usize(..200)).map(|_| alphabet[rng.usize(..alphabet.len())]).collect())
            .collect();
        let mut batch = Batch::new(&mut rng, texts.len(), &[], &texts);
        let payload: usize = texts.iter().map(|text| text.len().next_multiple_of(16)).sum();
        let there = if rng.bool() { payload } else { rng.usize(..=payload) } as u32;
        batch.put(8, &there.to_ne_bytes());
        for row in 0..texts.len() {
            let near = |rng: &mut Rng| match rng.u8(..6) {
                0 => u32::MAX - rng.u32(..17),
                1 => 1 << rng.u32(..32),
                2 => there.wrapping_add(rng.u32(..33)).wrapping_sub(16),
                3 => rng.u32(..),
                _ => rng.u32(..=there) / 16 * 16,
            };
            if rng.u8(..4) != 0 {
                batch.put(batch.launch.offset.of(row), &near(&mut rng).to_ne_bytes());
            }
            if rng.u8(..4) != 0 {
                batch.put(batch.launch.length.of(row), &near(&mut rng).to_ne_bytes());
            }
        }
        any_predicates(&mut rng, &mut batch);
        batch.launch.constants = [rng.u32(..40), 0, rng.u32(..16), rng.u32(..)];
        batch.run(&mut rng, Kernel::AhoCorasick, image.words(), None);
    }
}

/// Network headers of random bytes, with chains of extension headers, cut anywhere.
#[test]
pub(crate) fn headers_of_any_bytes() {
    let mut rng = Rng::with_seed(45);
    let mut set = PatternSet::new();
    for kind in [Kind::Tcp, Kind::Udp, Kind::Icmp] {
        set.push(Rule {
            kinds: millrace_match::patterns::Kinds::only(kind),
            ..Rule::of(Content::of("x"))
        })
        .unwrap();
    }
    let image = Image::build(&set).unwrap();
    for lanes in [1, 2, 32] {
        let rows = 2 * TILE + 3;
        let header = |rng: &mut Rng| {
            let mut header = any_bytes(rng, 104);
            for byte in &mut header {
                // Mostly next-header values and small lengths.
                if rng.u8(..8) != 0 {
                    *byte = [0, 0, 43, 44, 51, 60, 6, 17, 58, 1][rng.usize(..10)];
                }
            }
            if let Some(first) = header.first_mut() {
                *first = [0x45, 0x60, 0x60, 0x60, rng.u8(..)][rng.usize(..5)];
            }
            header
        };
        let headers: Vec<Vec<u8>> = (0..rows).map(|_| header(&mut rng)).collect();
        let texts = vec![b"x".to_vec(); rows];
        let slices = [Slice { rows: &headers, width: 104 }];
        let mut batch = Batch::new(&mut rng, rows, &slices, &texts);
        batch.launch.constants = [lanes, 1, 0, 0];
        batch.run(&mut rng, Kernel::AhoCorasick, image.words(), None);
    }
}

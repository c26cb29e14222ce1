//! Built tables pass the check. If a corrupted table passes, its kernel stays inside it.

use fastrand::Rng;
use millrace_match::patterns::Image;
use millrace_match::rules::{Action, LiveRules, RuleSet};
use millrace_testkit::generate::rules::{self, Fields, KINDS};

use super::*;
use crate::kernel::Kernel;
use crate::kernel::aho_corasick::random_set;
use crate::kernel::testing::{Batch, Slice};
use crate::table::lpm4::{FIRST, GROUP};
use crate::table::lpm6::ROOT;
use crate::table::{Decisions, Lpm4, Lpm6, Route};

/// The IPv6 routes and addresses are near this one.
const NEAR: u128 = 0x2001_0db8_0000_0000_aaaa_5555_0123_4567;

fn lpm4(rng: &mut Rng) -> Vec<u32> {
    let hops = if rng.bool() { 5 } else { 40_000 };
    let outputs: Vec<u32> = (0..hops).collect();
    let route = |rng: &mut Rng| Route {
        prefix: rng.u32(..) & 0x3ff,
        length: rng.u8(22..=32),
        hop: rng.u32(..hops),
    };
    let routes: Vec<_> = (0..40).map(|_| route(rng)).collect();
    Lpm4::build(routes, Decisions { hops: &outputs, miss: 1 }).unwrap().words().to_vec()
}

fn lpm6(rng: &mut Rng) -> Vec<u32> {
    let route = |rng: &mut Rng| Route {
        prefix: NEAR ^ 1 << rng.u32(..120),
        length: rng.u8(0..=128),
        hop: rng.u32(..9),
    };
    let routes: Vec<_> = (0..60).map(|_| route(rng)).collect();
    let decisions = Decisions { hops: &[1, 2, 3, 4, 5, 6, 7, 8, 9], miss: 0 };
    Lpm6::build(routes, decisions).unwrap().words().to_vec()
}

fn classify(rng: &mut Rng) -> Vec<u32> {
    let fields = [Fields::Five, Fields::Seven][rng.usize(..2)];
    let set = rules::RuleSet { fields, ..rules::RuleSet::new(&KINDS[rng.usize(..3)], 60) };
    let mut live = LiveRules::new(RuleSet::parse(&rules::text(&set.make())).unwrap());
    for _ in 0..rng.usize(..20) {
        let rule = millrace_match::rules::Rule::any(Action::Output(rng.u16(..9)));
        let place = rng.usize(..live.len());
        live = if rng.bool() { live.with(place, rule) } else { live.without(place).unwrap() };
    }
    live.table(3).to_vec()
}

fn aho_corasick(rng: &mut Rng) -> Vec<u32> {
    Image::build(&random_set(rng, b"abAB\0")).unwrap().words().to_vec()
}

/// A batch of random packets for a kernel.
fn batch(rng: &mut Rng, kernel: Kernel) -> Batch {
    const ROWS: usize = 192;
    let widths: &[usize] = match kernel {
        Kernel::Lpm4 => &[4],
        Kernel::Lpm6 => &[16],
        Kernel::Classify => &[14, 2, 20, 4],
        _ => &[],
    };
    let of = |rng: &mut Rng, width: usize| -> Vec<Vec<u8>> {
        (0..ROWS).map(|_| (0..width).map(|_| rng.u8(..)).collect()).collect()
    };
    let mut bytes: Vec<Vec<Vec<u8>>> = widths.iter().map(|&width| of(rng, width)).collect();
    for row in 0..ROWS {
        let near = NEAR ^ 1 << rng.u32(..128);
        match kernel {
            Kernel::Lpm4 => bytes[0][row] = (rng.u32(..) & 0x3ff).to_be_bytes().to_vec(),
            Kernel::Lpm6 => bytes[0][row] = near.to_be_bytes().to_vec(),
            Kernel::Classify => {
                // The protocols that the kernel takes for TCP or UDP over IPv4.
                (bytes[1][row][0], bytes[1][row][1]) = (8, 0);
                (bytes[2][row][0], bytes[2][row][9]) = (0x45, [6, 17][row % 2]);
            }
            _ => {}
        }
    }
    let slices: Vec<Slice<'_>> =
        std::iter::zip(&bytes, widths).map(|(rows, &width)| Slice { rows, width }).collect();
    let mut texts = Vec::new();
    if kernel == Kernel::AhoCorasick {
        let text =
            |rng: &mut Rng| (0..rng.usize(..90)).map(|_| b"abAB\0c"[rng.usize(..6)]).collect();
        texts = (0..ROWS).map(|_| text(rng)).collect();
    }
    let mut batch = Batch::new(rng, ROWS, &slices, &texts);
    batch.launch.constants = [[1, 8][rng.usize(..2)], 0, 1, 0];
    (batch.launch.field_shift, batch.launch.field_mask) = (0, 0xff);
    batch
}

/// Changes words of a table: to near numbers, to values of other words, or to random values.
fn spoil(rng: &mut Rng, words: &mut [u32], kernel: Kernel) {
    for _ in 0..rng.usize(1..4) {
        // In the header, and after a first level that few addresses use.
        let end = words.len();
        let part = match kernel {
            Kernel::Lpm4 => end - 4 * GROUP..end,
            // There are few paths.
            Kernel::Lpm6 if rng.bool() => words[6] as usize..words[6] as usize + 32,
            Kernel::Lpm6 => 16 + ROOT..end,
            _ => 16..end,
        };
        let at = if rng.u8(..3) == 0 { rng.usize(2..16) } else { rng.usize(part).min(end - 1) };
        let other = words[rng.usize(..words.len())];
        words[at] = match rng.u8(..6) {
            0 => words[at].wrapping_add(rng.u32(..5)).wrapping_sub(2),
            1 => words[at] ^ 1 << rng.u32(..32),
            2 => rng.u32(..words.len() as u32),
            3 => rng.u32(..),
            4 => [0, u32::MAX, 0x8000_0000, 0xc000_0000][rng.usize(..4)],
            _ => other,
        };
    }
}

#[test]
fn tables_that_pass_keep_their_kernels_inside() {
    let mut rng = Rng::with_seed(61);
    for (kernel, make, rounds) in [
        (Kernel::Lpm4, lpm4 as fn(&mut Rng) -> Vec<u32>, 20),
        (Kernel::Lpm6, lpm6, 300),
        (Kernel::Classify, classify, 500),
        (Kernel::AhoCorasick, aho_corasick, 500),
    ] {
        let (mut refused, mut good) = (0, Vec::new());
        for round in 0..rounds {
            if round % 10 == 0 {
                good = make(&mut rng);
                assert_eq!(check(&good), Ok(()), "{kernel:?}");
            }
            let mut words = good.clone();
            spoil(&mut rng, &mut words, kernel);
            if rng.u8(..8) == 0 {
                words.truncate(rng.usize(1..words.len()));
            }
            if check(&words).is_err() {
                refused += 1;
                continue;
            }
            let mut batch = batch(&mut rng, kernel);
            if let Err(error) = batch.stays_inside(&mut rng, kernel, &words) {
                panic!("{kernel:?}, round {round}: {error}");
            }
        }
        assert!(refused > rounds / 5 && refused < rounds * 19 / 20, "{kernel:?}: {refused}");
    }
}

/// Each fault alone is found and named.
#[test]
fn each_fault_of_a_table_is_named() {
    let mut rng = Rng::with_seed(62);
    assert_eq!(check(&[]), Err(Fault::Unknown(0)));
    assert_eq!(check(&[7; 99]), Err(Fault::Unknown(7)));

    let mut six = lpm6(&mut rng);
    let spoilt = |words: &[u32], at: usize, value: u32| {
        let mut words = words.to_vec();
        words[at] = value;
        check(&words).unwrap_err().to_string()
    };
    assert_eq!(spoilt(&six, six[2] as usize, 77), "an entry: 0x4d");
    assert_eq!(
        spoilt(&six, 3, six[3] + 1),
        format!("nodes: at word {}, which is no multiple of 4", six[3] + 1)
    );
    // A path that leads to itself.
    let path = six[6] as usize;
    let root = six[2] as usize;
    six[root] = 0xc000_0000;
    assert_eq!(spoilt(&six, path + 3, 0xc000_0000), "steps to a hop: 0xf");
    assert_eq!(spoilt(&six, path + 1, 0), "the mask of a path: 0x0");

    let four = lpm4(&mut rng);
    let first = four[6] as usize;
    assert_eq!(spoilt(&four, first, u32::MAX >> 1).split(':').next(), Some("an entry"));
    assert_eq!(spoilt(&four, first, u32::MAX).split(':').next(), Some("a group"));
    assert!(check(&four[..FIRST / 2]).is_err());

    let rules = classify(&mut rng);
    let image = rules[3] as usize;
    let (nodes, root) = (image + rules[image + 5] as usize, rules[image + 16] as usize);
    assert_eq!(spoilt(&rules, nodes + 2 * root, (root as u32) << 8), format!("a child: {root:#x}"));
    assert_eq!(spoilt(&rules, nodes + 2 * root, u32::MAX), "a leaf that leads elsewhere: 0xffffff");
    assert!(spoilt(&rules, 8, u32::MAX).starts_with("actions: "));

    // A state in which a trigger ends that is longer than the text read so far.
    let mut set = millrace_match::patterns::PatternSet::new();
    set.push(millrace_match::patterns::Rule::of(millrace_match::patterns::Content::of("abc")))
        .unwrap();
    set.push(millrace_match::patterns::Rule {
        contents: vec![
            millrace_match::patterns::Content::of("abcd"),
            millrace_match::patterns::Content::of("x"),
        ],
        ..millrace_match::patterns::Rule::of(millrace_match::patterns::Content::of("y"))
    })
    .unwrap();
    let image = Image::build(&set).unwrap();
    let (words, header) = (image.words(), image.header());
    let class = usize::from(image.class_map()[usize::from(b'a')]);
    let last = (header.states as u32 - 1) * header.stride as u32;
    assert_eq!(spoilt(words, header.rows + class, last), "bytes of a trigger: 0x4");
    assert_eq!(
        spoilt(words, header.rows, last + 1),
        format!("a state between rows: {:#x}", last + 1)
    );
    assert!(spoilt(words, header.rows, u32::MAX).starts_with("a state: "));
}

//! Shared parts of the tests of pattern matching: an oracle, and random sets and texts with many matches.

use proptest::prelude::*;

use super::{Content, Kind, Kinds, PatternSet, Rule};

/// A search by definition: every rule, every content, every position.
pub(crate) mod naive {
    use super::*;

    pub(crate) fn first(set: &PatternSet, text: &[u8], kind: Kind) -> u32 {
        all(set, text, kind).first().map_or(0, |rule| rule + 1)
    }

    pub(crate) fn all(set: &PatternSet, text: &[u8], kind: Kind) -> Vec<u32> {
        let alerts = |rule: &Rule| {
            rule.kinds.has(kind) && rule.contents.iter().all(|content| occurs(content, text))
        };
        (0..).zip(set.rules()).filter(|(_, rule)| alerts(rule)).map(|(index, _)| index).collect()
    }

    pub(crate) fn occurs(content: &Content, text: &[u8]) -> bool {
        let windows = text.windows(content.bytes.len()).enumerate();
        windows.into_iter().any(|(start, window)| {
            let equal = match content.nocase {
                true => window.eq_ignore_ascii_case(&content.bytes),
                false => window == content.bytes,
            };
            let after = start as u64 + window.len() as u64;
            let end = content
                .depth
                .map_or(u64::MAX, |depth| u64::from(content.offset) + u64::from(depth));
            equal && start as u64 >= u64::from(content.offset) && after <= end
        })
    }
}

/// Bytes of a small alphabet, so that patterns occur inside one another and in texts.
fn bytes(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        6 => prop::sample::select(b"ab".as_slice()),
        2 => prop::sample::select(b"AB".as_slice()),
        2 => prop::sample::select([0, b'c', b'@', b'`', b'Z', b'z', 0xff].as_slice()),
    ];
    prop::collection::vec(byte, length)
}

fn content() -> impl Strategy<Value = Content> {
    let depth = prop::option::weighted(0.3, 0_u32..12);
    let offset = prop_oneof![4 => Just(0), 1 => 0_u32..12, 1 => Just(u32::MAX)];
    (bytes(1..7), any::<bool>(), offset, depth).prop_map(|(bytes, nocase, offset, depth)| {
        let depth = depth.map(|more| bytes.len() as u32 + more);
        Content { bytes, nocase, offset, depth }
    })
}

pub(crate) fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select([Kind::Tcp, Kind::Udp, Kind::Icmp, Kind::Other].as_slice())
}

fn rule() -> impl Strategy<Value = Rule> {
    let kinds = prop::option::weighted(0.2, kind());
    (prop::collection::vec(content(), 1..4), kinds).prop_map(|(contents, only)| {
        let kinds = only.map_or(Kinds::ALL, Kinds::only);
        Rule { contents, kinds, msg: None, sid: None }
    })
}

/// Rules of one to three contents.
pub(crate) fn sets() -> impl Strategy<Value = PatternSet> {
    // All case-sensitive, none, or a mixture.
    (prop::collection::vec(rule(), 0..12), prop::option::of(any::<bool>())).prop_map(
        |(rules, nocase)| {
            let mut set = PatternSet::new();
            for mut rule in rules {
                if let Some(nocase) = nocase {
                    rule.contents.iter_mut().for_each(|content| content.nocase = nocase);
                }
                set.push(rule).unwrap();
            }
            set
        },
    )
}

/// Texts: none, empty ones, and some that are longer than all patterns together.
pub(crate) fn texts() -> impl Strategy<Value = Vec<(Vec<u8>, Kind)>> {
    let text = prop_oneof![1 => bytes(0..4), 6 => bytes(0..40)];
    prop::collection::vec((text, kind()), 0..20)
}

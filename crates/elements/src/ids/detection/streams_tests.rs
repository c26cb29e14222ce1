//! Compares the handling of malicious TCP segments with a simple model of what the manual says about FLOW.

use std::collections::HashMap;

use etherparse::PacketBuilder;
use millrace_core::testing::Rig;
use millrace_core::{Packet, Timestamp};
use proptest::prelude::*;

const PATTERNS: [&str; 4] = ["ab", "bcab", "cc", "aaac"];

/// A segment on the wire.
#[derive(Clone, Debug)]
struct Segment {
    /// The direction of a connection that it belongs to.
    direction: u8,
    sequence: u32,
    syn: bool,
    fin: bool,
    rst: bool,
    payload: Vec<u8>,
}

impl Segment {
    fn frame(&self) -> Vec<u8> {
        let port = 1000 + u16::from(self.direction / 2);
        let there = self.direction.is_multiple_of(2);
        let ends =
            if there { ([10, 0, 0, 1], [10, 0, 0, 2]) } else { ([10, 0, 0, 2], [10, 0, 0, 1]) };
        let (from, to) = if there { (port, 80) } else { (80, port) };
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(ends.0, ends.1, 9);
        let mut builder = builder.tcp(from, to, self.sequence, 1000);
        if self.syn {
            builder = builder.syn();
        }
        if self.fin {
            builder = builder.fin();
        }
        if self.rst {
            builder = builder.rst();
        }
        let mut frame = Vec::new();
        builder.write(&mut frame, &self.payload).unwrap();
        frame
    }
}

/// The manual's model of a direction: all bytes since the last gap.
struct Reading {
    start: u32,
    next: u32,
    text: Vec<u8>,
}

/// The patterns that end in a text after position `from`.
fn endings(text: &[u8], from: usize) -> impl Iterator<Item = usize> + '_ {
    let ends = move |pattern: &&str| {
        let occurrences = text.windows(pattern.len()).enumerate();
        let mut there = occurrences.filter(|(_, bytes)| *bytes == pattern.as_bytes());
        there.any(|(at, _)| at + pattern.len() > from)
    };
    let found = PATTERNS.iter().enumerate().filter(move |(_, pattern)| ends(pattern));
    found.map(|(rule, _)| rule)
}

impl Reading {
    fn new(start: u32) -> Self {
        Self { start, next: start, text: Vec::new() }
    }

    /// The rules that alert on a segment.
    fn read(&mut self, first: u32, syn: bool, payload: &[u8]) -> Vec<usize> {
        let ahead = first.wrapping_sub(self.next).cast_signed();
        if syn && self.start != first || ahead < -(1 << 30) {
            *self = Self::new(first);
        }
        let ahead = first.wrapping_sub(self.next).cast_signed();
        let mut alerts = Vec::new();
        let fresh = match ahead {
            0.. => payload,
            _ => {
                alerts.extend(endings(payload, 0));
                payload.get(ahead.unsigned_abs() as usize..).unwrap_or_default()
            }
        };
        if ahead > 0 {
            self.text.clear();
        }
        if ahead >= 0 || !fresh.is_empty() {
            let before = self.text.len();
            self.text.extend(fresh);
            alerts.extend(endings(&self.text, before));
            self.next = first.wrapping_add(payload.len() as u32);
        }
        alerts
    }
}

/// The expected result for each segment's packet.
fn expected(segments: &[Segment]) -> Vec<u32> {
    let mut readings = HashMap::new();
    let of = |segment: &Segment| {
        let first = segment.sequence.wrapping_add(segment.syn.into());
        if segment.payload.is_empty() && !segment.syn {
            return 0;
        }
        let reading = readings.entry(segment.direction).or_insert_with(|| Reading::new(first));
        let alerts = reading.read(first, segment.syn, &segment.payload);
        alerts.into_iter().min().map_or(0, |rule| rule as u32 + 1)
    };
    segments.iter().map(of).collect()
}

fn rig(arguments: &str) -> Rig {
    let patterns = PATTERNS.map(|pattern| format!("PATTERN {pattern}, ")).concat();
    Rig::new(&format!("IDSMatcher({patterns}FLOW true{arguments})"), 1, 1).unwrap()
}

fn push(rig: &mut Rig, segments: &[Segment]) -> Vec<u32> {
    let packets = segments.iter().map(|segment| Packet::from_bytes(&segment.frame()).unwrap());
    let out = rig.push_packets(0, packets.collect());
    out[0].iter().map(|packet| packet.anno_u32(44)).collect()
}

/// A stream cut into segments of a few bytes that are close to one another, around the wrap of sequence numbers: in
/// order, repeated with other bytes, overlapping, with gaps, with unexpected flags, and now and then far away.
fn segments() -> impl Strategy<Value = Vec<Segment>> {
    let start = prop_oneof![Just(u32::MAX - 15), any::<u32>()];
    let place = prop_oneof![20 => 0..40_u32, 1 => any::<u32>()];
    let payload = prop::collection::vec(prop::sample::select(b"aabbcc".to_vec()), 0..9);
    let flags = [1, 1, 1].map(|one| prop::bool::weighted(f64::from(one) / 10.0));
    let [syn, fin, rst] = flags;
    let one = (0..4_u8, prop::bool::weighted(0.7), place, payload, syn, fin, rst);
    (start, prop::collection::vec(one, 1..40)).prop_map(|(start, drawn)| {
        let mut next = [start; 4];
        let segment = |(direction, in_order, place, payload, syn, fin, rst): (
            u8,
            bool,
            u32,
            Vec<u8>,
            bool,
            bool,
            bool,
        )| {
            let next: &mut u32 = &mut next[usize::from(direction)];
            let sequence = if in_order { *next } else { start.wrapping_add(place) };
            *next = sequence.wrapping_add(u32::from(syn) + payload.len() as u32);
            Segment { direction, sequence, syn, fin, rst, payload }
        };
        drawn.into_iter().map(segment).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn malicious_segments_are_handled_as_in_the_manual(segments in segments(), cut in 0..40_usize) {
        let mut rig = rig("");
        let cut = cut.min(segments.len());
        let mut results = push(&mut rig, &segments[..cut]);
        results.extend(push(&mut rig, &segments[cut..]));
        prop_assert_eq!(results, expected(&segments));
        prop_assert!(rig.stats().balanced());
    }
}

fn data(direction: u8, sequence: u32, payload: &[u8]) -> Segment {
    let payload = payload.to_vec();
    Segment { direction, sequence, syn: false, fin: false, rst: false, payload }
}

#[test]
fn connections_start_and_end() {
    let syn = |sequence, payload: &[u8]| Segment { syn: true, ..data(0, sequence, payload) };
    let fin = |sequence, payload: &[u8]| Segment { fin: true, ..data(0, sequence, payload) };
    let rst = |sequence| Segment { rst: true, ..data(0, sequence, b"") };
    let cases = [
        ("data in the SYN", vec![syn(9, b"bc"), data(0, 12, b"ab")], vec![0, 1]),
        (
            "the SYN again, with other data",
            vec![syn(9, b"bc"), syn(9, b"xy"), data(0, 12, b"ab")],
            vec![0, 0, 1],
        ),
        // Anybody can forge one: the host itself may still accept what follows.
        (
            "a RST does not hide what follows",
            vec![data(0, 9, b"aaa"), rst(12), data(0, 12, b"c")],
            vec![0, 0, 4],
        ),
        ("a FIN with data", vec![data(0, 9, b"a"), fin(10, b"b")], vec![0, 1]),
        ("behind a FIN", vec![fin(9, b"a"), data(0, 11, b"b")], vec![0, 0]),
        (
            "the ports again",
            vec![fin(9, b"a"), syn(90, b""), data(0, 91, b"b"), data(0, 92, b"cab")],
            vec![0, 0, 0, 1],
        ),
        (
            "the ports again, but for the SYN",
            vec![data(0, u32::MAX / 2, b"a"), data(0, 5, b"aaa"), data(0, 8, b"c")],
            vec![0, 0, 4],
        ),
    ];
    for (name, segments, results) in cases {
        assert_eq!(push(&mut rig(""), &segments), results, "{name}");
        assert_eq!(expected(&segments), results, "{name}: the test's own reading");
    }
}

/// The limit holds, known streams stay known, and every packet is searched.
#[test]
fn a_syn_flood_stays_within_the_limit() {
    let mut rig = rig(", FLOWS 50, TIMEOUT 10");
    assert_eq!(push(&mut rig, &[data(0, 10, b"bc")]), [0]);
    let syn = |n: u16| {
        let source = [7, 7, (n >> 8) as u8, n as u8];
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(source, [10, 0, 0, 2], 9);
        let mut frame = Vec::new();
        builder.tcp(n, 80, u32::from(n) << 16, 1000).syn().write(&mut frame, b"").unwrap();
        Packet::from_bytes(&frame).unwrap()
    };
    for first in (0..5000).step_by(250) {
        let _ = rig.push_packets(0, (first..first + 250).map(syn).collect());
    }
    assert_eq!(rig.read("flows").unwrap(), "50");
    assert_eq!(
        push(&mut rig, &[data(2, 10, b"bcab"), data(2, 14, b"a"), data(2, 15, b"b")]),
        [1, 0, 0]
    );
    assert_eq!(push(&mut rig, &[data(0, 12, b"ab")]), [1]);
    let _ = rig.pass(Timestamp::from_nanos(9_000_000_000));
    assert_eq!(push(&mut rig, &[data(0, 14, b"bc")]), [0]);
    // After the timeout the flood is forgotten, but not the stream that has been active since.
    let _ = rig.pass(Timestamp::from_nanos(2_000_000_000));
    assert_eq!(rig.read("flows").unwrap(), "1");
    assert_eq!(
        push(&mut rig, &[data(0, 16, b"ab"), data(2, 14, b"a"), data(2, 15, b"b")]),
        [1, 0, 1]
    );
}

//! The graph optimiser changes nothing but the speed: random configurations with and without it give
//! the same frames, in the same order on each path, and count the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use fastrand::Rng;
use millrace_core::Timestamp;
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::run::Options;
use millrace_core::stats::ElementStats;

use router::Bench;

const IP_ROUTER: &str = include_str!("../../../examples/ip-router.click");
const IP6_ROUTER: &str = include_str!("../../../examples/ip6-router.click");

/// What left by each device: for frames of each kind and shape, which take one way, their numbers in order.
type Left = Vec<BTreeMap<Vec<u8>, Vec<[u8; 2]>>>;

#[test]
fn random_configurations_do_the_same_with_and_without() {
    let mut passed = 0;
    for seed in 0..120 {
        let mut rng = Rng::with_seed(seed);
        let config = configuration(&mut rng);
        let rounds: Vec<Vec<Vec<u8>>> = (0..12).map(|_| burst(&mut rng)).collect();
        passed += compare(&config, &rounds);
    }
    assert!(passed > 600, "{passed} elements passed in one go: the test looks at little");
}

#[test]
fn the_ip_router_does_the_same_with_and_without() {
    let mut rng = Rng::with_seed(7);
    let rounds: Vec<Vec<Vec<u8>>> = (0..40).map(|_| burst(&mut rng)).collect();
    assert!(compare(IP_ROUTER, &rounds) >= 40, "packets pass the ports' ways in and out in one go");
}

#[test]
fn the_ip6_router_does_the_same_with_and_without() {
    let mut rng = Rng::with_seed(6);
    let burst = |rng: &mut Rng| (0..rng.u16(..120)).map(|n| frame6(rng.u8(..8), n)).collect();
    let rounds: Vec<Vec<Vec<u8>>> = (0..40).map(|_| burst(&mut rng)).collect();
    assert!(
        compare(IP6_ROUTER, &rounds) >= 10,
        "packets pass each port's ways in and out in one go"
    );
}

/// All packets take one path: the order of all of them counts, also where many more batches wait than one, where
/// elements within a row send packets of their own, and where a batch goes back to the start.
#[test]
fn fragments_stay_in_their_places() {
    const CONFIG: &str = "
        FromDevice(eth0, BURST 256) -> MarkIPHeader(14) -> Strip(14) -> SetIPAddress(10.0.0.9)
            -> IPFragmenter(64) -> DecIPTTL -> IPFragmenter(44) -> Null
            -> arp :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1) -> ToDevice(eth1);
        Idle -> [1] arp;";
    let run = |optimise| {
        let mut rng = Rng::with_seed(11);
        let mut bench = Bench::with(CONFIG, Options { optimise, ..Options::default() });
        let router = bench.engine.router().clone();
        router.write("arp.insert", b"10.0.0.9 2:0:0:0:0:9").unwrap();
        let mut left = Vec::new();
        for round in 0..8 {
            let long = |rng: &mut Rng| if rng.u16(..8) < round { 400 } else { 20 };
            let frames: Vec<_> =
                (0..200).map(|n| numbered(200 * round + n, long(&mut rng))).collect();
            let mut all = bench.exchange(0, &frames);
            left.append(&mut all[1]);
        }
        bench.assert_balanced();
        (left, router.plan().passages.concat().len())
    };
    let ((left, passed), (plainly, none)) = (run(true), run(false));
    assert_eq!((passed, none), (8, 0), "packets pass the row in one go");
    assert!(plainly.len() > 8000, "{}", plainly.len());
    let first = left.iter().zip(&plainly).position(|(one, other)| one != other);
    assert!(
        left == plainly,
        "{} and {} frames, from frame {first:?} on",
        left.len(),
        plainly.len()
    );
}

/// A row whose end leads to its beginning: Null, DecIPTTL and SetIPChecksum, behind MarkIPHeader.
#[test]
fn a_loop_does_the_same_with_and_without() {
    let config = "
        FromDevice(eth0, BURST 64) -> MarkIPHeader(14) -> again :: Null -> hop :: DecIPTTL -> SetIPChecksum
            -> again;
        hop[1] -> ToDevice(eth1);";
    let mut rng = Rng::with_seed(12);
    let rounds: Vec<Vec<Vec<u8>>> = (0..20).map(|_| burst(&mut rng)).collect();
    assert_eq!(compare(config, &rounds), 4);
}

/// Compares a configuration with itself unoptimised; returns how many elements packets pass in one go.
fn compare(config: &str, rounds: &[Vec<Vec<u8>>]) -> usize {
    let run = |optimise| {
        let mut bench = Bench::with(config, Options { optimise, ..Options::default() });
        let mut left: Left = vec![BTreeMap::new(); bench.ends.len()];
        for (n, round) in rounds.iter().enumerate() {
            for (device, frames) in bench.exchange(n, round).into_iter().enumerate() {
                for mut frame in frames {
                    let end = frame.len() - 1;
                    let number = [frame[end - 2], frame[end - 1]];
                    frame[end - 2..end].fill(0);
                    left[device].entry(frame).or_default().push(number);
                }
            }
            bench.pass(Timestamp::from_millis(300));
        }
        bench.assert_balanced();
        let router = bench.engine.router();
        let counts: Vec<(String, ElementStats)> = router
            .elements()
            .enumerate()
            .map(|(id, element)| {
                let stats = router.stats_of(id);
                (
                    element.name.to_owned(),
                    ElementStats { batches: 0, cycles: 0, polling: 0, ..stats },
                )
            })
            .collect();
        let handlers: Vec<_> = counts
            .iter()
            .flat_map(|(name, _)| ["count", "drops", "drop_details"].map(|h| format!("{name}.{h}")))
            .map(|path| router.read(&path, b"").ok().map(|text| (path, text.to_vec())))
            .collect();
        (left, counts, handlers, router.plan().passages.concat().len())
    };
    let (left, counts, handlers, passed) = run(true);
    let (left_plainly, counted_plainly, handlers_plainly, none) = run(false);
    assert_eq!(none, 0);
    assert_eq!(counts, counted_plainly, "{config}");
    for (device, (left, plainly)) in left.iter().zip(&left_plainly).enumerate() {
        for shape in left.keys().chain(plainly.keys()) {
            assert_eq!(left.get(shape), plainly.get(shape), "eth{device}: {shape:?}\n{config}");
        }
    }
    assert_eq!(handlers, handlers_plainly, "{config}");
    passed
}

/// Elements that may stand anywhere (Unstrip would show what was in the memory before), and how many outputs each may have.
const ELEMENTS: &[(&str, usize)] = &[
    ("Null", 1),
    ("Strip(14)", 1),
    ("SetIPAddress(10.0.0.8)", 1),
    ("Paint(1)", 1),
    ("Paint(2)", 1),
    ("CheckPaint(1)", 2),
    ("PaintTee(1)", 2),
    ("HostEtherFilter(2:0:10:0:0:1)", 2),
    ("MarkMACHeader", 1),
    ("EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)", 1),
    ("EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)", 1),
    ("EtherMirror", 1),
    ("MarkIPHeader(14)", 1),
    ("CheckIPHeader(14)", 2),
    ("CheckIPHeader2(14, DETAILS true)", 2),
    ("GetIPAddress(30)", 1),
    ("SetIPAddress(10.0.0.9)", 1),
    ("DropBroadcasts", 2),
    ("IPGWOptions(10.0.0.1)", 2),
    ("FixIPSrc(10.0.0.1)", 1),
    ("DecIPTTL", 2),
    ("IPFragmenter(60)", 2),
    ("SetIPChecksum", 1),
    ("Counter", 1),
    ("Classifier(12/0800, -)", 2),
];

/// Rows that there are loops for, so that chance need not find them.
const ROWS: &[&[usize]] = &[
    &[1, 13, 15],
    &[3, 1, 13],
    &[17, 5, 18, 19, 20, 21],
    &[17, 6, 18, 19, 20],
    &[20, 9],
    &[20, 10],
    &[12, 15],
    &[17, 20, 9],
    &[18, 19, 20],
];

/// A graph without loops: a line of elements, whose other outputs lead to devices or join the line again.
fn configuration(rng: &mut Rng) -> String {
    let mut line: Vec<usize> = vec![12];
    for _ in 0..rng.usize(1..4) {
        if rng.bool() {
            line.extend(ROWS[rng.usize(..ROWS.len())]);
        }
        line.extend((0..rng.usize(0..3)).map(|_| rng.usize(..ELEMENTS.len())));
        if rng.u8(..4) == 0 {
            line.extend([0, 0]);
        }
    }
    let mut text = String::new();
    for (at, &element) in line.iter().enumerate() {
        text.push_str(&format!("e{at} :: {};\n", ELEMENTS[element].0));
    }
    text.push_str(
        "out0 :: Null -> ToDevice(eth1); out1 :: Counter -> ToDevice(eth2);\n\
         FromDevice(eth0, BURST 32) -> e0; FromDevice(eth1, BURST 8) -> e0;\n\
         FromDevice(eth2) -> e0; FromDevice(eth3) -> out1;\n",
    );
    for (at, &element) in line.iter().enumerate() {
        let outputs = ELEMENTS[element].1;
        let main = if ELEMENTS[element].0.starts_with("CheckPaint") { 1 } else { 0 };
        let next = if at + 1 < line.len() { format!("e{}", at + 1) } else { "out0".into() };
        text.push_str(&format!("e{at}[{main}] -> {next};\n"));
        for output in (0..outputs).filter(|&output| output != main) {
            // An output in front of the last one cannot be left out, nor PaintTee's and Classifier's.
            let needed = main == 1 || matches!(element, 6 | 24);
            let to = match rng.u8(..4) {
                0 if !needed => continue,
                1 => "out1".to_owned(),
                2 => "Null -> out1".to_owned(),
                _ if at + 2 < line.len() => format!("e{}", rng.usize(at + 1..line.len())),
                _ => "out0".to_owned(),
            };
            text.push_str(&format!("e{at}[{output}] -> {to};\n"));
        }
    }
    text
}

/// Frames of a few kinds in any order; the last byte says which, the ones before number the frames.
fn burst(rng: &mut Rng) -> Vec<Vec<u8>> {
    let kinds = rng.u8(1..12);
    (0..rng.u16(..120)).map(|n| frame(rng.u8(..kinds), n)).collect()
}

/// A frame for both ports of the IPv6 router, as [`frame`] makes them for routers.
fn frame6(kind: u8, number: u16) -> Vec<u8> {
    const PAYLOAD: u16 = 20;
    let (version, hop_limit) =
        (if kind == 0 { 0x50 } else { 0x60 }, if kind == 1 { 1 } else { 64 });
    let length = if kind == 2 { PAYLOAD + 1 } else { PAYLOAD };
    let source: Ipv6Addr = if kind == 3 { "fe80::2" } else { "2001:db8::2" }.parse().unwrap();
    let destination: Ipv6Addr = match kind {
        4 => "2001:db8:2::2",
        5 => "2001:db8:1::1",
        6 => "2001:db8::2",
        _ => "2001:db8:1::2",
    }
    .parse()
    .unwrap();
    let mut frame = vec![0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
    frame.extend([version, 0, 0, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([59, hop_limit]);
    frame.extend(source.octets());
    frame.extend(destination.octets());
    frame.resize(14 + 40 + usize::from(PAYLOAD), kind);
    let end = frame.len() - 1;
    frame[end - 2..end].copy_from_slice(&number.to_be_bytes());
    frame
}

/// A frame that tells its number in the identification, and so do its fragments.
fn numbered(number: u16, payload: usize) -> Vec<u8> {
    let len = (Ipv4Header::LEN + payload) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend(number.to_be_bytes());
    packet.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 9, 10, 0, 0, 9]);
    packet.resize(len.into(), 0);
    Ipv4Header::fill_checksum(&mut packet);
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0][..], &packet].concat()
}

fn frame(kind: u8, number: u16) -> Vec<u8> {
    let mut rng = Rng::with_seed(kind.into());
    let mut frame = match kind % 4 {
        0 => vec![0xff; 6],
        1 => vec![2, 0, 0x10, 0, 0, 9],
        _ => vec![2, 0, 0x10, 0, 0, 1],
    };
    frame.extend([2, 0, 0, 0, 0, 9, 8, if kind == 9 { 6 } else { 0 }]);
    let options: &[u8] = match kind % 3 {
        0 if kind > 5 => &[7, 7, 4, 0, 0, 0, 0, 0],
        1 if kind > 8 => &[7, 3, 9, 0],
        _ => &[],
    };
    let payload = if kind == 7 { 90 } else { 20 };
    let header_len = Ipv4Header::LEN + options.len();
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(((header_len + payload) as u16).to_be_bytes());
    packet.extend([0, kind, 0, 0, if kind == 4 { 1 } else { 64 }, 17, 0, 0]);
    packet.extend([10, 0, 0, 9, rng.u8(1..200), rng.u8(..), 0, 1]);
    packet.extend(options);
    // Fragments have the kind at their end, too.
    packet.resize(header_len + payload, kind);
    Ipv4Header::fill_checksum(&mut packet);
    if kind == 5 {
        packet[10] ^= 1;
    }
    let end = packet.len();
    packet[end - 3..end - 1].copy_from_slice(&number.to_be_bytes());
    packet[end - 1] = kind;
    frame.extend(packet);
    if kind == 10 {
        frame.truncate(22);
        frame[21] = kind;
    }
    frame
}

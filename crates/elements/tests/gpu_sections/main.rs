//! GPU sections in whole graphs: the same packets, in the same order, by the same ways as with the CPU elements, on every
//! device that there is; and every packet accounted for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "../support/hostile.rs"]
mod hostile;
#[path = "../support/router.rs"]
mod router;
mod stops;

use fastrand::Rng;
use millrace_core::Timestamp;
use millrace_core::run::Options;
use millrace_testkit::generate::frame::Frame;
use millrace_testkit::generate::rules::{Fields, KINDS, RuleSet};
use millrace_testkit::generate::trace::Trace;

use router::{Bench, engine};

/// Devices, and ways of using them.
const DEVICES: [&str; 4] = [
    "GPURuntime(DEVICE host);",
    "GPURuntime(DEVICE host, STREAMS 1);",
    "GPURuntime(DEVICE simulator);",
    "GPURuntime(DEVICE simulator, STREAMS 2, FAULTS 5%, SEED 7);",
];

const BATCHES: [&str; 4] = [
    "Batcher",
    "Batcher(1)",
    "Batcher(300, SLOTS 2)",
    "Batcher(SLICE_BEGIN 0, SLICE_END -1, ANN_FLAGS 3)",
];

/// The text of a section around `stages`, and what comes after it.
fn section(runtime: &str, batcher: &str, stages: &str, after: &str) -> String {
    let start = start(runtime, batcher, stages);
    format!(
        "{start} -> DeviceToHostMemcpy -> GPUCompletionQueue -> debatcher :: Debatcher -> {after}"
    )
}

/// The text up to the stages of a section.
fn start(runtime: &str, batcher: &str, stages: &str) -> String {
    format!(
        "{runtime}
        FromDevice(eth0) -> Strip(14) -> MarkIPHeader -> GetIPAddress(16) -> Unstrip(14)
            -> batcher :: {batcher} -> HostToDeviceMemcpy -> {stages}"
    )
}

fn on_cpu(elements: &str) -> String {
    format!(
        "FromDevice(eth0) -> Strip(14) -> MarkIPHeader -> GetIPAddress(16) -> Unstrip(14) -> {elements}"
    )
}

const TO_DEVICES: &str =
    "d [1] -> ToDevice(eth1); d [2] -> ToDevice(eth2); d [0] -> ToDevice(eth3);";

/// Frames with addresses that fall into few networks, each with a number of its own at the end.
fn frames(rng: &mut Rng, count: usize, number: &mut u32) -> Vec<Vec<u8>> {
    let frame = |_| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1]);
        frame.extend([rng.u8(0..4), rng.u8(0..2), rng.u8(..), rng.u8(..)]);
        *number += 1;
        frame.extend(number.to_be_bytes());
        frame.resize(60 + rng.usize(0..40), 0);
        frame
    };
    (0..count).map(frame).collect()
}

/// Feeds two benches numbered packets and holds their outputs together, and the packets of each element. Where ways join on the
/// CPU, packets come by turns; in a section they stay as they were.
fn compare(cpu: &str, gpu: &str, rounds: usize, changes: &[(usize, &str, &str)]) {
    let mut number = 0;
    let frames = |rng: &mut Rng, count| frames(rng, count, &mut number);
    let order = |frame: &Vec<u8>| frame[34..38].to_vec();
    let (one, other) = compare_on(cpu, gpu, rounds, changes, frames, order);
    one.end();
    other.end();
}

/// The same with other packets. The CPU's are sorted by `order`, which is stable.
fn compare_on<K: Ord>(
    cpu: &str,
    gpu: &str,
    rounds: usize,
    changes: &[(usize, &str, &str)],
    mut make: impl FnMut(&mut Rng, usize) -> Vec<Vec<u8>>,
    order: impl Fn(&Vec<u8>) -> K,
) -> (Bench, Bench) {
    let (mut one, mut other) = (Bench::new(cpu), Bench::new(gpu));
    let mut rng = Rng::with_seed(rounds as u64);
    let mut left = 0;
    for round in 0..rounds {
        for (_, handler, text) in changes.iter().filter(|change| change.0 == round) {
            for bench in [&mut one, &mut other] {
                bench.engine.router().write(handler, text.as_bytes()).unwrap();
            }
        }
        let count = *rng.choice([0, 1, 7, 256, 900].iter()).unwrap();
        let frames = make(&mut rng, count);
        let (expected, mut got) = (one.exchange(0, &frames), other.exchange(0, &frames));
        // A device that works on the side needs time.
        let n = |frames: &[Vec<Vec<u8>>]| frames.iter().map(Vec::len).sum::<usize>();
        let start = std::time::Instant::now();
        while n(&got) < n(&expected) && start.elapsed().as_secs() < 120 {
            other.pass(Timestamp::from_micros(10));
            let more = other.exchange(0, &[]);
            got.iter_mut().zip(more).for_each(|(got, more)| got.extend(more));
        }
        for (port, (got, mut expected)) in got.iter().zip(expected).enumerate() {
            expected.sort_by_key(&order);
            left += expected.len();
            assert!(
                *got == expected,
                "round {round}, port {port}: {} of {} packets, or another order\n{gpu}",
                got.len(),
                expected.len()
            );
        }
        other.assert_balanced();
    }
    assert!(left > 100);
    (one, other)
}

const ROUTES: &str = "0/6 0, 1/8 192.168.0.1 1, 1.1/16 2, 2/8 1, 2.0.128/17 10.9.8.7 2";

#[test]
fn routes_lead_where_they_do_on_the_cpu() {
    let cpu = on_cpu(&format!("d :: RadixIPLookup({ROUTES}); {TO_DEVICES}"));
    for (device, batcher) in DEVICES.into_iter().zip(BATCHES) {
        let stages = format!("rt :: GPUIPLookup({ROUTES})");
        let after = format!("d :: Dispatcher(rt.0, rt.1, rt.2); {TO_DEVICES}");
        compare(&cpu, &section(device, batcher, &stages, &after), 12, &[]);
    }
}

#[test]
fn routes_change_while_packets_flow() {
    let cpu = on_cpu(&format!(
        "rt :: RadixIPLookup({ROUTES}); rt [0] -> ToDevice(eth3); rt [1] -> ToDevice(eth1); rt [2] -> ToDevice(eth2);"
    ));
    let after = format!("d :: Dispatcher; {TO_DEVICES}");
    let gpu = section(DEVICES[0], "Batcher(256)", &format!("rt :: GPUIPLookup({ROUTES})"), &after);
    let changes = [
        (2, "rt.remove", "1.1/16"),
        (4, "rt.ctrl", "add 1.1/16 7.7.7.7 0\nset 2/8 0\nremove 2.0.128/17"),
        (6, "rt.add", "3/8 2"),
        (8, "rt.flush", ""),
        (9, "rt.set", "0/0 1"),
    ];
    compare(&cpu, &gpu, 12, &changes);
}

#[test]
fn a_hop_s_gateway_becomes_the_destination() {
    let cpu = on_cpu(
        "d :: RadixIPLookup(0/0 0, 1/8 192.168.0.1 1, 2/8 10.9.8.7 2); \
        d [0] -> StoreIPAddress(26) -> ToDevice(eth3); d [1] -> StoreIPAddress(26) -> ToDevice(eth1);\
        d [2] -> StoreIPAddress(26) -> ToDevice(eth2);",
    );
    let after = "d :: Dispatcher; d [0] -> StoreIPAddress(26) -> ToDevice(eth3); \
        d [1] -> StoreIPAddress(26) -> ToDevice(eth1); d [2] -> StoreIPAddress(26) -> ToDevice(eth2);";
    let gpu = section(
        DEVICES[2],
        "Batcher(512)",
        "GPUIPLookup(0/0 0, 1/8 192.168.0.1 1, 2/8 10.9.8.7 2)",
        after,
    );
    compare(&cpu, &gpu, 8, &[]);
}

#[test]
fn branches_join_in_order() {
    let (a, b, c) = ("0/7 0, 2/8 1, 3/8 2", "0/1 1, 128/1 0", "0/0 5.5.5.5 3");
    let cpu = on_cpu(&format!(
        "a :: RadixIPLookup({a}); b :: RadixIPLookup({b}); c :: RadixIPLookup({c});
         a [0] -> b; a [1] -> c; a [2] -> d :: Null; b [0] -> d; b [1] -> d;
         Idle -> [0] c; c [0] -> Discard; c [1] -> Discard; c [2] -> Discard; c [3] -> d;
         d -> StoreIPAddress(26) -> ToDevice(eth1);"
    ));
    for device in DEVICES {
        let gpu = format!(
            "b :: GPUIPLookup({b}, OUTPUTS 2); c :: GPUIPLookup({c}, OUTPUTS 4); end :: DeviceToHostMemcpy;
             {}; a [0] -> b -> end; a [1] -> c -> end; a [2] -> end;
             end -> GPUCompletionQueue -> Debatcher -> StoreIPAddress(26) -> ToDevice(eth1);",
            start(device, "Batcher(400)", &format!("a :: GPUIPLookup({a})"))
        );
        compare(&cpu, &gpu, 8, &[]);
    }
}

#[test]
fn packets_are_counted_where_they_pass() {
    let mut bench = Bench::new(
        "FromDevice(eth0) -> GetIPAddress(30) -> batcher :: Batcher(64) -> balancer :: Balancer(MODE gpu)
            -> up :: HostToDeviceMemcpy -> a :: GPUIPLookup(0/8 0, 1/8 1);
         a [0] -> down :: DeviceToHostMemcpy; a [1] -> b :: GPUIPLookup(1.0/16 0) -> down;
         down -> queue :: GPUCompletionQueue -> debatcher :: Debatcher -> ToDevice(eth1);",
    );
    let mut rng = Rng::with_seed(5);
    let frames = frames(&mut rng, 1000, &mut 0);
    let count = |one: u8, two: &[u8]| {
        frames.iter().filter(|frame| frame[30] == one && two.contains(&frame[31])).count() as u64
    };
    let (zero, good, bad) = (count(0, &[0, 1]), count(1, &[0]), count(1, &[1]));
    let left = bench.exchange(0, &frames)[1].len() as u64;
    assert_eq!(left, zero + good);
    let stats = |name: &str| {
        let router = bench.engine.router();
        let stats = router.stats_of(router.find(name).unwrap());
        (stats.received, stats.sent, stats.dropped())
    };
    let n = frames.len() as u64;
    for name in ["batcher", "balancer", "up"] {
        assert_eq!(stats(name), (n, n, 0), "{name}");
    }
    assert_eq!(stats("a"), (n, zero + good + bad, n - zero - good - bad));
    assert_eq!(stats("b"), (good + bad, good, bad));
    for name in ["down", "queue", "debatcher"] {
        assert_eq!(stats(name), (left, left, 0), "{name}");
    }
    bench.assert_balanced();
    let router = bench.engine.router().clone();
    let read = |handler: &str| String::from_utf8(router.read(handler, b"").unwrap()).unwrap();
    assert_eq!(read("debatcher.gpu_packets"), n.to_string());
    assert_eq!(read("debatcher.cpu_packets"), "0");
    assert_eq!(read("batcher.length"), "0");
    assert_eq!(read("queue.length"), "0");
    assert!(read("debatcher.fields").starts_with("a\t0\t2\n"), "{}", read("debatcher.fields"));
    assert!(read("up.plan").contains("lpm4 for a"), "{}", read("up.plan"));

    let counts = ["debatcher.gpu_packets", "batcher.batches", "balancer.cycles"];
    assert!(counts.iter().all(|count| !read(count).starts_with("0")));
    for element in ["batcher", "balancer", "debatcher"] {
        router.write(&format!("{element}.reset_counts"), b"").unwrap();
        assert!(counts.iter().all(|count| read(count).starts_with("0")), "{element}");
        bench.exchange(0, &frames[..100]);
        assert_eq!(read("debatcher.gpu_packets"), "100");
    }
}

#[test]
fn chk_anno_leaves_other_packets_alone() {
    let (a, b) = ("0/7 0, 2/7 1", "0/0 9.9.9.9 0");
    let cpu = on_cpu(&format!(
        "a :: RadixIPLookup({a}); a [0] -> d :: Null; a [1] -> RadixIPLookup({b}) -> d;
         d -> StoreIPAddress(26) -> ToDevice(eth1);"
    ));
    let gpu = section(
        DEVICES[2],
        "Batcher(256)",
        &format!("a :: GPUIPLookup({a}) -> GPUIPLookup({b}, CHK_ANNO a.1)"),
        "StoreIPAddress(26) -> ToDevice(eth1);",
    );
    compare(&cpu, &gpu, 8, &[]);
}

#[test]
fn the_cpu_does_the_same_work() {
    let cpu = on_cpu(&format!("d :: RadixIPLookup({ROUTES}); {TO_DEVICES}"));
    for mode in ["cpu", "gpu", "adaptive, PROBE 30%"] {
        let batcher = format!("Batcher(256) -> Balancer(MODE {mode})");
        let stages = format!("rt :: GPUIPLookup({ROUTES})");
        let after = format!("d :: Dispatcher(rt.0, rt.1, rt.2); {TO_DEVICES}");
        compare(&cpu, &section(DEVICES[2], &batcher, &stages, &after), 12, &[]);
    }
}

#[test]
fn a_section_that_needs_too_much_memory_does_not_start() {
    let messages = engine(
        "GPURuntime(DEVICE host, HOSTMEMSZ 1); Idle -> Batcher(16384) -> HostToDeviceMemcpy
            -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> Debatcher -> Discard;
         InfiniteSource -> Batcher(16384) -> HostToDeviceMemcpy
            -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> Debatcher -> Discard;",
        Options::default(),
    );
    let messages = messages.err().unwrap();
    assert!(messages[0].contains("HOSTMEMSZ is 1 MiB"), "{messages:?}");
}

#[test]
fn sections_withstand_every_packet() {
    for device in DEVICES {
        let mut bench = Bench::new(&format!(
            "{device} FromDevice(eth0) -> Batcher(100, SLICE_BEGIN 20, SLICE_END 40, ANN_FLAGS 3) -> Balancer
                -> HostToDeviceMemcpy -> a :: GPUIPLookup(0/1 0, 128/2 1, 1.2.3.4 2)
                -> b :: GPUIP6Lookup(2000::/3 0, ::/0 1, CHK_ANNO a.0) -> DeviceToHostMemcpy
                -> Debatcher -> d :: Dispatcher(b.0, a.1, 31, -);
             d [0] -> ToDevice(eth1); d [1] -> ToDevice(eth2); d [2] -> Discard; d [3] -> ToDevice(eth3);"
        ));
        let mut rng = Rng::with_seed(3);
        for _ in 0..30 {
            let frames: Vec<_> = (0..rng.usize(0..300)).map(|_| hostile::frame(&mut rng)).collect();
            bench.feed(0, &frames);
        }
        for _ in 0..1000 {
            bench.pass(Timestamp::from_micros(10));
        }
        bench.assert_balanced();
    }
}

/// Frames of all kinds, with VLAN tags, IP options, extension headers, short and cut off ones; some with a word in them.
fn suspicious(rng: &mut Rng, count: usize) -> Vec<Vec<u8>> {
    let words: [&[u8]; 6] = [b"GET ", b"/etc/passwd", b"evil", b"EVIL", b"\0\xff\0", b"ab"];
    let frame = |_| {
        let mut frame = hostile::frame(rng);
        if rng.bool() && frame.len() > 14 {
            let tags = [&[][..], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]];
            let tags = tags[rng.usize(0..3)];
            frame.splice(12..12, tags.iter().copied());
        }
        for _ in 0..rng.usize(0..3) {
            let word = words[rng.usize(0..words.len())];
            if frame.len() > word.len() {
                // At the very end now and then.
                let last = frame.len() - word.len();
                let at = if rng.bool() { last } else { rng.usize(0..=last) };
                frame[at..at + word.len()].copy_from_slice(word);
            }
        }
        frame
    };
    (0..count).map(frame).collect()
}

fn read(bench: &Bench, handler: &str) -> String {
    String::from_utf8(bench.engine.router().read(handler, b"").unwrap()).unwrap()
}

const PATTERNS: &str = r#"alert tcp any any -> any any (content:"GET "; sid:1;)
alert udp any any -> any any (content:"evil"; nocase; msg:"evil"; sid:2;)
alert icmp any any -> any any (content:"ab"; sid:3;)
alert ip any any -> any any (content:"/etc/"; content:"passwd"; offset:4; sid:4;)
alert ip any any -> any any (content:"|00 ff 00|"; sid:5;)
alert ip any any -> any any (content:"b"; depth:40; sid:6;)
"#;

#[test]
fn patterns_are_found_where_they_are_on_the_cpu() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("patterns");
    std::fs::write(&file, PATTERNS).unwrap();
    for (device, from) in DEVICES.into_iter().zip(["PAYLOAD", "NETWORK", "TRANSPORT", "ETHERNET"]) {
        let arguments = format!("{}, PATTERN evil, FROM {from}", file.display());
        let cpu = format!(
            "FromDevice(eth0) -> ids :: IDSMatcher({arguments}); ids [0] -> ToDevice(eth1); ids [1] -> ToDevice(eth2);"
        );
        let gpu = format!(
            "{device} FromDevice(eth0) -> Batcher(300) -> HostToDeviceMemcpy
                -> ids :: GPUIDSMatcher({arguments}, LANES 4) -> DeviceToHostMemcpy -> Debatcher
                -> d :: Dispatcher; d [0] -> ToDevice(eth1); d [1] -> ToDevice(eth2);"
        );
        let changes = [(6, "ids.patterns", "evil\nb\n")];
        // What was under way at the change is counted by its new number: there is nothing.
        let (one, other) = compare_on(&cpu, &gpu, 10, &changes, suspicious, |_| 0);
        for handler in ["ids.counts", "ids.alerts", "ids.patterns"] {
            assert_eq!(read(&one, handler), read(&other, handler), "{handler} {from}");
        }
        assert_ne!(read(&one, "ids.alerts"), "0");
    }
}

#[test]
fn two_matchers_note_in_one_annotation() {
    let mut bench = Bench::new(
        "GPURuntime(DEVICE host); FromDevice(eth0) -> Batcher -> HostToDeviceMemcpy
            -> sdn :: GPUSDNClassifier(
                RULE \"@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x06/0xff 1\", DEFAULT 0);
         one :: GPUIDSMatcher(PATTERN x, PATTERN evil, ANNO 16);
         two :: GPUIDSMatcher(PATTERN evil, ANNO 16);
         sdn [0] -> one -> back :: DeviceToHostMemcpy; sdn [1] -> two -> back;
         back -> Debatcher -> d :: PaintSwitch;
         d [2] -> ToDevice(eth1); d [1] -> ToDevice(eth2); d [0] -> ToDevice(eth3);",
    );
    let frame = |protocol: u8, text: &[u8]| {
        let mut frame =
            vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64];
        frame.extend([protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(text);
        frame[17] = (frame.len() - 14) as u8;
        frame
    };
    let frames = [frame(6, b"evil"), frame(17, b"evil"), frame(6, b"good"), frame(17, b"good")];
    let out = bench.exchange(0, &frames);
    let [udp, tcp, good, fine] = [1, 0, 2, 3].map(|n: usize| frames[n].clone());
    assert_eq!(out[1..], [vec![udp], vec![tcp], vec![good, fine]]);
    assert_eq!(read(&bench, "one.counts"), "1 0 - x\n2 1 - evil\n");
    assert_eq!(read(&bench, "two.counts"), "1 1 - evil\n");
    bench.assert_balanced();
}

#[test]
fn rules_decide_as_they_do_on_the_cpu() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules");
    let made = RuleSet { fields: Fields::Seven, actions: 2, ..RuleSet::new(&KINDS[0], 300) }.make();
    let lines = made.iter().map(|rule| format!("{rule}\n"));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let leave = "d [0] -> ToDevice(eth1); d [1] -> ToDevice(eth2); d [2] -> ToDevice(eth3);";
    let arguments = format!("{}, DEFAULT 2", file.display());
    for device in DEVICES {
        let cpu = format!("FromDevice(eth0) -> d :: SDNClassifier({arguments}); {leave}");
        let gpu = format!(
            "{device} FromDevice(eth0) -> Batcher(700) -> HostToDeviceMemcpy
                -> sdn :: GPUSDNClassifier({arguments}, OUTPUTS 3) -> DeviceToHostMemcpy -> Debatcher
                -> d :: Dispatcher; {leave}"
        );
        let trace: Vec<_> = Trace { misses: 10, ..Trace::new(500) }.make(&made);
        let frames = |rng: &mut Rng, count: usize| {
            let frame = |_| {
                if rng.u8(0..4) == 0 {
                    return hostile::frame(rng);
                }
                let vlans = [&[][..], &[], &[7], &[100, 7]][rng.usize(0..4)];
                let header = trace[rng.usize(0..trace.len())];
                let mut bytes =
                    Frame { header, vlans, options: rng.u8(0..3), payload: b"some text" }.bytes();
                if rng.u8(0..8) == 0 {
                    bytes.truncate(rng.usize(0..=bytes.len()));
                }
                bytes
            };
            (0..count).map(frame).collect()
        };
        let _ = compare_on(&cpu, &gpu, 8, &[], frames, |_| 0);
    }
}

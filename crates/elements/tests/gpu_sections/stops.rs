//! A router that stops in good order leaves no packet in its sections, whatever the device does meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use millrace_core::clock::Clock;
use millrace_core::run::Options;
use millrace_core::run::Outcome;
use millrace_core::{Engine, Phase, Reason, Router};
use millrace_io::pcap::{self, Reader, Writer};

use super::router::engine;

/// Devices that need time, and go wrong in every way.
const DEVICES: [&str; 5] = [
    "GPURuntime(DEVICE host);",
    "GPURuntime(DEVICE simulator);",
    "GPURuntime(DEVICE simulator, STREAMS 1, SEED 3);",
    "GPURuntime(DEVICE simulator, FAULTS 10%, PATIENCE 20ms, SEED 4);",
    "GPURuntime(DEVICE simulator, FAULTS 60%, PATIENCE 20ms, SEED 5);",
];

/// What no test takes.
const LONG: Duration = Duration::from_secs(60);

/// The text of a section between two elements, with a name for its Batcher.
fn section(name: &str, batcher: &str) -> String {
    format!(
        "{name} :: {batcher} -> HostToDeviceMemcpy -> GPUIP6Lookup(::/0 0) -> DeviceToHostMemcpy
            -> GPUCompletionQueue -> Debatcher"
    )
}

fn capture(path: &Path, packets: usize) -> Vec<Vec<u8>> {
    let packet = |number: usize| {
        let mut packet = vec![0; 34 + number % 50];
        packet[14] = 0x45;
        packet[20..24].copy_from_slice(&(number as u32).to_be_bytes());
        packet
    };
    let packets: Vec<_> = (0..packets).map(packet).collect();
    let mut writer = Writer::create(path, pcap::Options::default()).unwrap();
    for (number, packet) in packets.iter().enumerate() {
        writer.write(number as u64 * 1000, packet.len() as u32, packet).unwrap();
    }
    writer.finish().unwrap();
    packets
}

fn packets(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(path).unwrap();
    let mut packets = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        packets.push(record.data.to_vec());
    }
    packets
}

/// No packet is under way but in a Queue, and each is accounted for.
fn assert_quiet(router: &Router, outcome: &Outcome, text: &str) {
    assert_eq!(outcome.complaints, Vec::<String>::new(), "{text}");
    for (id, element) in router.elements().enumerate() {
        let stats = router.stats_of(id);
        assert!(stats.balanced(), "{}: {stats:?}\n{text}", element.name);
        assert!(stats.held == 0 || element.class.name == "Queue", "{}\n{text}", element.name);
        let drops = stats.drops.iter().filter(|drop| drop.0 != Reason::Discarded);
        assert_eq!(drops.count(), 0, "{}: {stats:?}\n{text}", element.name);
    }
}

fn on(clock: Clock, threads: usize) -> Options {
    Options { clock, threads, ..Options::default() }
}

#[test]
fn a_file_goes_through_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    for (device, count) in DEVICES.into_iter().zip([1, 700, 5_000, 3_000, 3_000]) {
        let sent = capture(&from, count);
        for clock in [Clock::virtual_(), Clock::real()] {
            // The first section that packets come to is the last one in the text; batches are never old.
            let text = format!(
                "{device} last :: Null -> {} -> ToDump({});
                 first :: Null -> {} -> last;
                 FromDump({}, STOP true) -> GetIPAddress(16) -> first;",
                section("b", "Batcher(64)"),
                to.display(),
                section("a", "Batcher(1000, TIMEOUT 1h)"),
                from.display(),
            );
            let engine = engine(&text, on(clock, 1)).unwrap();
            let router = engine.router().clone();
            assert_quiet(&router, &engine.run(), &text);
            assert!(packets(&to) == sent, "{} of {count}\n{text}", packets(&to).len());
        }
    }
}

/// Runs a router until packets have come through it, and then does something.
fn run_for_a_while(engine: Engine, then: impl FnOnce(&Router) + Send) -> Outcome {
    let router = engine.router().clone();
    std::thread::scope(|scope| {
        let counter = router.find("out").unwrap();
        scope.spawn(move || {
            let start = Instant::now();
            while router.stats_of(counter).received < 3_000 && start.elapsed() < LONG {
                std::thread::sleep(Duration::from_millis(1));
            }
            then(&router);
        });
        engine.run()
    })
}

#[test]
fn several_threads_finish_their_own() {
    for device in DEVICES {
        let sources = [0, 1, 2].map(|thread| {
            format!("s{thread} :: InfiniteSource(LENGTH 60) -> GetIPAddress(16) -> in;")
        });
        let text = format!(
            "{device} out :: Counter -> Discard; in :: Null -> {} -> out; {}
             StaticThreadSched(s0 0, s1 1, s2 2);",
            section("a", "Batcher(300)"),
            sources.concat()
        );
        let engine = engine(&text, on(Clock::real(), 3)).unwrap();
        let router = engine.router().clone();
        let outcome = run_for_a_while(engine, |router| router.enter(Phase::Draining));
        assert_quiet(&router, &outcome, &text);
    }
}

#[test]
fn packets_that_come_again_and_a_queue_behind() {
    for device in DEVICES {
        // Each packet goes through the section four times.
        let text = format!(
            "{device} source :: InfiniteSource(DATA \\<45000014 00000000 04110000 01000001 02000002>, LIMIT 2000, STOP true)
                -> in :: Null -> {} -> MarkIPHeader -> ttl :: DecIPTTL -> GetIPAddress(16) -> in;
             ttl [1] -> out :: Counter -> Queue(2000) -> Discard(ACTIVE false);",
            section("a", "Batcher(100, TIMEOUT 1h)")
        );
        let engine = engine(&text, on(Clock::real(), 1)).unwrap();
        let router = engine.router().clone();
        assert_quiet(&router, &engine.run(), &text);
        let count = String::from_utf8(router.read("out.count", b"").unwrap()).unwrap();
        assert_eq!(count, "2000", "{text}");
    }
}

#[test]
fn a_device_that_hangs_is_waited_for_as_long_as_its_patience() {
    let text = |patience: &str| {
        // Each step of each batch may hang, and some do.
        format!(
            "GPURuntime(DEVICE simulator, FAULTS 50%, PATIENCE {patience}, SEED 6);
             source :: InfiniteSource(LENGTH 60) -> GetIPAddress(16) -> {} -> out :: Counter -> Discard;",
            section("a", "Batcher(100)")
        )
    };
    let config = text("30ms");
    let engine = engine(&config, on(Clock::real(), 1)).unwrap();
    let router = engine.router().clone();
    let outcome = run_for_a_while(engine, |router| router.enter(Phase::Draining));
    assert_quiet(&router, &outcome, &config);
}

#[test]
fn who_stops_a_second_time_does_not_wait() {
    // Packets go in a circle for ever.
    let text = format!(
        "GPURuntime(DEVICE simulator); InfiniteSource(LENGTH 60, LIMIT 3000) -> GetIPAddress(16)
            -> in :: Null -> {} -> out :: Counter -> way :: Switch(0);
         way [0] -> in; way [1] -> Discard;",
        section("a", "Batcher(100)")
    );
    let engine = engine(&text, on(Clock::real(), 1)).unwrap();
    let router = engine.router().clone();
    let outcome = run_for_a_while(engine, |router| {
        router.enter(Phase::Draining);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!router.is_running());
        router.enter(Phase::Halted);
    });
    assert_eq!(outcome.complaints, Vec::<String>::new());
    let held: u64 = (0..router.len()).map(|id| router.stats_of(id).held).sum();
    let stats: Vec<_> = (0..router.len()).map(|id| router.stats_of(id)).collect();
    assert!(stats.iter().all(|stats| stats.balanced()));
    let dropped: u64 = stats.iter().map(|stats| stats.dropped()).sum();
    let came: u64 = stats.iter().map(|stats| stats.created).sum();
    assert_eq!(held + dropped, came);
}

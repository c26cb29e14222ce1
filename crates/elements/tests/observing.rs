//! Watched packets take the ways that they take anyway: on pushed and pulled connections, on several threads, while
//! observations come and go.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use millrace_core::observe::{Loss, Observation, Observer, Passage};
use millrace_core::run::Options;
use millrace_core::stats::ElementStats;
use millrace_core::{Packet, Reason, Router, Timestamp};

use router::{Bench, engine};

const IP_ROUTER: &str = include_str!("../../../examples/ip-router.click");

/// Counts what it sees.
#[derive(Default)]
struct Counter {
    passed: Mutex<HashMap<usize, u64>>,
    dropped: Mutex<HashMap<(usize, Reason), u64>>,
}

impl Observer for Counter {
    fn passes(&self, at: &Passage, packet: &Packet) {
        assert!(at.batch > 0 && !packet.is_empty());
        *self.passed.lock().unwrap().entry(at.connection).or_default() += 1;
    }

    fn drops(&self, at: &Loss, _: &Packet) {
        self.drops_unseen(at, 1);
    }

    fn drops_unseen(&self, at: &Loss, count: usize) {
        *self.dropped.lock().unwrap().entry((at.element, at.reason)).or_default() += count as u64;
    }
}

impl Counter {
    /// Compares with the elements' counts. All connections must have been watched all the time.
    fn assert_true(&self, router: &Router) {
        let passed = self.passed.lock().unwrap();
        for id in 0..router.len() {
            let stats = router.stats_of(id);
            let sum = |end: fn(&millrace_core::graph::Link) -> usize| -> u64 {
                let links = router.connections().iter().enumerate().filter(|(_, l)| end(l) == id);
                links.filter_map(|(at, _)| passed.get(&at)).sum()
            };
            assert_eq!(sum(|link| link.0.0), stats.sent, "from {}", router.name_of(id));
            assert_eq!(sum(|link| link.1.0), stats.received, "to {}", router.name_of(id));
            for (reason, n) in stats.drops {
                let seen = self.dropped.lock().unwrap().remove(&(id, reason));
                assert_eq!(seen, Some(n), "{}: {reason}", router.name_of(id));
            }
        }
        assert!(self.dropped.lock().unwrap().is_empty());
    }
}

/// Frames of several kinds: for hosts that are known and not, with options, too old, with a wrong checksum, too long.
fn frame(rng: &mut Rng, port: u8, number: u16) -> Vec<u8> {
    let ttl = if rng.u8(..8) == 0 { 1 } else { 64 };
    let target = [10, 0, rng.u8(..4), rng.u8(1..4)];
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 10, 0, port, 1])
        .ipv4([10, 0, port, 2], target, ttl)
        .udp(number, 9);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &vec![0; rng.usize(8..1400)]).unwrap();
    if rng.u8(..8) == 0 {
        bytes[24] ^= 1;
    }
    bytes
}

type Run = (Vec<Vec<Vec<u8>>>, Vec<ElementStats>);

fn run(config: &str, optimise: bool, watch: Option<bool>, seed: u64) -> Run {
    let mut bench = Bench::with(config, Options { optimise, ..Options::default() });
    let router = bench.engine.router().clone();
    let counter = Arc::new(Counter::default());
    let observing = watch.map(|singly| {
        let connections = (0..router.connections().len()).collect();
        let observer = counter.clone();
        router.observe(Observation { connections, drops: true, singly, observer })
    });
    let mut rng = Rng::with_seed(seed);
    let mut left: Vec<Vec<Vec<u8>>> = vec![Vec::new(); bench.ends.len()];
    for port in 0..4 {
        for host in 2..4 {
            let entry = format!("10.0.{port}.{host} 2:0:0:0:{port}:{host}");
            router.write(&format!("eth{port}/arp.insert"), entry.as_bytes()).unwrap();
        }
    }
    for round in 0..12 {
        let frames: Vec<_> = (0..rng.u16(..200)).map(|n| frame(&mut rng, round % 4, n)).collect();
        for (device, mut frames) in bench.exchange(round.into(), &frames).into_iter().enumerate() {
            // The identifications of the router's own packets, and so the checksums, count up in the whole process.
            for own in frames.iter_mut().filter(|frame| frame[23] == 1) {
                own[18..20].fill(0);
                own[24..26].fill(0);
            }
            left[device].append(&mut frames);
        }
        bench.pass(Timestamp::from_millis(300));
    }
    bench.assert_balanced();
    if observing.is_some() {
        counter.assert_true(&router);
    }
    let plain = |stats: ElementStats| ElementStats { batches: 0, cycles: 0, polling: 0, ..stats };
    (left, (0..router.len()).map(|id| plain(router.stats_of(id))).collect())
}

#[test]
fn a_router_that_is_watched_does_what_it_does_otherwise() {
    for seed in 0..8 {
        for optimise in [true, false] {
            let alone = run(IP_ROUTER, optimise, None, seed);
            assert!(alone.0.iter().flatten().count() > 100);
            let watched = run(IP_ROUTER, optimise, Some(false), seed);
            assert_eq!(alone.1, watched.1, "{optimise} {seed}");
            assert!(alone.0 == watched.0, "{optimise} {seed}");
        }
        // Packet by packet ARP may answer between two packets of a batch; what is counted is what is seen all the same.
        run(IP_ROUTER, true, Some(true), seed);
    }
}

/// Sees whether numbered packets come in order.
#[derive(Default)]
struct Sequence {
    last: Mutex<HashMap<usize, u32>>,
    seen: AtomicU64,
}

impl Observer for Sequence {
    fn passes(&self, at: &Passage, packet: &Packet) {
        let number = u32::from_ne_bytes(packet.data()[..4].try_into().unwrap());
        let last = self.last.lock().unwrap().insert(at.connection, number);
        assert!(last.is_none_or(|last| last < number), "{last:?}, then {number}");
        self.seen.fetch_add(1, SeqCst);
    }
}

#[test]
fn observations_come_and_go_while_packets_flow_on_threads() {
    const CONFIG: &str = "
        a :: InfiniteSource(LENGTH 60) -> NumberPacket(0) -> Counter -> q :: Queue(1000)
            -> u :: Unqueue(BURST 32) -> c :: Counter -> p :: Queue(1000) -> v :: Unqueue(BURST 8) -> d :: Counter -> Discard;
        StaticThreadSched(a 0, u 1, v 2);";
    let engine = engine(CONFIG, Options { threads: 3, ..Options::default() }).unwrap();
    let router = engine.router().clone();
    let (ended, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = Rng::with_seed(1);
            while !ended.load(SeqCst) {
                let observer = Arc::new(Sequence::default());
                let all = 1..router.connections().len();
                let connections = all.filter(|_| rng.bool()).collect();
                let singly = rng.u8(..4) == 0;
                let observation =
                    Observation { connections, drops: true, singly, observer: observer.clone() };
                let observing = router.observe(observation);
                std::thread::sleep(Duration::from_micros(rng.u64(..3000)));
                drop(observing);
                seen.fetch_add(observer.seen.load(SeqCst), SeqCst);
                if seen.load(SeqCst) > 20_000 {
                    router.request_stop();
                }
            }
        });
        engine.run();
        ended.store(true, SeqCst);
    });
    for id in 0..router.len() {
        let stats = router.stats_of(id);
        assert!(stats.balanced(), "{}: {stats:?}", router.name_of(id));
    }
    assert!(seen.load(SeqCst) > 20_000);
}

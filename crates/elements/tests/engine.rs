//! The engine with real elements: joins, threads, plans, and what is said of wrong graphs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use millrace_core::run::Options;
use millrace_core::{Packet, Router};

use router::{Bench, engine};

fn stats(router: &Router, element: &str) -> millrace_core::stats::ElementStats {
    router.stats_of(router.find(element).unwrap())
}

/// Frames that take four ways in turn, numbered.
fn frames(n: u16) -> Vec<Vec<u8>> {
    (0..n).map(|number| [&[(number % 4) as u8][..], &number.to_be_bytes()].concat()).collect()
}

const SPLIT_AND_JOIN: &str = "
    FromDevice(eth0, BURST 64) -> split :: Classifier(0/00, 0/01, 0/02, -);
    split[0] -> Null -> Null -> join :: Counter -> ToDevice(eth1);
    split[1] -> Null -> join;
    split[2] -> join;
    split[3] -> Null -> Null -> Null -> join;
";

#[test]
fn split_batches_come_together_again() {
    let mut bench = Bench::new(SPLIT_AND_JOIN);
    for frame in frames(640) {
        bench.ends[0].send(Packet::from_bytes(&frame).unwrap()).unwrap();
    }
    bench.engine.settle();
    let router = bench.engine.router().clone();
    let (split, join) = (stats(&router, "split"), stats(&router, "join"));
    assert_eq!((split.received, split.batches), (640, 10));
    assert_eq!((join.received, join.batches), (640, 10));
}

#[test]
fn the_order_within_each_way_is_kept() {
    let mut bench = Bench::new(SPLIT_AND_JOIN);
    for frame in frames(640) {
        bench.ends[0].send(Packet::from_bytes(&frame).unwrap()).unwrap();
    }
    bench.engine.settle();
    let mut next = [0u16, 1, 2, 3];
    while let Some(packet) = bench.ends[1].receive() {
        let &[way, high, low] = packet.data() else { panic!("another packet came out") };
        let number = u16::from_be_bytes([high, low]);
        assert_eq!(number, next[usize::from(way)]);
        next[usize::from(way)] += 4;
    }
    assert_eq!(next, [640, 641, 642, 643]);
}

#[test]
fn what_shows_its_order_runs_packet_by_packet() {
    // Each packet's copies take their ways one after the other, as in Click; the notes of the
    // scripts come in that order.
    let config = "
        InfiniteSource(LIMIT 2) -> t :: Tee;
        log :: Script(TYPE PASSIVE, set all $(get all)$args);
        t[0] -> Script(TYPE PACKET, write log.run a) -> j :: Script(TYPE PACKET, write log.run j)
             -> Discard;
        t[1] -> Script(TYPE PACKET, write log.run b) -> j;
    ";
    let options = Options { clock: millrace_core::clock::Clock::virtual_(), ..Options::default() };
    let mut engine = engine(config, options).unwrap();
    engine.router().write("log.set", b"all .").unwrap();
    engine.settle();
    let all = engine.router().read("log.get", b"all").unwrap();
    assert_eq!(String::from_utf8(all).unwrap().trim_start_matches(['.', '"']), "ajbjajbj");
}

#[test]
fn threads_meet_at_queues_and_lose_nothing() {
    let config = "
        InfiniteSource(LIMIT 50000, BURST 32, STOP true) -> q :: Queue(100000)
            -> u :: Unqueue(BURST 32) -> c :: Counter -> d :: Discard;
        StaticThreadSched(u 1);
    ";
    let engine = engine(config, Options { threads: 2, ..Options::default() }).unwrap();
    let router = engine.router().clone();
    let threads =
        |name: &str| router.plan().threads_of(router.find(name).unwrap()).collect::<Vec<_>>();
    assert_eq!(threads("InfiniteSource@1"), [0]);
    assert_eq!(threads("q"), [0, 1]);
    assert_eq!((threads("u"), threads("c"), threads("d")), (vec![1], vec![1], vec![1]));

    let outcome = engine.run();
    assert!(outcome.complaints.is_empty());
    let queue = stats(&router, "q");
    assert_eq!(queue.received, 50000);
    assert_eq!(queue.sent + queue.held, 50000);
    for (id, element) in router.elements().enumerate() {
        let stats = router.stats_of(id);
        assert!(stats.balanced(), "{}: {stats:?}", element.name);
    }
}

#[test]
fn a_thread_that_sleeps_is_woken_by_another() {
    let config = "
        TimedSource(5ms, LIMIT 20, STOP true) -> Queue -> u :: Unqueue -> c :: Counter -> Discard;
        StaticThreadSched(u 1);
        DriverManager(pause, wait 100ms);
    ";
    let engine = engine(config, Options { threads: 2, ..Options::default() }).unwrap();
    let router = engine.router().clone();
    engine.run();
    assert_eq!(router.read("c.count", b"").unwrap(), b"20");
}

#[test]
fn a_pull_goes_through_a_thousand_elements_and_no_more() {
    let chain = |n: usize| {
        let samples = "-> RoundRobinSched ".repeat(n);
        let config = format!(
            "InfiniteSource(LIMIT 9) -> Queue {samples} -> u :: Unqueue -> c :: Counter(COUNT_CALL 9 stop) -> Discard;
             StaticThreadSched(u 1);"
        );
        engine(&config, Options { threads: 2, ..Options::default() })
    };
    let engine = chain(999).unwrap();
    let router = engine.router().clone();
    engine.run();
    assert_eq!(router.read("c.count", b"").unwrap(), b"9");
    let messages = chain(1000).err().unwrap();
    assert_eq!(messages.len(), 1);
    assert!(messages[0].contains("‘u :: Unqueue’ pulls through more than 1000 elements"));
}

#[test]
fn a_pull_in_a_ring_is_no_deeper_than_its_elements() {
    let ring = |n: usize| {
        let samples = "-> RandomSample(1) ".repeat(n);
        let config = format!(
            "a :: RoundRobinSched {samples} -> s :: RandomSample(1) -> a; s -> Unqueue -> Discard;"
        );
        engine(&config, Options::default())
    };
    assert!(ring(3).is_ok());
    assert!(ring(2000).is_err_and(|messages| messages[0].contains("pulls through more than 1000")));
}

#[test]
fn wrong_graphs_are_explained() {
    for (config, expected) in [
        ("Idle -> Conter -> Discard;", "undeclared element ‘Conter’"),
        ("a :: Conter; Idle -> a -> Discard;", "unknown element class ‘Conter’"),
        ("Idle -> c :: Counter;", "‘c :: Counter’ output 0 unused"),
        ("Idle -> c :: Counter -> Discard; c[1] -> Discard;", "‘c :: Counter’ has no output 1"),
        (
            "Idle -> c :: Counter -> Discard; c -> Idle;",
            "illegal reuse of ‘c :: Counter’ push output 0",
        ),
        (
            "s :: TimedSource -> u :: Unqueue -> Discard;",
            "‘s :: TimedSource’ push output 0 connected to ‘u :: Unqueue’ pull input 0",
        ),
        (
            "TimedSource -> c :: Counter -> Unqueue -> Discard;",
            "agnostic ‘c :: Counter’ in mixed context: push input 0, pull output 0",
        ),
        ("Idle -> Strip -> Discard;", "LENGTH: required argument missing"),
        ("Idle -> Strip(1, 2) -> Discard;", "too many arguments"),
    ] {
        let messages = engine(config, Options::default()).err().unwrap_or_default();
        assert!(messages.iter().any(|m| m == expected), "{config}: {messages:?}");
    }
}

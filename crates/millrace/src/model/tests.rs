//! What a snapshot of a router on virtual time says.

use std::sync::Arc;

use millrace_core::run::initialize;
use millrace_core::{Engine, Timestamp};

use super::snapshot::{Element, PortKind, QueueFill};
use super::*;
use crate::config::{Origin as Configuration, load};
use crate::session::{Choices, Reach, configure, services};

/// A router on virtual time, which starts at the first second.
fn engine(text: &str) -> (Engine, Model) {
    let configuration = Configuration::Expression(text.to_owned());
    let mut loaded = load(&configuration, &[], None).unwrap();
    let model = Model::default();
    let choices = Choices { simtime: Some(1.0), ..Choices::default() };
    let options = choices.options(services(Reach::Guarded, &model)).unwrap();
    let router = configure(&mut loaded, options).unwrap();
    let engine = initialize(router, 1).unwrap();
    model.begin(engine.router());
    (engine, model)
}

fn run_to(engine: &mut Engine, second: i64) -> Arc<Router> {
    engine.run_until(Timestamp::from_nanos(second * 1_000_000_000));
    engine.router().clone()
}

fn element<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Element {
    snapshot.elements.iter().find(|element| element.name == name).unwrap()
}

/// The packets of the connection from one element's output to the next element.
fn packets(snapshot: &Snapshot, from: &str, port: usize) -> Option<u64> {
    let from = element(snapshot, from).id;
    let mut edges = snapshot.connections.iter();
    edges.find(|edge| (edge.from, edge.from_port) == (from, port)).unwrap().packets
}

#[test]
fn a_queue_is_as_full_as_its_length() {
    let text =
        "RatedSource(RATE 100, LIMIT 7) -> q :: Queue(10) -> Idle; a :: AddressInfo(b 1.2.3.4);";
    let (mut engine, model) = engine(text);
    let snapshot = model.snapshot(&run_to(&mut engine, 2));
    let queue = element(&snapshot, "q");
    assert_eq!(queue.queue, Some(QueueFill { length: 7, capacity: 10 }));
    assert_eq!((queue.held, queue.entered, queue.left), (7, 7, 0));
    assert_eq!(
        (&queue.inputs[..], &queue.outputs[..]),
        (&[PortKind::Push][..], &[PortKind::Pull][..])
    );
    assert!(element(&snapshot, "a").information && !queue.information);
    assert!(queue.landmark.ends_with(":1"), "{}", queue.landmark);
    assert_eq!((snapshot.totals.entered, snapshot.totals.held), (7, 7));
    assert!(snapshot.totals.balanced);
    assert_eq!(snapshot.virtual_seconds, Some(1.0));
    assert_eq!((snapshot.phase.as_str(), snapshot.generation), ("running", 0));
}

#[test]
fn connections_have_the_packets_that_passed_them() {
    let text =
        "RatedSource(DATA \\<00>, RATE 100, LIMIT 8) -> t :: Tee(3) -> a :: Counter -> m :: Idle;
        t[1] -> b :: RandomSample(1, DROP 0) -> m; t[2] -> q :: Queue(100);
        q -> u :: Unqueue -> s :: Switch(1); s[0] -> m; s[1] -> d :: Discard;";
    let text = text.replace("RandomSample(1, DROP 0)", "Counter");
    let (mut engine, model) = engine(&text);
    let snapshot = model.snapshot(&run_to(&mut engine, 2));
    let ways = ["t", "a", "b", "q", "u"].map(|name| packets(&snapshot, name, 0));
    assert_eq!(ways, [Some(8); 5]);
    // What goes to the input that others share is what remains of Switch's packets.
    let switch = [0, 1].map(|port| packets(&snapshot, "s", port));
    assert_eq!(switch, [Some(0), Some(8)]);
}

#[test]
fn what_cannot_be_known_of_a_connection_is_not_said() {
    let text = "RatedSource(RATE 100, LIMIT 8) -> s :: RoundRobinSwitch; s[0] -> m :: Counter -> Discard; s[1] -> m;";
    let (mut engine, model) = engine(text);
    let snapshot = model.snapshot(&run_to(&mut engine, 2));
    assert_eq!([0, 1].map(|port| packets(&snapshot, "s", port)), [None, None]);
    assert_eq!(packets(&snapshot, "m", 0), Some(8));
}

#[test]
fn looking_in_vain_costs_no_packet_cycles() {
    let text = "InfiniteSource(LIMIT 0) -> q :: Queue -> u :: Unqueue -> Discard;
        i :: InfiniteSource(LIMIT 2000, BURST 10) -> d :: Discard;";
    let (mut engine, model) = engine(text);
    let snapshot = model.snapshot(&run_to(&mut engine, 2));
    for name in ["u", "q"] {
        let idle = element(&snapshot, name);
        assert_eq!((idle.cycles, idle.cycles_per_packet), (0, None), "{name}");
        assert!(idle.polling_cycles > 0, "{name}");
    }
    assert!(element(&snapshot, "i").cycles > 0 && element(&snapshot, "d").cycles > 0);
    let worker = &snapshot.workers[0];
    let sum = |count: fn(&Element) -> u64| snapshot.elements.iter().map(count).sum::<u64>();
    assert_eq!(worker.busy_cycles, sum(|element| element.cycles));
    assert_eq!(worker.polling_cycles, sum(|element| element.polling_cycles));
    assert_eq!(worker.idle_cycles, snapshot.idle_cycles);
}

#[test]
fn a_difference_is_what_happened_between() {
    let text = "RatedSource(DATA abcdefghij, RATE 100) -> c :: Counter -> q :: Queue(50) -> Idle;";
    let (mut engine, model) = engine(text);
    let before = model.snapshot(&run_to(&mut engine, 2));
    let now = model.snapshot(&run_to(&mut engine, 3));
    let passed = now.since(&before);
    let counter = element(&passed, "c");
    assert_eq!((counter.entered, counter.left, counter.bytes), (100, 100, Some(1000)));
    assert_eq!(counter.mean_batch, Some(1.0));
    let queue = element(&passed, "q");
    assert_eq!((queue.drops.get("queue full"), queue.dropped, queue.held), (100, 100, 50));
    assert_eq!(packets(&passed, "c", 0), Some(100));
    assert_eq!(passed.totals.entered, 100);
    assert_eq!(passed.virtual_seconds, Some(1.0));
    // Another configuration's elements are found by name, and new ones count in full.
    let mut other = before.clone();
    other.generation = 7;
    other.elements.retain(|element| element.name != "c");
    let passed = now.since(&other);
    assert_eq!(element(&passed, "q").dropped, 100);
    assert_eq!(element(&passed, "c").entered, element(&now, "c").entered);
}

#[test]
fn the_handler_gives_the_model_and_it_can_be_read_again() {
    let (mut engine, model) = engine("RatedSource(RATE 10) -> c :: Counter -> Discard;");
    let router = run_to(&mut engine, 2);
    let text = router.read("snapshot", b"").unwrap();
    let read: Snapshot = serde_json::from_slice(&text).unwrap();
    let taken = Snapshot { seconds: read.seconds, ..model.snapshot(&router) };
    let again = |snapshot: &Snapshot| serde_json::to_string(snapshot).unwrap();
    // The last digit of a mean may be lost in reading.
    let taken: Snapshot = serde_json::from_str(&again(&taken)).unwrap();
    assert_eq!(read, taken);
    assert_eq!(read.version, Snapshot::VERSION);
    assert!(router.read("snapshot", b"x").unwrap_err().to_string().contains("parameters"));
    assert!(router.write("snapshot", b"").unwrap_err().to_string().contains("read-only"));
    assert!(
        String::from_utf8(router.read("handlers", b"").unwrap()).unwrap().contains("snapshot\tr\n")
    );
    // Readers of another version find what both know.
    let older: Snapshot = serde_json::from_str(r#"{"version": 9, "new": [1], "pid": 3}"#).unwrap();
    assert_eq!((older.version, older.pid), (9, 3));
}

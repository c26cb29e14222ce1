//! Payloads of packets searched by the kernel on the host backend, through whole plans, against the engine of the CPU.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use millrace_core::{Context, Packet};
use millrace_gpu::batch::{Gather, Outcome};
use millrace_gpu::host::{Fast, Faults, Settings, Simulator};
use millrace_gpu::kernel::{Kernel, NONE};
use millrace_gpu::plan::{Decision, Edge, Limits, Node, Plan};
use millrace_gpu::region::{Base, Region, View};
use millrace_gpu::{
    Device, Poll, Results, Rows, SlotId, Snapshot, Stage, StageSpec, StageTable, Table,
};
use millrace_match::patterns::{Content, Dfa, Kind, Kinds, PatternSet, Rule, Scratch, Text};
use millrace_testkit::generate::frame::Frame;
use millrace_testkit::generate::payload::{NearMiss, Part, Place, http, noise, plant};
use millrace_testkit::generate::{patterns, trace};

const TEXT: Region = Region::to_end(Base::TransportPayload, 0);

/// A search that decides between no alert and an alert.
struct Search {
    engine: Dfa,
    lanes: u32,
}

impl Search {
    fn new(set: &PatternSet, lanes: u32) -> Arc<Self> {
        Arc::new(Self { engine: Dfa::new(set).unwrap(), lanes })
    }

    fn expected(&self, packet: &Packet) -> u32 {
        let bytes = View::of(packet, Base::TransportPayload).slice(&TEXT);
        let header = View::of(packet, Base::Network).slice(&Region::read(Base::Network, 0, 20));
        let kind = match (header.first().map(|byte| byte >> 4), header.get(9)) {
            (Some(4), Some(6)) => Kind::Tcp,
            (Some(4), Some(17)) => Kind::Udp,
            (Some(4), Some(1)) => Kind::Icmp,
            _ => Kind::Other,
        };
        self.engine.first(Text { bytes, kind }, &mut Scratch::default()).wrapping_sub(1)
    }
}

impl Stage for Search {
    fn name(&self) -> &str {
        "search"
    }

    fn spec(&self) -> StageSpec {
        StageSpec {
            kernel: Kernel::AhoCorasick,
            regions: vec![TEXT, Region::read(Base::Network, 0, 40)],
            // The protocol is that of slice 1.
            constants: [self.lanes, 1 + 1, 0, 0],
            table: true,
            outputs: 2,
        }
    }

    fn table(&self) -> Option<StageTable> {
        let words = Arc::new(self.engine.image().unwrap().words().to_vec());
        Some(StageTable { epoch: 0, words, changes: Arc::default(), snapshot: Snapshot::default() })
    }

    fn run(&self, _: &Snapshot, rows: &mut Rows<'_>) {
        unreachable!("the CPU does not run {} rows", rows.len())
    }

    fn deliver(&self, _: &mut Context, _: &Snapshot, _: &mut [Packet], _: &Results<'_>) {}
}

/// A set of rules of one or two contents, some of them for one protocol or without case.
fn set(patterns: &[Vec<u8>], rng: &mut Rng) -> PatternSet {
    let mut set = PatternSet::new();
    for pattern in patterns {
        let content = Content { nocase: rng.bool(), ..Content::of(pattern.clone()) };
        let mut rule = Rule::of(content);
        if rng.u8(0..4) == 0 {
            rule.contents.push(Content::of([rng.u8(b'a'..=b'z')]));
        }
        if rng.u8(0..4) == 0 {
            rule.kinds = Kinds::only(*rng.choice([Kind::Tcp, Kind::Udp].iter()).unwrap());
        }
        set.push(rule).unwrap();
    }
    set
}

/// Packets of all lengths, with and without patterns in them.
fn packets(patterns: &[Vec<u8>], rng: &mut Rng, count: usize) -> Vec<Packet> {
    let near = NearMiss::new(patterns, Part::Head);
    let packet = |_| {
        let length = if rng.bool() { rng.usize(0..1400) } else { rng.usize(0..40) };
        let mut payload = match rng.u8(0..3) {
            0 => http(rng, length),
            1 => noise(rng, length),
            _ => near.make(rng, length),
        };
        if rng.bool() {
            let place = *rng.choice([Place::First, Place::Last].iter()).unwrap();
            plant(&mut payload, rng.choice(patterns).unwrap(), place);
        }
        let header = trace::anything(rng);
        let mut frame = Frame::new(header, &payload);
        frame.options = rng.u8(0..3);
        Packet::from_bytes(&frame.bytes()).unwrap()
    };
    (0..count).map(packet).collect()
}

/// Two searches: the second one sees what the first one gave an alert for.
fn check(device: &Arc<dyn Device>, seed: u64, lanes: u32) {
    let mut rng = Rng::with_seed(seed);
    let patterns = patterns::made_up(300, seed);
    let (first, second) = patterns.split_at(200);
    let stages = [first, second].map(|patterns| Search::new(&set(patterns, &mut rng), lanes));
    let node =
        |stage: &Arc<Search>, from: Vec<Edge>| Node { stage: stage.clone(), from, only: None };
    let nodes = [node(&stages[0], vec![]), node(&stages[1], vec![Edge { node: 0, output: 1 }])];
    let plan = Arc::new(Plan::new(&nodes, Limits { packets: 700, payload: 1 << 20 }).unwrap());
    let tables: Vec<Table> = stages
        .iter()
        .filter_map(|stage| stage.table())
        .map(|table| device.load_table(&table.words).unwrap())
        .collect();
    wait(|| tables.iter().all(|table| table.is_resident().unwrap()));
    let mut lane = device.open_lane(&plan, 1).unwrap();
    for count in [1, 256, 300, 700] {
        let packets = packets(&patterns, &mut rng, count);
        let block = lane.block(SlotId(0)).unwrap();
        let mut gather = Gather::new();
        assert_eq!(gather.add(&plan, &packets, block), count);
        let ticket = lane.submit(SlotId(0), count, gather.payload(), &tables).unwrap();
        wait(|| lane.poll(ticket) != Poll::Pending);
        assert_eq!(lane.poll(ticket), Poll::Done);
        let mut outcome = Outcome::default();
        plan.collect(lane.block(SlotId(0)).unwrap(), count, &mut outcome);
        let mut alerts = 0;
        for (row, packet) in packets.iter().enumerate() {
            let expected = stages[0].expected(packet);
            let then = if expected == NONE { NONE } else { stages[1].expected(packet) };
            assert_eq!(
                [0, 1].map(|step| outcome.results(step)[row]),
                [expected, then],
                "row {row}"
            );
            let decided = |step: usize| {
                plan.steps[step].field.map(|field| field.decision(outcome.predicates()[row]))
            };
            let output = |found| Some(Decision::Output(u32::from(found != NONE)));
            assert_eq!(decided(0), output(expected));
            let behind = if expected == NONE { Some(Decision::Open) } else { output(then) };
            assert_eq!(decided(1), behind);
            alerts += usize::from(then != NONE);
        }
        assert!(
            count < 700 || alerts > 5,
            "{alerts} packets come to an alert of the second search"
        );
    }
}

fn wait(mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(30), "the device hangs");
        std::thread::yield_now();
    }
}

#[test]
fn fast_mode_finds_what_the_engine_finds() {
    for (seed, lanes) in [(1, 1), (2, 8)] {
        check(&Fast::open(""), seed, lanes);
    }
}

#[test]
fn the_simulator_finds_what_the_engine_finds() {
    let faults = Faults::none();
    let device = Simulator::new(Settings::default(), faults.clone()).open().unwrap();
    check(&device, 3, 4);
    assert_eq!(faults.violations(), Vec::<String>::new());
}

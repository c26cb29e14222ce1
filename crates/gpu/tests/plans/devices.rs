//! Whole plans on the host backend, with the real kernels: packets of all kinds in, packets out, against a walk.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fastrand::Rng;
use millrace_gpu::host::{Fast, Faults, Settings, Simulator};
use millrace_gpu::kernel::{CLASSIFY_REGIONS, Kernel};
use millrace_gpu::plan::Edge;
use millrace_gpu::region::{Access, Base, Region};
use millrace_gpu::{Device, DeviceLane, Poll, SlotId, Table};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::graphs::{Case, check_on};
use super::packets::shapes;
use super::stages::{Backend, Classes, Lookup, Search, TestStage, Work};

/// A device with the tables of [`lookups`], [`searches`] and [`classes`] on it.
struct Rig {
    device: Arc<dyn Device>,
    tables: HashMap<*const u32, Table>,
}

/// Some tables, built once.
fn lookups() -> &'static [Arc<Lookup>] {
    static LOOKUPS: OnceLock<Vec<Arc<Lookup>>> = OnceLock::new();
    LOOKUPS.get_or_init(|| {
        let mut rng = Rng::with_seed(6);
        let kinds = [
            (Kernel::Lpm4, 2),
            (Kernel::Lpm4, 4),
            (Kernel::Lpm6, 1),
            (Kernel::Lpm6, 3),
            (Kernel::Lpm6, 2),
        ];
        kinds.map(|(kernel, outputs)| Arc::new(Lookup::random(&mut rng, kernel, outputs))).into()
    })
}

/// Some pattern sets, built once.
fn searches() -> &'static [Arc<Search>] {
    static SEARCHES: OnceLock<Vec<Arc<Search>>> = OnceLock::new();
    SEARCHES.get_or_init(|| {
        let mut rng = Rng::with_seed(7);
        (0..3).map(|_| Arc::new(Search::random(&mut rng))).collect()
    })
}

/// Some rule sets, made once.
fn classes() -> &'static [Arc<Classes>] {
    static CLASSES: OnceLock<Vec<Arc<Classes>>> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let mut rng = Rng::with_seed(8);
        [2, 3, 5].map(|outputs| Arc::new(Classes::random(&mut rng, outputs))).into()
    })
}

impl Rig {
    fn new(device: Arc<dyn Device>) -> Self {
        let load = |words: &Arc<Vec<u32>>| {
            let table = device.load_table(words).unwrap();
            let start = Instant::now();
            while !table.is_resident().unwrap() {
                assert!(start.elapsed() < Duration::from_secs(60), "the table does not arrive");
                std::thread::yield_now();
            }
            (words.as_ptr(), table)
        };
        let words = lookups().iter().map(|lookup| &lookup.words);
        let words = words.chain(searches().iter().map(|search| &search.words));
        let words = words.chain(classes().iter().map(|classes| &classes.words));
        let tables = words.map(load).collect();
        Self { device, tables }
    }

    fn check(&self, case: &Case) -> Result<(), TestCaseError> {
        let plan = case.plan();
        prop_assume!(plan.is_some());
        let plan = Arc::new(plan.unwrap());
        let lane = self.device.open_lane(&plan, 1).unwrap();
        let table = |stage: &TestStage| Some(self.tables[&stage.work.words()?.as_ptr()].clone());
        let tables = case.stages.iter().filter_map(table).collect();
        let mut slot = Slot { lane, tables };
        slot.block().fill(0xee);
        check_on(case, &plan, &mut slot)?;
        // Once more over what the first batch left.
        check_on(case, &plan, &mut slot)
    }
}

/// A lane's only slot.
struct Slot {
    lane: Box<dyn DeviceLane>,
    tables: Vec<Table>,
}

impl Backend for Slot {
    fn block(&mut self) -> &mut [u8] {
        self.lane.block(SlotId(0)).expect("no batch is under way")
    }

    fn run(&mut self, rows: usize, payload: usize) {
        let ticket = self.lane.submit(SlotId(0), rows, payload, &self.tables).unwrap();
        let start = Instant::now();
        while self.lane.poll(ticket) == Poll::Pending {
            assert!(start.elapsed() < Duration::from_secs(60), "the batch hangs");
            std::thread::yield_now();
        }
        assert_eq!(self.lane.poll(ticket), Poll::Done);
    }
}

/// Stages that look addresses up, search payload and decide by that or not, and that turn bytes round.
fn stages() -> impl Strategy<Value = Vec<TestStage>> {
    let edge = (any::<Index>(), any::<Index>());
    let written = select(vec![
        Region::read(Base::Network, 16, 4),
        Region::read(Base::Network, 12, 8),
        Region::read(Base::Network, 1, 3),
        Region::read(Base::Transport, 0, 4),
        Region::read(Base::TransportPayload, -3, 29),
        Region::read(Base::Ethernet, 0, 12),
        Region::read(Base::Annotation, 2, 5),
    ]);
    let address = select(vec![
        (Base::Annotation, 0),
        (Base::Network, 8),
        (Base::Network, 12),
        (Base::Network, 16),
        (Base::Network, 24),
        (Base::NetworkPayload, 0),
        (Base::Ethernet, 30),
    ]);
    let work = (0..8u8, any::<Index>(), written, address, any::<bool>());
    let stage = (work, vec(edge.clone(), 0..3), proptest::option::weighted(0.2, edge));
    vec(stage, 1..7).prop_map(|drawn| {
        let mut stages: Vec<TestStage> = Vec::new();
        for ((kind, which, written, (base, offset), decides), from, only) in drawn {
            let pick = |(node, output): (Index, Index)| {
                let node = (!stages.is_empty()).then(|| node.index(stages.len()))?;
                let output = output.index(stages[node].outputs.max(1) as usize) as u32;
                Some(Edge { node, output })
            };
            let only = only.and_then(pick).filter(|edge| stages[edge.node].outputs > 0);
            let from = from.into_iter().filter_map(pick).collect();
            let search = &searches()[which.index(searches().len())];
            let lookup = &lookups()[which.index(lookups().len())];
            let classes = &classes()[which.index(classes().len())];
            let (work, regions, outputs) = match kind {
                1 | 2 => {
                    // From anywhere in the packet, that texts differ.
                    let region = Region::to_end(written.base.max(Base::Ethernet), offset - 12);
                    let threads = if kind == 1 { 1 } else { 8 };
                    let outputs = if decides { 2 } else { 0 };
                    (Work::Search(search.clone(), threads), vec![region], outputs)
                }
                0 => (Work::Invert, vec![written.with(Access::ReadWrite)], 0),
                3 | 4 => {
                    let outputs = if decides { classes.outputs } else { 0 };
                    (Work::Classify(classes.clone()), CLASSIFY_REGIONS.to_vec(), outputs)
                }
                _ => {
                    let region = Region::read(base, offset, lookup.bytes);
                    let outputs = if decides { lookup.outputs } else { 0 };
                    (Work::Lookup(lookup.clone()), vec![region], outputs)
                }
            };
            stages.push(TestStage { work, regions, outputs, from, only });
        }
        stages
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let rows = prop_oneof![4 => 1..20usize, 1 => select(vec![255, 256, 257, 511, 512])];
    let payload = select(vec![100, 2000, 1 << 18]);
    (stages(), vec(shapes(), 1..12), rows, 1..300usize, payload).prop_map(
        |(stages, shapes, rows, at_a_time, payload)| Case {
            stages,
            shapes,
            rows,
            at_a_time,
            payload,
        },
    )
}

fn check_many(device: Arc<dyn Device>, cases_wanted: u32) {
    let rig = Rig::new(device);
    let config =
        ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases_wanted) };
    TestRunner::new(config).run(&cases(), |case| rig.check(&case)).unwrap();
}

#[test]
fn fast_mode_gives_the_same_results_as_a_walk() {
    check_many(Fast::open(""), 128);
}

#[test]
fn the_simulator_gives_the_same_results_as_a_walk() {
    let faults = Faults::none();
    let device = Simulator::new(Settings::default(), faults.clone()).open().unwrap();
    check_many(device, 64);
    assert_eq!(faults.violations(), Vec::<String>::new());
}

/// A lookup that decides, two that invert on its ways, and one behind their meeting that sees what they wrote.
#[test]
fn a_kernel_reads_what_the_previous_one_wrote() {
    let destination = Region::read(Base::Network, 16, 4);
    let lookup = lookups().iter().find(|one| one.bytes == 4 && one.outputs == 2).unwrap();
    let stage = |work: Work, outputs, from: &[(usize, u32)], access| TestStage {
        work,
        regions: vec![destination.with(access)],
        outputs,
        from: from.iter().map(|&(node, output)| Edge { node, output }).collect(),
        only: None,
    };
    let stages = vec![
        stage(Work::Lookup(lookup.clone()), 2, &[], Access::Read),
        stage(Work::Invert, 0, &[(0, 0)], Access::ReadWrite),
        stage(Work::Invert, 0, &[(0, 1)], Access::ReadWrite),
        stage(Work::Lookup(lookup.clone()), 2, &[(1, 0), (2, 0)], Access::Read),
    ];
    let mut runner = TestRunner::deterministic();
    let shapes = vec(shapes(), 12).new_tree(&mut runner).unwrap().current();
    let rig = Rig::new(Fast::open(""));
    for rows in [1, 255, 256, 257, 512] {
        let (stages, shapes) = (stages.clone(), shapes.clone());
        rig.check(&Case { stages, shapes, rows, at_a_time: 256, payload: 0 }).unwrap();
    }
}

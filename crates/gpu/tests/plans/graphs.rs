//! Random graphs of stages over random packets: a plan on a device, and on the CPU, does what a walk through the graph does.

use std::sync::Arc;

use millrace_core::Packet;
use millrace_gpu::Stage;
use millrace_gpu::batch::{Gather, Outcome};
use millrace_gpu::plan::{Edge, Limits, Plan};
use millrace_gpu::region::{Access, Base, Extent, Region};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;

use super::packets::{Built, Shape, regions, shapes};
use super::stages::{Backend, Emulator, Fate, TestStage, Work, walk};

/// A batch, and the packets' fates.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) stages: Vec<TestStage>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) rows: usize,
    /// Most packets gathered at a time.
    pub(crate) at_a_time: usize,
    pub(crate) payload: usize,
}

fn stages(writes: bool) -> impl Strategy<Value = Vec<TestStage>> {
    let edge = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    let stage = (
        any::<u64>(),
        vec(regions(writes), 0..4),
        0..6u32,
        vec(edge.clone(), 0..4),
        proptest::option::weighted(0.2, edge),
    );
    vec(stage, 1..7).prop_map(|drawn| {
        let mut stages: Vec<TestStage> = Vec::new();
        for (seed, mut regions, outputs, from, only) in drawn {
            let mut ends = 0;
            regions.retain(|region| {
                ends += usize::from(region.extent == Extent::ToEnd);
                region.extent != Extent::ToEnd || ends == 1 && region.access == Access::Read
            });
            let pick = |(node, output): (prop::sample::Index, prop::sample::Index)| {
                let node = (!stages.is_empty()).then(|| node.index(stages.len()))?;
                let output = output.index(stages[node].outputs.max(1) as usize) as u32;
                Some(Edge { node, output })
            };
            let only = only.and_then(pick).filter(|edge| stages[edge.node].outputs > 0);
            let from = from.into_iter().filter_map(pick).collect();
            stages.push(TestStage { work: Work::Mix(seed), regions, outputs, from, only });
        }
        stages
    })
}

fn cases(writes: bool) -> impl Strategy<Value = Case> {
    let rows = prop_oneof![4 => 0..20usize, 1 => select(vec![255, 256, 257, 511, 512])];
    let payload = select(vec![64, 1000, 1 << 20]);
    (stages(writes), vec(shapes(), 1..12), rows, 1..300usize, payload).prop_map(
        |(stages, shapes, rows, at_a_time, payload)| Case {
            stages,
            shapes,
            rows,
            at_a_time,
            payload,
        },
    )
}

impl Case {
    pub(crate) fn plan(&self) -> Option<Plan> {
        let nodes: Vec<_> = self.stages.iter().map(TestStage::node).collect();
        Plan::new(&nodes, Limits { packets: 300, payload: self.payload }).ok()
    }

    fn packets(&self) -> Vec<Built> {
        let build = |row: usize| {
            let mut built = self.shapes[row % self.shapes.len()].build();
            built.packet.set_anno_u32(44, row as u32);
            built
        };
        (0..self.rows).map(build).collect()
    }
}

/// What became of each packet, by an outcome and the packets themselves.
fn fates(plan: &Plan, outcome: &Outcome, packets: &[Packet], built: &[Built]) -> Vec<Fate> {
    let fate = |(row, packet): (usize, &Packet)| Fate {
        results: (0..plan.steps.len()).map(|step| outcome.results(step)[row]).collect(),
        decisions: plan
            .steps
            .iter()
            .map(|step| step.field.map(|field| field.decision(outcome.predicates()[row])))
            .collect(),
        frame: built[row].frame_now(packet),
        annotations: packet.annotations().to_vec(),
    };
    packets.iter().enumerate().map(fate).collect()
}

/// Gathers as much as there is room for, and sees that it is not less.
fn gather(case: &Case, plan: &Plan, packets: &[Packet], block: &mut [u8]) -> Gather {
    let mut gather = Gather::new();
    for some in packets.chunks(case.at_a_time) {
        if gather.add(plan, some, block) < some.len() {
            break;
        }
    }
    if let Some(next) = packets.get(gather.rows()) {
        let room = plan.payload_bytes - gather.payload();
        let is_full = gather.rows() == plan.capacity;
        assert!(is_full || payload(plan, next) > room, "{gather:?} is full for no reason");
        assert!(gather.rows() > 0 || !plan.fits(next));
    }
    let all: usize = packets[..gather.rows()].iter().map(|packet| payload(plan, packet)).sum();
    assert_eq!(gather.payload(), all);
    gather
}

fn payload(plan: &Plan, packet: &Packet) -> usize {
    let view = millrace_gpu::region::View::of(packet, Base::TransportPayload);
    plan.payloads.iter().map(|one| view.slice(&one.region).len().next_multiple_of(16)).sum()
}

/// Every column holds what the stages asked for, and zeros where packets end.
fn check_columns(case: &Case, plan: &Plan, built: &[Built], block: &[u8]) {
    for (step, stage) in plan.steps.iter().zip(&case.stages) {
        for (index, region) in stage.regions.iter().enumerate() {
            let Extent::Bytes(bytes) = region.extent else { continue };
            let (column, valid) = (step.launch.input[index], step.launch.valid[index]);
            for (row, built) in built.iter().enumerate().filter(|_| region.access != Access::Write)
            {
                let bytes = usize::from(bytes);
                let found = &block[column.of(row)..][..bytes];
                assert_eq!(found, built.padded(region, bytes), "{region} of row {row}");
                if valid.stride > 0 {
                    let found = &block[valid.of(row)..][..2];
                    assert_eq!(found, (built.range(region).len() as u16).to_ne_bytes());
                }
                // As aligned as in the header.
                assert_eq!((column.of(row) as i32 - i32::from(region.offset)) % 4, 0);
            }
        }
    }
}

/// Runs a case on the emulated device and on the CPU, and compares both with a walk.
fn check(case: &Case) -> Result<(), TestCaseError> {
    let plan = case.plan();
    prop_assume!(plan.is_some());
    let plan = plan.unwrap();
    check_on(case, &plan, &mut Emulator::new(&case.stages, &plan))
}

pub(crate) fn check_on(
    case: &Case,
    plan: &Plan,
    backend: &mut dyn Backend,
) -> Result<(), TestCaseError> {
    let mut built = case.packets();
    let (mut packets, others) = shared(&built);
    let gathered = gather(case, plan, &packets, backend.block());
    let rows = gathered.rows();
    packets.truncate(rows);
    built.truncate(rows);
    check_columns(case, plan, &built, backend.block());

    let expected: Vec<Fate> = built.iter().map(|built| walk(&case.stages, built)).collect();
    if rows > 0 {
        backend.run(rows, gathered.payload());
    }
    let block = backend.block();
    let mut outcome = Outcome::default();
    plan.collect(block, rows, &mut outcome);
    let (front, back) = packets.split_at_mut(rows / 3);
    plan.scatter(block, 0, front);
    plan.scatter(block, rows / 3, back);
    prop_assert_eq!(&fates(plan, &outcome, &packets, &built), &expected, "on a device\n{}", plan);
    for (row, packet) in packets.iter().enumerate() {
        let changed = expected[row].frame != built[row].frame;
        prop_assert_eq!(packet.is_shared(), row % 3 == 0 && !changed, "row {}", row);
    }

    let (mut packets, more_others) = shared(&built);
    let stages: Vec<Arc<dyn Stage>> =
        case.stages.iter().map(|stage| Arc::new(stage.clone()) as Arc<dyn Stage>).collect();
    let snapshots: Vec<_> = stages.iter().map(|stage| stage.snapshot()).collect();
    let device_predicates = outcome.predicates().to_vec();
    outcome.clear(plan);
    let (front, back) = packets.split_at_mut(rows / 3);
    plan.run_on_cpu(&stages, &snapshots, front, &mut outcome);
    plan.run_on_cpu(&stages, &snapshots, back, &mut outcome);
    prop_assert_eq!(&fates(plan, &outcome, &packets, &built), &expected, "on the CPU\n{}", plan);
    prop_assert_eq!(outcome.predicates(), device_predicates);

    for (row, other) in others.iter().chain(&more_others) {
        let Some(built) = built.get(*row) else { continue };
        prop_assert_eq!(built.frame_now(other), &*built.frame, "another packet's bytes");
    }
    Ok(())
}

/// Copies of the packets, and for every third a packet that shares its bytes.
fn shared(built: &[Built]) -> (Vec<Packet>, Vec<(usize, Packet)>) {
    let packets: Vec<Packet> = built.iter().map(|built| built.packet.copy().unwrap()).collect();
    let third =
        |(row, packet): (usize, &Packet)| (row % 3 == 0).then(|| (row, packet.share().unwrap()));
    let others = packets.iter().enumerate().filter_map(third).collect();
    (packets, others)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn a_plan_gives_the_same_results_as_a_walk(case in cases(false)) {
        check(&case)?;
    }

    /// The same with stages that write.
    #[test]
    fn writing_stages_see_each_other(case in cases(true)) {
        check(&case)?;
    }
}

#[test]
fn every_packet_diverges() {
    let address = Region::read(Base::Network, 12, 8);
    let count = Region::read(Base::Annotation, 44, 4).with(Access::ReadWrite);
    let stage = |seed, outputs, from: &[(usize, u32)], regions: &[Region]| TestStage {
        work: Work::Mix(seed),
        regions: regions.to_vec(),
        outputs,
        from: from.iter().map(|&(node, output)| Edge { node, output }).collect(),
        only: None,
    };
    let stages = vec![
        stage(1, 3, &[], &[count]),
        stage(2, 2, &[(0, 0)], &[address, count]),
        stage(3, 2, &[(0, 1)], &[Region::to_end(Base::TransportPayload, 0)]),
        stage(4, 0, &[(0, 2), (1, 1)], &[count]),
        stage(5, 5, &[(1, 0), (2, 1), (3, 0)], &[address]),
        stage(6, 0, &[(4, 0), (4, 1), (4, 2), (4, 3), (4, 4), (2, 0)], &[count]),
    ];
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let some = vec(shapes(), 12).new_tree(&mut runner).unwrap().current();
    for rows in [0, 1, 255, 256, 257, 512] {
        let case = Case {
            stages: stages.clone(),
            shapes: some.clone(),
            rows,
            at_a_time: 256,
            payload: 1 << 20,
        };
        check(&case).unwrap();
    }
}

//! Stages for tests: what each does to a packet is a function of the bytes that it asked for.

use std::sync::Arc;

use millrace_core::{Context, Packet};
use millrace_gpu::kernel::{Column, DROP, Header, Kernel, NONE};
use millrace_gpu::plan::{Decision, Edge, Node, Plan};
use millrace_gpu::region::{Access, Base, Extent, Region};
use millrace_gpu::{Rows, Stage, StageSpec};

use super::packets::Built;

/// A stage whose kernel is [`Effect::of`].
#[derive(Clone, Debug)]
pub(crate) struct TestStage {
    pub(crate) seed: u64,
    pub(crate) regions: Vec<Region>,
    pub(crate) outputs: u32,
    pub(crate) from: Vec<Edge>,
    pub(crate) only: Option<Edge>,
}

/// What a stage does with a packet.
struct Effect {
    result: u32,
    decision: u32,
}

impl Effect {
    /// The effect of reading these slices.
    fn of<'a>(stage: &TestStage, slices: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut hash = stage.seed;
        for slice in slices {
            hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ slice.len() as u64;
            for &byte in slice {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash ^= hash >> 29;
        let choice = (hash >> 8) as u32 % (stage.outputs + 1);
        let decision = if choice == stage.outputs { DROP } else { choice };
        Self { result: hash as u32 >> 1, decision }
    }
}

/// What a stage makes of the bytes of a slice that it writes.
fn write(access: Access, bytes: &mut [u8]) {
    for (index, byte) in bytes.iter_mut().enumerate() {
        match access {
            Access::Read => {}
            Access::Write => *byte = index as u8 ^ 0xa5,
            Access::ReadWrite => *byte = !*byte,
        }
    }
}

impl TestStage {
    pub(crate) fn node(&self) -> Node {
        let stage: Arc<dyn Stage> = Arc::new(self.clone());
        Node { stage, from: self.from.clone(), only: self.only }
    }

    fn read(&self) -> impl Iterator<Item = &Region> {
        self.regions.iter().filter(|region| region.access != Access::Write)
    }
}

impl Stage for TestStage {
    fn name(&self) -> &str {
        "stage"
    }

    fn spec(&self) -> StageSpec {
        StageSpec {
            kernel: Kernel::Classify,
            regions: self.regions.clone(),
            constants: [0; 4],
            table: false,
            outputs: self.outputs,
        }
    }

    fn table(&self) -> Option<(u64, Arc<Vec<u32>>)> {
        None
    }

    fn run(&self, rows: &mut Rows<'_>) {
        for row in 0..rows.len() {
            if !rows.is_active(row) {
                continue;
            }
            let effect = Effect::of(self, self.read().map(|region| rows.slice(row, region)));
            for region in self.regions.iter().filter(|region| region.access.writes()) {
                write(region.access, rows.slice_mut(row, region));
            }
            rows.set_result(row, effect.result);
            if self.outputs > 0 {
                rows.decide(row, effect.decision);
            }
        }
    }

    fn deliver(&self, _: &mut Context, _: &mut [Packet], _: &[u32]) {}
}

/// What became of one packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) results: Vec<u32>,
    /// Of the stages that decide.
    pub(crate) decisions: Vec<Option<Decision>>,
    pub(crate) frame: Vec<u8>,
    pub(crate) annotations: Vec<u8>,
}

/// Walks a packet through the graph, knowing nothing of plans.
pub(crate) fn walk(stages: &[TestStage], built: &Built) -> Fate {
    let mut frame = built.frame.clone();
    let mut annotations = built.packet.annotations().to_vec();
    let mut results = Vec::new();
    let mut decisions = Vec::new();
    // The output by which the packet left each stage that it came to.
    let mut taken: Vec<Option<u32>> = Vec::new();
    for stage in stages {
        let came = stage.from.is_empty()
            || stage.from.iter().any(|edge| taken[edge.node] == Some(edge.output));
        let decided = |edge: Edge| decisions[edge.node] == Some(Decision::Output(edge.output));
        if !came || !stage.only.is_none_or(decided) {
            results.push(NONE);
            decisions.push((stage.outputs > 0).then_some(Decision::Open));
            taken.push(came.then_some(0));
            continue;
        }
        let slice = |region: &Region| match region.base {
            Base::Annotation => annotations[built.range(region)].to_vec(),
            _ => frame[built.range(region)].to_vec(),
        };
        let slices: Vec<Vec<u8>> = stage.read().map(slice).collect();
        let effect = Effect::of(stage, slices.iter().map(Vec::as_slice));
        for region in &stage.regions {
            let bytes = if region.base == Base::Annotation { &mut annotations } else { &mut frame };
            write(region.access, &mut bytes[built.range(region)]);
        }
        results.push(effect.result);
        let (decision, output) = match (stage.outputs, effect.decision) {
            (0, _) => (None, Some(0)),
            (_, DROP) => (Some(Decision::Drop), None),
            (_, output) => (Some(Decision::Output(output)), Some(output)),
        };
        decisions.push(decision);
        taken.push(output);
    }
    Fate { results, decisions, frame, annotations }
}

/// Runs a plan in a memory of its own that only sees what the plan copies, as a device does.
pub(crate) fn emulate(
    stages: &[TestStage],
    plan: &Plan,
    rows: usize,
    payload: usize,
    block: &mut [u8],
) {
    let mut device = vec![0xdd; plan.slot_bytes];
    block[..size_of::<Header>()].fill(0);
    let copies = plan.copies(rows, payload);
    for range in copies.to_device {
        device[range.clone()].copy_from_slice(&block[range]);
    }
    for (step, stage) in plan.steps.iter().zip(stages) {
        // Last row first: their order must not matter.
        for row in (0..rows).rev() {
            launch_row(stage, step, row, &mut device);
        }
    }
    for range in copies.to_host {
        block[range.clone()].copy_from_slice(&device[range]);
    }
}

fn launch_row(stage: &TestStage, step: &millrace_gpu::plan::Step, row: usize, device: &mut [u8]) {
    let launch = &step.launch;
    let word = |column: Column, device: &[u8]| {
        u32::from_ne_bytes(device[column.of(row)..][..4].try_into().unwrap())
    };
    let conditions = &launch.condition[..launch.conditions as usize];
    let mut predicate =
        if launch.predicate.stride == 0 { 0 } else { word(launch.predicate, device) };
    let treated = conditions.is_empty()
        || conditions.iter().any(|condition| predicate & condition.mask == condition.value);
    let result = launch.result.of(row);
    if !treated {
        device[result..][..4].copy_from_slice(&NONE.to_ne_bytes());
        return;
    }
    let place = |index: usize, region: &Region, device: &[u8]| match region.extent {
        Extent::ToEnd => {
            let at = (launch.payload + word(launch.offset, device)) as usize;
            assert_eq!(at % 16, 0);
            at..at + word(launch.length, device) as usize
        }
        Extent::Bytes(bytes) => {
            let valid = match launch.valid[index] {
                column if column.stride == 0 => bytes,
                column => u16::from_ne_bytes(device[column.of(row)..][..2].try_into().unwrap()),
            };
            let at = launch.input[index].of(row);
            at..at + usize::from(valid)
        }
    };
    let places: Vec<_> = stage
        .regions
        .iter()
        .enumerate()
        .map(|(index, region)| place(index, region, device))
        .collect();
    let read =
        stage.regions.iter().zip(&places).filter(|(region, _)| region.access != Access::Write);
    let effect = Effect::of(stage, read.map(|(_, place)| &device[place.clone()]));
    for (region, place) in stage.regions.iter().zip(places) {
        write(region.access, &mut device[place]);
    }
    device[result..][..4].copy_from_slice(&effect.result.to_ne_bytes());
    if stage.outputs > 0 {
        let field = match effect.decision {
            DROP => launch.field_mask,
            output => (output + 1) << launch.field_shift & launch.field_mask,
        };
        predicate = predicate & !launch.field_mask | field;
        let at = launch.predicate.of(row);
        device[at..][..4].copy_from_slice(&predicate.to_ne_bytes());
    }
}

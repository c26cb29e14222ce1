//! Stages for tests: what each does to a packet is a function of the bytes that it asked for.

use std::sync::Arc;

use fastrand::Rng;
use millrace_core::{Context, Packet};
use millrace_gpu::kernel::{Column, DROP, Header, Kernel, NONE};
use millrace_gpu::plan::{Decision, Edge, Node, Plan, Step};
use millrace_gpu::region::{Access, Base, Extent, Region};
use millrace_gpu::table::{Decisions, Lpm4, Lpm6, Route};
use millrace_gpu::{Results, Rows, Snapshot, Stage, StageSpec, StageTable};
use millrace_match::patterns::{Content, Image, Kind, PatternSet, Rule};
use millrace_match::rules::{self as classify, Action, Key, LiveRules, Masked, RuleSet};

use super::packets::Built;

/// A stage, and what it does to a packet.
#[derive(Clone, Debug)]
pub(crate) struct TestStage {
    pub(crate) work: Work,
    pub(crate) regions: Vec<Region>,
    pub(crate) outputs: u32,
    pub(crate) from: Vec<Edge>,
    pub(crate) only: Option<Edge>,
}

/// What a stage does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Mixes all bytes that it reads with a seed. There is no kernel for that.
    Mix(u64),
    /// What the kernel of that name does.
    Invert,
    /// What the kernels for longest prefix match do.
    Lookup(Arc<Lookup>),
    /// What the kernel that searches payload does, with so many threads for a text.
    Search(Arc<Search>, u32),
    /// What the classifier's kernel does.
    Classify(Arc<Classes>),
}

/// What a stage does with a packet.
pub(crate) struct Effect {
    result: u32,
    decision: u32,
}

impl Work {
    /// The effect of reading these slices.
    fn effect<'a>(&self, outputs: u32, mut slices: impl Iterator<Item = &'a [u8]>) -> Effect {
        match self {
            Self::Mix(seed) => mix(*seed, outputs, slices),
            Self::Invert => {
                Effect { result: slices.next().unwrap_or_default().len() as u32, decision: NONE }
            }
            Self::Lookup(lookup) => lookup.effect(slices.next().unwrap_or_default()),
            Self::Search(search, _) => search.effect(slices.next().unwrap_or_default()),
            Self::Classify(classes) => {
                let mut slice = || slices.next().unwrap_or_default();
                classes.effect(&Key::of_slices(slice(), slice(), slice(), slice()))
            }
        }
    }

    /// The kernel's table.
    pub(crate) fn words(&self) -> Option<&Arc<Vec<u32>>> {
        match self {
            Self::Mix(_) | Self::Invert => None,
            Self::Lookup(lookup) => Some(&lookup.words),
            Self::Search(search, _) => Some(&search.words),
            Self::Classify(classes) => Some(&classes.words),
        }
    }
}

/// Rules over seven fields, as they are and as the kernel's table.
#[derive(Debug)]
pub(crate) struct Classes {
    rules: RuleSet,
    miss: u32,
    pub(crate) outputs: u32,
    pub(crate) words: Arc<Vec<u32>>,
}

impl Classes {
    /// Rules of which many hold for packets of the builder.
    pub(crate) fn random(rng: &mut Rng, outputs: u32) -> Self {
        let decision = |rng: &mut Rng| match rng.u32(..=outputs) {
            output if output == outputs => Action::Drop,
            output => Action::Output(output as u16),
        };
        let rule = |rng: &mut Rng| {
            let mut rule = classify::Rule::any(decision(rng));
            let protocol = [6, 17, 1, 50][rng.usize(..4)];
            match rng.u8(..6) {
                0 => rule.protocol = Masked::new(protocol, 0xff),
                1 => rule.source = Masked::prefix(0x0a00_0000 + rng.u32(..4), rng.u8(29..=32)),
                2 => rule.destination = Masked::prefix(0x0a00_0000 + rng.u32(..4), rng.u8(29..=32)),
                3 => rule.source_ports = classify::Ports::new(0x8000, rng.u16(0x8000..)).unwrap(),
                4 => {
                    rule.ether_type = Masked::new([0x0800, 0x86dd, 0x0806][rng.usize(..3)], 0xffff)
                }
                _ => rule.ether_destination = Masked::new(rng.u64(..) & 0xff, rng.u64(..) & 0xff),
            }
            rule
        };
        let rules = RuleSet { rules: (0..rng.usize(1..9)).map(|_| rule(rng)).collect() };
        let miss = output_of(decision(rng));
        let words = Arc::new(LiveRules::new(rules.clone()).table(miss));
        Self { rules, miss, outputs, words }
    }

    fn effect(&self, key: &Key) -> Effect {
        match self.rules.first_match(key) {
            Some(rule) => {
                let decision = output_of(self.rules.rules[rule].action);
                Effect { result: rule as u32, decision }
            }
            None => Effect { result: NONE, decision: self.miss },
        }
    }
}

fn output_of(action: Action) -> u32 {
    match action {
        Action::Output(output) => output.into(),
        Action::Drop => DROP,
    }
}

/// Patterns, as they are and as the kernel's table.
#[derive(Debug)]
pub(crate) struct Search {
    patterns: Vec<Vec<u8>>,
    pub(crate) words: Arc<Vec<u32>>,
}

impl Search {
    /// Short patterns, of which some occur in random bytes.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let mut set = PatternSet::new();
        let pattern =
            |rng: &mut Rng| -> Vec<u8> { (0..rng.usize(1..3)).map(|_| rng.u8(..)).collect() };
        let patterns: Vec<_> = (0..rng.usize(1..20)).map(|_| pattern(rng)).collect();
        for pattern in &patterns {
            set.push(Rule::of(Content::of(pattern.clone()))).unwrap();
        }
        Self { patterns, words: Arc::new(Image::build(&set).unwrap().words().to_vec()) }
    }

    fn effect(&self, text: &[u8]) -> Effect {
        let occurs = |pattern: &Vec<u8>| text.windows(pattern.len()).any(|part| part == pattern);
        match self.patterns.iter().position(occurs) {
            Some(rule) => Effect { result: rule as u32, decision: 1 },
            None => Effect { result: NONE, decision: 0 },
        }
    }
}

fn mix<'a>(seed: u64, outputs: u32, slices: impl Iterator<Item = &'a [u8]>) -> Effect {
    let mut hash = seed;
    for slice in slices {
        hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ slice.len() as u64;
        for &byte in slice {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash ^= hash >> 29;
    let choice = (hash >> 8) as u32 % (outputs + 1);
    let decision = if choice == outputs { DROP } else { choice };
    Effect { result: hash as u32 >> 1, decision }
}

/// Routes, as a list and as the kernel's table.
pub(crate) struct Lookup {
    kernel: Kernel,
    /// Bytes of an address.
    pub(crate) bytes: u16,
    routes: Vec<Route<u128>>,
    pub(crate) outputs: u32,
    hops: Vec<u32>,
    miss: u32,
    pub(crate) words: Arc<Vec<u32>>,
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {:?} {}", self.kernel.name(), self.routes, self.hops, self.miss)
    }
}

impl Lookup {
    /// Random routes, many of them around the addresses in the packets.
    pub(crate) fn random(rng: &mut Rng, kernel: Kernel, outputs: u32) -> Self {
        let bytes: u16 = if kernel == Kernel::Lpm4 { 4 } else { 16 };
        let bits = bytes as u8 * 8;
        let random = rng.u128(..);
        let near = |rng: &mut Rng| match rng.u8(..6) {
            0 => random >> (128 - u32::from(bits)),
            _ if bits == 32 => 0x0a00_0000 + rng.u128(..4),
            // What the packets' builder counts up.
            _ => 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f + (rng.u128(..2) << 68),
        };
        let hops = rng.u32(1..6);
        let route = |rng: &mut Rng| Route {
            prefix: near(rng),
            length: rng.u8(..=bits),
            hop: rng.u32(..hops),
        };
        let routes: Vec<_> = (0..rng.usize(1..12)).map(|_| route(rng)).collect();
        let decision = |rng: &mut Rng| match rng.u32(..=outputs) {
            output if output == outputs => DROP,
            output => output,
        };
        let hops: Vec<u32> = (0..hops).map(|_| decision(rng)).collect();
        let miss = decision(rng);
        let decisions = Decisions { hops: &hops, miss };
        let words = if bits == 32 {
            let narrow = |route: &Route<u128>| Route {
                prefix: route.prefix as u32,
                length: route.length,
                hop: route.hop,
            };
            Lpm4::build(routes.iter().map(narrow), decisions).unwrap().words().clone()
        } else {
            Lpm6::build(routes.iter().copied(), decisions).unwrap().words().clone()
        };
        Self { kernel, bytes, routes, outputs, hops, miss, words }
    }

    fn effect(&self, address: &[u8]) -> Effect {
        let bits = u32::from(self.bytes) * 8;
        let whole = address.len() >= usize::from(self.bytes);
        let number = address.iter().fold(0, |sum, &byte| sum << 8 | u128::from(byte));
        let matches = |route: &&Route<u128>| {
            let rest = bits - u32::from(route.length);
            let cut = |number: u128| number.checked_shr(rest).unwrap_or(0);
            whole && cut(number) == cut(route.prefix)
        };
        // Of equal lengths the last one.
        match self.routes.iter().filter(matches).max_by_key(|route| route.length) {
            Some(route) => Effect { result: route.hop, decision: self.hops[route.hop as usize] },
            None => Effect { result: NONE, decision: self.miss },
        }
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

    fn effect<'a>(&self, slices: impl Iterator<Item = &'a [u8]>) -> Effect {
        self.work.effect(self.outputs, slices)
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
            kernel: match &self.work {
                Work::Mix(_) => Kernel::Classify,
                Work::Invert => Kernel::Invert,
                Work::Lookup(lookup) => lookup.kernel,
                Work::Search(..) => Kernel::AhoCorasick,
                Work::Classify(_) => Kernel::Classify,
            },
            regions: self.regions.clone(),
            constants: match self.work {
                Work::Search(_, threads) => [threads, 0, Kind::Other as u32, 0],
                _ => [0; 4],
            },
            table: self.work.words().is_some(),
            outputs: self.outputs,
        }
    }

    fn table(&self) -> Option<StageTable> {
        self.work.words().map(|words| StageTable {
            epoch: 0,
            words: words.clone(),
            changes: Arc::default(),
            snapshot: Snapshot::default(),
        })
    }

    fn run(&self, _: &Snapshot, rows: &mut Rows<'_>) {
        for row in 0..rows.len() {
            if !rows.is_active(row) {
                continue;
            }
            let effect = self.effect(self.read().map(|region| rows.slice(row, region)));
            for region in self.regions.iter().filter(|region| region.access.writes()) {
                write(region.access, rows.slice_mut(row, region));
            }
            rows.set_result(row, effect.result);
            if self.outputs > 0 {
                rows.decide(row, effect.decision);
            }
        }
    }

    fn deliver(&self, _: &mut Context, _: &Snapshot, _: &mut [Packet], _: &Results<'_>) {}
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
        let effect = stage.effect(slices.iter().map(Vec::as_slice));
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

/// What runs plans.
pub(crate) trait Backend {
    /// The memory of a slot, with whatever was in it.
    fn block(&mut self) -> &mut [u8];
    /// Runs the batch that lies in it.
    fn run(&mut self, rows: usize, payload: usize);
}

/// Runs plans in a memory of its own that only sees what they copy, as a device does.
pub(crate) struct Emulator<'a> {
    stages: &'a [TestStage],
    plan: &'a Plan,
    block: Vec<u8>,
}

impl<'a> Emulator<'a> {
    pub(crate) fn new(stages: &'a [TestStage], plan: &'a Plan) -> Self {
        Self { stages, plan, block: vec![0xee; plan.slot_bytes] }
    }
}

impl Backend for Emulator<'_> {
    fn block(&mut self) -> &mut [u8] {
        &mut self.block
    }

    fn run(&mut self, rows: usize, payload: usize) {
        let mut device = vec![0xdd; self.plan.slot_bytes];
        self.block[..size_of::<Header>()].fill(0);
        let copies = self.plan.copies(rows, payload);
        for range in copies.to_device {
            device[range.clone()].copy_from_slice(&self.block[range]);
        }
        for (step, stage) in self.plan.steps.iter().zip(self.stages) {
            // Last row first: their order must not matter.
            for row in (0..rows).rev() {
                launch_row(stage, step, row, &mut device);
            }
        }
        for range in copies.to_host {
            self.block[range.clone()].copy_from_slice(&device[range]);
        }
    }
}

fn launch_row(stage: &TestStage, step: &Step, row: usize, device: &mut [u8]) {
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
    let effect = stage.effect(read.map(|(_, place)| &device[place.clone()]));
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

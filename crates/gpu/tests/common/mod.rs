//! Random plans and batches, and what must come of them: one differential test for all devices.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use millrace_gpu::device::Old;
use millrace_gpu::host::Fast;
use millrace_gpu::kernel::{Column, Condition, Kernel, Launch, NONE, TILE};
use millrace_gpu::plan::{Area, Plan, Step};
use millrace_gpu::{Device, DeviceLane, Poll, SlotId, Table, Ticket};
use millrace_match::patterns::{Content, Image, Kind, PatternSet, Rule};

/// Where the areas of a plan begin: behind the header.
const AREAS: u32 = 192;

/// A plan, and where in it the tests find things.
pub(crate) struct Case {
    pub(crate) plan: Arc<Plan>,
    /// Slices that are inverted: their column, the column of valid bytes, and their width.
    slices: Vec<(Column, Column, usize)>,
    predicate: Column,
}

/// Lays columns into the tiles of an area.
struct Columns {
    area: Area,
    columns: Vec<(u32, u32)>,
}

impl Columns {
    fn new() -> Self {
        Self { area: Area::default(), columns: Vec::new() }
    }

    fn add(&mut self, bytes: u32) -> usize {
        self.columns.push((self.area.tile, bytes));
        self.area.tile += (bytes * TILE as u32).next_multiple_of(16);
        self.columns.len() - 1
    }

    /// The area begins here; where it ends.
    fn place(&mut self, at: u32, tiles: u32) -> u32 {
        self.area.at = at;
        (at + tiles * self.area.tile).next_multiple_of(16)
    }

    fn column(&self, index: usize) -> Column {
        let (at, stride) = self.columns[index];
        Column { at: self.area.at + at, tile: self.area.tile, stride }
    }
}

/// A plan of some `Invert` steps with conditions, and perhaps packed payload, which no step looks at.
pub(crate) fn random_case(rng: &mut Rng, payload: bool) -> Case {
    let tiles = rng.u32(1..=8);
    let (mut input, mut both, mut output) = (Columns::new(), Columns::new(), Columns::new());
    let slices = rng.usize(1..4);
    let widths: Vec<u32> = (0..slices).map(|_| rng.u32(1..40)).collect();
    let valid: Vec<usize> = widths.iter().map(|_| input.add(2)).collect();
    let predicate = both.add(4);
    let inverted: Vec<usize> = widths.iter().map(|width| both.add(*width)).collect();
    let steps = rng.usize(1..5);
    let results: Vec<usize> = (0..steps).map(|_| output.add(4)).collect();
    let mut end = AREAS;
    for area in [&mut input, &mut both, &mut output] {
        // Sometimes a hole between the areas, so that copies cannot be joined.
        end = area.place(end + rng.u32(0..2) * 1024, tiles);
    }
    let payload_bytes = if payload { rng.usize(1..20_000) } else { 0 };
    let steps = (0..steps).map(|index| {
        let slice = rng.usize(..slices);
        let mut launch = Launch {
            predicate: both.column(predicate),
            result: output.column(results[index]),
            payload: end,
            constants: [widths[slice], 0, 0, 0],
            conditions: rng.u32(0..3),
            ..Launch::default()
        };
        launch.input[0] = both.column(inverted[slice]);
        launch.valid[0] = input.column(valid[slice]);
        for condition in &mut launch.condition[..launch.conditions as usize] {
            *condition = Condition { mask: 3, value: rng.u32(0..4) };
        }
        Step { kernel: Kernel::Invert, launch, has_table: false, field: None }
    });
    let plan = Plan {
        capacity: tiles as usize * TILE,
        steps: steps.collect(),
        input: input.area,
        both: both.area,
        output: output.area,
        payload: Area { at: end, tile: 0 },
        slot_bytes: end as usize + payload_bytes,
        payload_bytes,
        ..Plan::default()
    };
    let slices = (0..slices).map(|index| {
        let valid = input.column(valid[index]);
        (both.column(inverted[index]), valid, widths[index] as usize)
    });
    Case { plan: Arc::new(plan), slices: slices.collect(), predicate: both.column(predicate) }
}

impl Case {
    /// Fills a slot, which begins with what the batch before left, and says what must be in it afterwards.
    pub(crate) fn fill(&self, rng: &mut Rng, block: &mut [u8], rows: usize) -> Vec<u8> {
        for byte in &mut block[AREAS as usize..] {
            *byte = rng.u8(..);
        }
        for row in 0..rows {
            put_word(block, self.predicate.of(row), rng.u32(0..4));
            for (_, valid, width) in &self.slices {
                let at = valid.of(row);
                block[at..at + 2].copy_from_slice(&rng.u16(..=*width as u16 + 2).to_ne_bytes());
            }
        }
        let mut expected = block.to_vec();
        for step in &self.plan.steps {
            self.naive(step, &mut expected, rows);
        }
        expected
    }

    fn naive(&self, step: &Step, block: &mut [u8], rows: usize) {
        let launch = &step.launch;
        let conditions = &launch.condition[..launch.conditions as usize];
        for row in 0..rows {
            let predicate = word(block, self.predicate.of(row));
            let holds = |c: &Condition| predicate & c.mask == c.value;
            let mut result = NONE;
            if conditions.is_empty() || conditions.iter().any(holds) {
                let at = launch.valid[0].of(row);
                let valid = u16::from_ne_bytes([block[at], block[at + 1]]) as usize;
                let bytes = valid.min(launch.constants[0] as usize);
                let at = launch.input[0].of(row);
                block[at..at + bytes].iter_mut().for_each(|byte| *byte ^= 0xff);
                result = bytes as u32;
            }
            put_word(block, launch.result.of(row), result);
        }
    }

    /// The rows' cells are as expected, and whatever is not copied back is as it was.
    pub(crate) fn check(&self, block: &[u8], expected: &[u8], rows: usize, what: &str) {
        for row in 0..rows {
            assert_eq!(word(block, self.predicate.of(row)), word(expected, self.predicate.of(row)));
            for (column, _, width) in &self.slices {
                let cell = column.of(row)..column.of(row) + width;
                assert_eq!(block[cell.clone()], expected[cell], "{what}: slice of row {row}");
            }
            for step in &self.plan.steps {
                let at = step.launch.result.of(row);
                assert_eq!(word(block, at), word(expected, at), "{what}: result of row {row}");
            }
        }
        let plan = &self.plan;
        let written = |area: &Area, rows: usize| -> Range<usize> {
            let at = area.at as usize;
            at..at + rows.div_ceil(TILE) * area.tile as usize
        };
        // A backend may copy more tiles than there are rows, up to the capacity; nothing but these areas.
        let (both, output) =
            (written(&plan.both, plan.capacity), written(&plan.output, plan.capacity));
        for at in AREAS as usize..plan.slot_bytes {
            if !both.contains(&at) && !output.contains(&at) {
                assert_eq!(block[at], expected[at], "{what}: byte {at} is the host's");
            }
        }
    }
}

pub(crate) fn word(block: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

pub(crate) fn put_word(block: &mut [u8], at: usize, word: u32) {
    block[at..at + 4].copy_from_slice(&word.to_ne_bytes());
}

/// Waits for a batch; a device that needs ten seconds hangs.
pub(crate) fn wait(lane: &mut dyn DeviceLane, ticket: Ticket) -> Poll {
    let start = Instant::now();
    loop {
        match lane.poll(ticket) {
            Poll::Pending if start.elapsed() < Duration::from_secs(60) => thread::yield_now(),
            end => return end,
        }
    }
}

pub(crate) fn wait_resident(table: &Table) {
    let start = Instant::now();
    while !table.is_resident().expect("the table arrives") {
        assert!(start.elapsed() < Duration::from_secs(60), "the table does not arrive");
        thread::yield_now();
    }
}

/// Runs a random plan on a device: two lanes, several batches under way in each, full and partial ones.
pub(crate) fn device_agrees_with_oracle(device: &Arc<dyn Device>, seed: u64, payload: bool) {
    let mut rng = Rng::with_seed(seed);
    let case = random_case(&mut rng, payload);
    let slots = rng.usize(1..4);
    let mut lanes: Vec<_> = (0..2).map(|_| device.open_lane(&case.plan, slots).unwrap()).collect();
    for round in 0..6 {
        let mut under_way = Vec::new();
        for (index, lane) in lanes.iter_mut().enumerate() {
            for slot in 0..lane.slots() {
                let full = rng.u8(0..3) == 0;
                let rows =
                    if full { case.plan.capacity } else { rng.usize(1..=case.plan.capacity) };
                let payload = rng.usize(..=case.plan.payload_bytes);
                let block = lane.block(SlotId(slot)).expect("the slot is free");
                let expected = case.fill(&mut rng, block, rows);
                let ticket = lane.submit(SlotId(slot), rows, payload, &[]).unwrap();
                under_way.push((index, slot, ticket, rows, expected));
            }
        }
        for (lane, slot, ticket, rows, expected) in under_way {
            let what = format!("seed {seed}, round {round}, lane {lane}, slot {slot}, {rows} rows");
            assert_eq!(wait(&mut *lanes[lane], ticket), Poll::Done, "{what}");
            let block = lanes[lane].block(SlotId(slot)).expect("the batch is done");
            case.check(block, &expected, rows, &what);
        }
    }
}

/// Runs a plan that searches packed payloads with several threads a row on a device, and in fast mode.
pub(crate) fn patterns_agree_with_fast_mode(device: &Arc<dyn Device>) {
    let mut rng = Rng::with_seed(11);
    let mut set = PatternSet::new();
    for word in ["needle", "hay", "aab", "b"] {
        set.push(Rule::of(Content::of(word))).unwrap();
    }
    let words = Arc::new(Image::build(&set).unwrap().words().to_vec());
    let (mut input, mut both, mut output) = (Columns::new(), Columns::new(), Columns::new());
    let (offset, length, predicate, result) =
        (input.add(4), input.add(4), both.add(4), output.add(4));
    let mut end = AREAS;
    for area in [&mut input, &mut both, &mut output] {
        end = area.place(end, 2);
    }
    for lanes in [1, 8, 32] {
        let launch = Launch {
            offset: input.column(offset),
            length: input.column(length),
            predicate: both.column(predicate),
            result: output.column(result),
            payload: end,
            constants: [lanes, 0, Kind::Other as u32, 0],
            ..Launch::default()
        };
        let plan = Arc::new(Plan {
            capacity: 2 * TILE,
            steps: vec![Step { kernel: Kernel::AhoCorasick, launch, has_table: true, field: None }],
            input: input.area,
            both: both.area,
            output: output.area,
            payload: Area { at: end, tile: 0 },
            slot_bytes: end as usize + (1 << 16),
            payload_bytes: 1 << 16,
            ..Plan::default()
        });
        let rows = rng.usize(1..=2 * TILE);
        let texts: Vec<Vec<u8>> = (0..rows)
            .map(|_| {
                let bytes = rng.usize(..100);
                (0..bytes).map(|_| *rng.choice(b"aabhyneedl".iter()).unwrap()).collect()
            })
            .collect();
        let results = [device, &Fast::open("")].map(|device| {
            let table = device.load_table(&words).unwrap();
            wait_resident(&table);
            let mut lane = device.open_lane(&plan, 1).unwrap();
            let block = lane.block(SlotId(0)).unwrap();
            let mut at = 0;
            for (row, text) in texts.iter().enumerate() {
                put_word(block, launch.offset.of(row), at as u32);
                put_word(block, launch.length.of(row), text.len() as u32);
                let from = end as usize + at;
                block[from..from + text.len()].copy_from_slice(text);
                at += text.len().next_multiple_of(16);
            }
            let ticket = lane.submit(SlotId(0), rows, at, &[table]).unwrap();
            assert_eq!(wait(&mut *lane, ticket), Poll::Done);
            let block = lane.block(SlotId(0)).unwrap();
            (0..rows).map(|row| word(block, launch.result.of(row))).collect::<Vec<_>>()
        });
        assert_eq!(results[0], results[1], "{lanes} threads a row");
        assert!(results[0].contains(&NONE) && results[0].iter().any(|result| *result != NONE));
    }
}

/// A plan that looks addresses up, and its table: every address below 65536 has the hop `hop`.
pub(crate) fn lookup_plan() -> (Arc<Plan>, Column, Column) {
    let (mut input, mut output) = (Columns::new(), Columns::new());
    let (address, result) = (input.add(4), output.add(4));
    let middle = input.place(AREAS, 4);
    let end = output.place(middle, 4);
    let mut launch = Launch { result: output.column(result), ..Launch::default() };
    launch.input[0] = input.column(address);
    let plan = Plan {
        capacity: 4 * TILE,
        steps: vec![Step { kernel: Kernel::Lpm4, launch, has_table: true, field: None }],
        input: input.area,
        output: output.area,
        slot_bytes: end as usize,
        ..Plan::default()
    };
    (Arc::new(plan), input.column(address), output.column(result))
}

/// As much of a table for `Kernel::Lpm4` as addresses below 65536 need (`kernels/lpm4.cu`): wide entries from word 16 on.
pub(crate) fn lookup_table(hop: u32) -> Arc<Vec<u32>> {
    let mut words = vec![0; 16];
    (words[2], words[6]) = (1, 16);
    words.extend([hop + 1; 256]);
    Arc::new(words)
}

/// Looks random addresses up and says which hops came out.
pub(crate) fn lookup(
    lane: &mut dyn DeviceLane,
    table: &Table,
    slot: usize,
    rng: &mut Rng,
) -> Ticket {
    let (plan, address, _) = lookup_plan();
    let block = lane.block(SlotId(slot)).expect("the slot is free");
    for row in 0..plan.capacity {
        let at = address.of(row);
        block[at..at + 4].copy_from_slice(&u32::from(rng.u16(..)).to_be_bytes());
    }
    lane.submit(SlotId(slot), plan.capacity, 0, std::slice::from_ref(table)).unwrap()
}

/// All results of a finished lookup are this hop.
pub(crate) fn check_lookup(lane: &mut dyn DeviceLane, slot: usize, hop: u32) {
    let (plan, _, result) = lookup_plan();
    let block = lane.block(SlotId(slot)).expect("the batch is done");
    for row in 0..plan.capacity {
        assert_eq!(word(block, result.of(row)), hop, "row {row}");
    }
}

/// A table that is made of another one is the same as one that is loaded whole, also while batches use the other one.
pub(crate) fn tables_are_made_of_others(device: &Arc<dyn Device>) {
    let mut rng = Rng::with_seed(8);
    let (plan, ..) = lookup_plan();
    let mut lane = device.open_lane(&plan, 1).unwrap();
    let mut words = lookup_table(0);
    let mut table = device.load_table(&words).unwrap();
    wait_resident(&table);
    for hop in 1..300 {
        let ticket = lookup(&mut *lane, &table, 0, &mut rng);
        let next = lookup_table(hop % 7);
        let differs = |&at: &usize| words.get(at) != next.get(at);
        // Where they differ, and sometimes more; together, or word by word.
        let mut changed: Vec<_> = (0..next.len()).filter(differs).map(|at| at..at + 1).collect();
        if rng.bool() {
            changed.push(0..rng.usize(1..next.len()));
        }
        let old = Old { table: &table, words: words.len(), changed: &changed };
        let made = device.load_changed(&next, old).unwrap();
        wait_resident(&made);
        assert_eq!(wait(&mut *lane, ticket), Poll::Done);
        check_lookup(&mut *lane, 0, (hop - 1) % 7);
        (words, table) = (next, made);
    }
}

/// Tables are loaded, used by batches that are under way when their owner lets go of them, and freed.
pub(crate) fn tables_live_as_long_as_their_batches(device: &Arc<dyn Device>) {
    let mut rng = Rng::with_seed(7);
    let (plan, ..) = lookup_plan();
    let mut lane = device.open_lane(&plan, 3).unwrap();
    let mut table = device.load_table(&lookup_table(0)).unwrap();
    wait_resident(&table);
    for hop in (0..60).step_by(3) {
        let mut tickets = Vec::new();
        for slot in 0..3 {
            tickets.push(lookup(&mut *lane, &table, slot, &mut rng));
            // The last one that knows the table outside of the batch.
            table = device.load_table(&lookup_table(hop + slot as u32 + 1)).unwrap();
            wait_resident(&table);
        }
        for (slot, ticket) in tickets.into_iter().enumerate() {
            assert_eq!(wait(&mut *lane, ticket), Poll::Done);
            check_lookup(&mut *lane, slot, hop + slot as u32);
        }
    }
}

/// What must not be submitted is refused, and the lane goes on.
pub(crate) fn refusals_leave_the_lane_as_it_was(device: &Arc<dyn Device>, other: &Arc<dyn Device>) {
    let mut rng = Rng::with_seed(8);
    let (plan, ..) = lookup_plan();
    let mut lane = device.open_lane(&plan, 1).unwrap();
    let (table, strange) =
        (device.load_table(&lookup_table(4)), other.load_table(&lookup_table(4)));
    let (table, strange) = (table.unwrap(), strange.unwrap());
    wait_resident(&table);
    wait_resident(&strange);
    let good = std::slice::from_ref(&table);
    assert!(lane.submit(SlotId(0), 0, 0, good).is_err(), "no rows");
    assert!(lane.submit(SlotId(0), plan.capacity + 1, 0, good).is_err(), "too many rows");
    assert!(lane.submit(SlotId(0), 1, 1, good).is_err(), "payload where there is none");
    assert!(lane.submit(SlotId(0), 1, 0, &[]).is_err(), "no table");
    assert!(lane.submit(SlotId(0), 1, 0, &[strange]).is_err(), "another device's table");
    assert!(lane.submit(SlotId(1), 1, 0, good).is_err(), "no such slot");
    assert!(lane.block(SlotId(1)).is_none());
    let ticket = lookup(&mut *lane, &table, 0, &mut rng);
    assert_eq!(wait(&mut *lane, ticket), Poll::Done);
    check_lookup(&mut *lane, 0, 4);
    assert_eq!(lane.poll(ticket), Poll::Done, "the same answer again");
    let mut spoilt = (*plan).clone();
    spoilt.steps[0].launch.result.at = spoilt.slot_bytes as u32 - 4;
    assert!(device.open_lane(&Arc::new(spoilt), 1).is_err(), "a column outside of the slot");
}

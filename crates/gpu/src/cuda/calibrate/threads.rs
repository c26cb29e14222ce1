//! Measures how many threads should share a text: runs the pattern kernel alone, on the same texts, with each number
//! of threads.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use millrace_match::patterns::{Content, Image, Kind, PatternSet, Rule};

use crate::device::{Device, DeviceError, DeviceLane, SlotId, Table};
use crate::kernel::{Column, Kernel, Launch, TILE};
use crate::plan::{Area, Plan, Step};

/// The numbers of threads that are measured.
const THREADS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// The number of batches that run at the same time, as in several lanes, and the number of repetitions.
const SLOTS: usize = 4;
const TIMES: u32 = 64;
/// The length of a text in bytes, and the distance between texts in the payload.
const TEXT: usize = 1400;
const STRIDE: usize = TEXT.next_multiple_of(16);
/// The offset of columns: after the header.
const COLUMNS: usize = 256;
const PATTERNS: usize = 1000;

/// Bits per second of texts that are searched, for each number of threads per text.
pub(super) fn measure(device: &dyn Device, texts: usize) -> Result<Vec<(u32, f64)>, DeviceError> {
    let mut rng = Rng::with_seed(1);
    let patterns: Vec<String> =
        (0..PATTERNS).map(|_| (0..rng.usize(6..14)).map(|_| rng.lowercase()).collect()).collect();
    let table = load(device, &patterns)?;
    // The texts consist of beginnings of patterns, so that the automaton is mostly away from its start state.
    let mut text = Vec::with_capacity(texts * STRIDE + TEXT);
    while text.len() < texts * STRIDE {
        let Some(pattern) = rng.choice(&patterns) else { break };
        text.extend_from_slice(&pattern.as_bytes()[..rng.usize(1..pattern.len())]);
    }
    text.truncate(texts * STRIDE);
    let rate = |threads: u32| {
        let plan = Arc::new(plan(texts, threads));
        let mut lane = device.open_lane(&plan, SLOTS)?;
        for slot in 0..SLOTS {
            fill(&mut *lane, SlotId(slot), &plan, &text)?;
        }
        let tables = std::slice::from_ref(&table);
        let took = lane.time_kernels(texts, text.len(), tables, TIMES)?;
        let bits = (SLOTS * texts * TEXT * 8) as f64 * f64::from(TIMES);
        Ok((threads, bits / took.as_secs_f64().max(1e-9)))
    };
    THREADS.into_iter().map(rate).collect()
}

fn load(device: &dyn Device, patterns: &[String]) -> Result<Table, DeviceError> {
    let why = |error: &dyn std::fmt::Display| DeviceError::Step(error.to_string());
    let mut set = PatternSet::new();
    for pattern in patterns {
        set.push(Rule::of(Content::of(pattern.as_str()))).map_err(|error| why(&error))?;
    }
    let image = Image::build(&set).map_err(|error| why(&error))?;
    let table = device.load_table(&Arc::new(image.words().to_vec()))?;
    let start = Instant::now();
    while !table.is_resident()? {
        if start.elapsed() > Duration::from_secs(10) {
            return Err(DeviceError::Step("a table takes 10 s".to_owned()));
        }
        thread::sleep(Duration::from_micros(100));
    }
    Ok(table)
}

/// One launch of the kernel with columns of four bytes: offsets, lengths, predicates, results.
fn plan(texts: usize, threads: u32) -> Plan {
    let tiles = texts.div_ceil(TILE);
    let column = |number: usize| {
        let at = COLUMNS + number * tiles * 4 * TILE;
        Column { at: at as u32, tile: 4 * TILE as u32, stride: 4 }
    };
    let [offset, length, predicate, result, end] = [0, 1, 2, 3, 4].map(column);
    let launch = Launch {
        offset,
        length,
        predicate,
        result,
        payload: end.at,
        constants: [threads, 0, Kind::Other as u32, 0],
        ..Launch::default()
    };
    let area = |column: Column, tile: u32| Area { at: column.at, tile };
    // The tiles of offsets and those of lengths are copied together.
    Plan {
        capacity: tiles * TILE,
        steps: vec![Step { kernel: Kernel::AhoCorasick, launch, has_table: true, field: None }],
        input: area(offset, 2 * offset.tile),
        both: area(predicate, predicate.tile),
        output: area(result, result.tile),
        payload: Area { at: end.at, tile: 0 },
        slot_bytes: end.at as usize + texts * STRIDE,
        payload_bytes: texts * STRIDE,
        ..Plan::default()
    }
}

fn fill(
    lane: &mut dyn DeviceLane,
    slot: SlotId,
    plan: &Plan,
    text: &[u8],
) -> Result<(), DeviceError> {
    let none = || DeviceError::Step("a new lane has no free slot".to_owned());
    let block = lane.block(slot).ok_or_else(none)?;
    let step = plan.steps.first().ok_or_else(none)?;
    for row in 0..text.len() / STRIDE {
        for (column, value) in [(step.launch.offset, row * STRIDE), (step.launch.length, TEXT)] {
            let at = column.of(row);
            block[at..at + 4].copy_from_slice(&(value as u32).to_ne_bytes());
        }
    }
    block[plan.payload.at as usize..][..text.len()].copy_from_slice(text);
    Ok(())
}

//! Runs the embedded PTX without a GPU: an interpreter for the part of PTX that the kernels use, and for its memory.
//!
//! It checks that the CUDA form of a kernel does the same as the host form, which other tests check. So it tests the
//! macros of `millrace.h` that differ (threads of blocks, loads through the read-only cache, the exchange between the
//! threads of a warp), and the translation by NVIDIA's compiler. [`Batch::run`](super::Batch::run) runs it for every
//! batch.
//!
//! It is stricter than a GPU. It rejects
//!
//! * loads and stores outside of what a [row](super::case) may access, byte by byte, and unaligned ones;
//! * an access to a byte that another thread has written, or a write to one that another thread has read, unless both
//!   threads are of one warp and a `bar.warp.sync` is between the accesses;
//! * loads through the read-only cache of bytes that the launch writes;
//! * an exchange without all threads of the warp;
//! * unknown instructions.
//!
//! It does not test what a driver's compiler makes of the PTX, nor the speed. Section numbers are those of NVIDIA's
//! "Parallel Thread Execution ISA", version 8.0.

mod machine;
mod memory;
mod parse;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::OnceLock;

use fastrand::Rng;
use zerocopy::IntoBytes;

use super::case::{Case, Owner};
use crate::kernel::{Kernel, Launch, TILE};
use memory::Memory;
use parse::Program;

/// The number of instructions per case. Blocks beyond it are skipped, because tests make thousands of cases and run
/// unoptimised.
const BUDGET: u64 = 60_000;

fn program(kernel: Kernel) -> &'static Program {
    static PROGRAMS: [OnceLock<Program>; Kernel::ALL.len()] =
        [const { OnceLock::new() }; Kernel::ALL.len()];
    PROGRAMS[kernel as usize].get_or_init(|| match Program::parse(kernel.ptx()) {
        Ok(program) => program,
        Err(error) => panic!("kernels/ptx/{}.ptx: {error}", kernel.name()),
    })
}

/// Runs the PTX of a case, and compares the result with that of the host form.
pub(crate) fn check(case: &Case<'_>, rng: &mut Rng) {
    let result = run(case, rng).and_then(|(slot, rows)| compare(case, &slot, &rows));
    if let Err(error) = result {
        panic!("kernels/ptx/{}.ptx, {} rows: {error}", case.kernel.name(), case.rows());
    }
}

/// Runs blocks in random order: the last one with rows, and others as far as the budget permits. Grids have the size
/// of the plan's buckets, so there may be blocks without rows. Returns the slot and the rows of the blocks.
pub(crate) fn run(case: &Case<'_>, rng: &mut Rng) -> Result<(Vec<u8>, Vec<Range<usize>>), String> {
    let lanes = case.kernel.lanes(&case.launch);
    let used = case.kernel.blocks(&case.launch, case.rows());
    let mut blocks: Vec<usize> = (0..=used).filter(|&block| block + 1 != used).collect();
    rng.shuffle(&mut blocks);
    blocks.extend(used.checked_sub(1));

    let program = program(case.kernel);
    let mut memory = Memory::new(case, lanes as u32);
    if program.parameters != memory.parameters() {
        return Err(format!("{} bytes of parameters", program.parameters));
    }
    let (mut left, mut rows) = (BUDGET, Vec::new());
    while left > 0
        && let Some(block) = blocks.pop()
    {
        let busy = (case.rows() * lanes).saturating_sub(block * TILE);
        let steps = machine::run_block(program, block as u32, busy, &mut memory, rng)?;
        left = left.saturating_sub(steps);
        rows.push(block * TILE / lanes..(block + 1) * TILE / lanes);
    }
    Ok((memory.slot().to_vec(), rows))
}

/// Checks that the slot is equal to the host's in the rows that were run, and unchanged elsewhere.
fn compare(case: &Case<'_>, slot: &[u8], rows: &[Range<usize>]) -> Result<(), String> {
    let table = case.table_at()..case.table_at() + 8;
    for (at, grant) in case.grants.iter().enumerate() {
        let is_run = match grant.owner {
            Owner::Row(row) => rows.iter().any(|rows| rows.contains(&(row as usize))),
            _ => false,
        };
        let expected = if is_run { case.after[at] } else { case.before[at] };
        if slot[at] != expected && !table.contains(&at) {
            let owner = grant.owner;
            return Err(format!("byte {at}, of {owner:?}, is {} and not {expected}", slot[at]));
        }
    }
    Ok(())
}

/// The parameters of a kernel: the launch, and the address of the slot.
fn parameters(launch: &Launch, slot: u64) -> Vec<u8> {
    let mut bytes = launch.as_bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&slot.to_ne_bytes());
    bytes
}

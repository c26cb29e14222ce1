//! What an input may take: processor time of its thread, and memory.

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use rustix::time::{ClockId, clock_gettime};

/// Asks the system for memory that is zero where zeros are wanted: to write them would take most of the time.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// An input has a limit for each piece of so many bytes that it begins.
const PIECE: usize = 100_000;

/// Processor time that a piece may take; ten times as much in the test, whose code is not optimised. Another program that
/// uses the machine does not count.
const TIME: Duration = Duration::from_secs(if cfg!(feature = "libfuzzer") { 1 } else { 10 });

/// Memory, in bytes, that may be allocated at a time for a piece, above what was before.
const BYTES: usize = 256 << 20;

/// Runs a target on an input. Who asks for more memory than the input may take gets none, which ends the process unless he
/// was prepared.
///
/// # Panics
/// If the target does, or if it takes more time than the input may.
pub fn judge(run: impl FnOnce(&[u8]), input: &[u8]) {
    let pieces = input.len().div_ceil(PIECE).max(1);
    let _limit = Limit::new(BYTES * pieces);
    let began = processor_time();
    run(input);
    let took = processor_time().saturating_sub(began);
    assert!(took <= TIME * pieces as u32, "too long: {took:?} for {} bytes", input.len());
}

/// So much memory there is, until this is dropped.
struct Limit;

impl Limit {
    fn new(bytes: usize) -> Self {
        // More than is allocated, so it does not fail.
        let _ = MEMORY.set_limit(MEMORY.allocated().saturating_add(bytes));
        Self
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = MEMORY.set_limit(usize::MAX);
    }
}

/// The time that the calling thread has used a processor for.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

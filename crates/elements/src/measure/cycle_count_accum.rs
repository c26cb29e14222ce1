//! CycleCountAccum - adds up the CPU cycles that packets took since SetCycleCount
//!
//! # Synopsis
//! `CycleCountAccum`
//!
//! # Description
//! Subtracts the PERFCTR annotation of each packet, which SetCycleCount sets, from the current value of the time stamp
//! counter, and adds up the differences. Packets with an annotation of 0 are counted separately.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `count` (read): packets with the annotation.
//! - `cycles` (read): the total number of cycles that they took.
//! - `zero_count` (read): packets without it.
//! - `reset_counts` (write): sets all counts to 0.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> SetCycleCount -> Null -> c :: CycleCountAccum -> Discard;
//! DriverManager(wait_time 1s, print c.cycles, stop);
//! ```
//!
//! # See also
//! SetCycleCount, TimestampAccum

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, Handlers, PerThread, Setup, cycles, register,
};

/// The element; its manual is at the top of the file.
#[derive(Default)]
pub struct CycleCountAccum {
    count: PerThread<Count>,
    cycles: PerThread<Count>,
    zero: PerThread<Count>,
    /// The three at the last reset.
    origin: [AtomicU64; 3],
}

register!(CycleCountAccum, "cycle_count_accum.rs");

impl Element for CycleCountAccum {
    const CLASS: Class = Class::new("CycleCountAccum", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self::default())
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        for packet in batch.iter() {
            match packet.perfctr() {
                0 => self.zero.mine(cx).add(1),
                before => {
                    self.count.mine(cx).add(1);
                    self.cycles.mine(cx).add(cycles::now().wrapping_sub(before));
                }
            }
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        for (at, name) in ["count", "cycles", "zero_count"].into_iter().enumerate() {
            handlers.read(name, move |accum, _| {
                accum.totals()[at].wrapping_sub(accum.origin[at].load(Relaxed))
            });
        }
        handlers.write("reset_counts", |accum, _| {
            for (origin, total) in accum.origin.iter().zip(accum.totals()) {
                origin.store(total, Relaxed);
            }
            Ok(())
        });
    }
}

impl CycleCountAccum {
    fn totals(&self) -> [u64; 3] {
        [self.count.total(), self.cycles.total(), self.zero.total()]
    }
}

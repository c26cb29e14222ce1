//! SetCycleCount - writes the CPU cycle counter into each packet's PERFCTR annotation
//!
//! # Synopsis
//! `SetCycleCount`
//!
//! # Description
//! Writes the value of the time stamp counter into the PERFCTR annotation of each packet.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> SetCycleCount -> Null -> c :: CycleCountAccum -> Discard;
//! ```
//!
//! # See also
//! CycleCountAccum

use millrace_core::{Batch, Class, Context, Element, Failed, Setup, cycles, register};

/// The element; its manual is at the top of the file.
pub struct SetCycleCount;

register!(SetCycleCount, "set_cycle_count.rs");

impl Element for SetCycleCount {
    const CLASS: Class = Class::new("SetCycleCount", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn process(&self, _: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.for_each(|packet| packet.set_perfctr(cycles::now()));
    }
}

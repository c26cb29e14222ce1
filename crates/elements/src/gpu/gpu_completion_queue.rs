//! GPUCompletionQueue - holds the batches of a GPU section in order until they are done
//!
//! # Synopsis
//! `GPUCompletionQueue([LENGTH])`
//!
//! # Description
//! Holds the unfinished batches of a GPU section, in one queue per thread. A batch leaves when it and all batches
//! before it are done, whether by the device or by the CPU, so packets that arrived on one thread are never reordered.
//! When LENGTH batches of a thread are unfinished, further packets wait in the Batcher.
//!
//! GPUCompletionQueue is optional: a section without one behaves as if it had one without arguments.
//!
//! # Arguments
//! - LENGTH: maximum number of a thread's unfinished batches, 1 to 64. Default: twice SLOTS of the Batcher. Positional.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `length` (read): the number of unfinished batches.
//! - `capacity` (read): LENGTH.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 401174d6 01000001 02000002>, LIMIT 1000)
//!     -> GetIPAddress(16)
//!     -> Batcher(256)
//!     -> HostToDeviceMemcpy
//!     -> GPUIPLookup(2.0.0.0/8 1.0.0.254 0)
//!     -> DeviceToHostMemcpy
//!     -> GPUCompletionQueue(LENGTH 4)
//!     -> Debatcher
//!     -> Discard;
//! ```
//!
//! # See also
//! Batcher, Debatcher

use millrace_core::args::Kind;
use millrace_core::{Class, Element, Failed, Handlers, Inspection, Setup, register};

use super::section::book::Member;
use super::section::role::Role;

/// The element; its manual is at the top of the file.
pub struct GpuCompletionQueue(Member);

register!(GpuCompletionQueue, "gpu_completion_queue.rs");

impl Element for GpuCompletionQueue {
    const CLASS: Class = Class::new("GPUCompletionQueue", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let length = setup.args.in_range("LENGTH", Kind::Positional, 1..=64u32);
        setup.args.complete()?;
        let role = Role::CompletionQueue(length.map(|length| length as usize));
        Ok(Self(Member::enter(setup, role)))
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.0.inspect(inspection);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("length", |queue, _| {
            let unit = queue.0.unit();
            unit.map_or(0, |unit| unit.section.report().under_way)
        });
        handlers.read("capacity", |queue, _| {
            let unit = queue.0.unit();
            unit.map_or(0, |unit| unit.section.settings().length)
        });
    }
}

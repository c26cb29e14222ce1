//! Launches of kernels on the processor.

#![allow(unsafe_code, reason = "the kernels are C")]

use crate::kernel::{HostFunction, Launch};
use crate::plan::Plan;

/// A step of a plan, ready to run.
pub(crate) struct HostLaunch {
    function: HostFunction,
    launch: Launch,
    /// The kernel's name, for messages.
    pub(crate) name: &'static str,
}

/// The steps of a plan in order, with one thread per row, because the host has no threads to share a row.
pub(crate) fn compile_alone(plan: &Plan) -> Vec<HostLaunch> {
    let mut program = compile(plan);
    for (step, launch) in plan.steps.iter().zip(&mut program) {
        launch.launch = step.kernel.alone(launch.launch);
    }
    program
}

/// The steps of a plan in their order. The plan [was checked](crate::device::slot::check_plan).
pub(crate) fn compile(plan: &Plan) -> Vec<HostLaunch> {
    let steps = plan.steps.iter();
    steps
        .map(|step| HostLaunch {
            function: step.kernel.host_function(),
            launch: step.launch,
            name: step.kernel.name(),
        })
        .collect()
}

impl HostLaunch {
    /// Processes `rows` rows from `first` on, of the batch whose header is at the start of `slot`.
    ///
    /// `slot` is [as long as](crate::device::slot::memory_of) the checked plan needs.
    pub(crate) fn run(&self, slot: &mut [u8], first: usize, rows: usize) {
        debug_assert!(slot.as_ptr().addr().is_multiple_of(16));
        // SAFETY: `check_plan` found all columns of all rows within the slot, `check_batch` found rows, payload and tables
        // within what the plan allows and alive, and kernels believe offsets of payload only as far as the header's
        // `payload`. `slot` is borrowed alone, and tables are not written while a batch that uses them is under way.
        unsafe {
            (self.function)(&raw const self.launch, slot.as_mut_ptr(), first as u32, rows as u32);
        }
    }

    /// A launch of a function instead of a kernel, for tests of wrong kernels.
    #[cfg(test)]
    pub(crate) fn of(function: HostFunction) -> Self {
        Self { function, launch: Launch::default(), name: "bad" }
    }
}

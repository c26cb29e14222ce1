//! The destination of a step, in the form that runs.

use super::insn::Jump;

/// The classification result for a packet without an output.
pub const DROP: usize = usize::MAX;

/// A step by its number, or an output with the highest bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Next(u32);

impl Next {
    const END: u32 = 1 << 31;
    const DROP: u32 = u32::MAX;

    pub(super) fn new(jump: Jump) -> Self {
        match jump {
            Jump::Step(step) => Next(step & !Self::END),
            Jump::Output(port) => Next(port | Self::END),
            Jump::Drop | Jump::Failure | Jump::Success => Next(Self::DROP),
        }
    }

    /// The number of the next step, if there is one.
    #[inline(always)]
    pub(super) fn step(self) -> Option<usize> {
        (self.0 & Self::END == 0).then_some(self.0 as usize)
    }

    /// The output, if there is no next step.
    #[inline(always)]
    pub(super) fn output(self) -> usize {
        if self.0 == Self::DROP { DROP } else { (self.0 & !Self::END) as usize }
    }
}

/// The numbers that stand for "no output" when a batch is classified: ports that no element has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Otherwise {
    /// For packets that match nothing, or match a rule that drops them.
    pub dropped: u16,
    /// For packets without the sections that are tested.
    pub no_sections: u16,
}

impl Otherwise {
    /// The port for a classification result.
    #[inline(always)]
    pub(super) fn port(self, output: usize) -> u16 {
        if output == DROP { self.dropped } else { u16::try_from(output).unwrap_or(u16::MAX) }
    }
}

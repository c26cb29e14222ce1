//! The common data of all figures.

use millrace_elements::ip::lookup::Route;

use crate::cycles::{Length, Trace, Turns};
use crate::machine::Machine;

/// The number of routes in tables: enough to fill the first-level cache, and few enough to be loaded quickly.
pub(super) const ROUTES: usize = 10_000;

/// What every figure is made on.
pub(super) struct Bench {
    pub(super) machine: Machine,
    pub(super) core: usize,
    pub(super) rounds: u32,
    pub(super) length: Length,
    /// The routes in tables of fixed size.
    pub(super) routes: Vec<Route>,
    pub(super) trace: Trace,
    /// True for a quick test that the figures can be made: two values of each parameter, and no other processes.
    pub(super) brief: bool,
}

impl Bench {
    pub(super) fn turns(&self) -> Turns {
        let Self { rounds, length, core, ref trace, .. } = *self;
        Turns { rounds, length, core, trace: trace.clone() }
    }

    /// The values of a parameter: all, or the first two in a quick test.
    pub(super) fn values<T: Copy>(&self, all: &[T]) -> Vec<T> {
        let count = if self.brief { 2 } else { all.len() };
        all.iter().copied().take(count).collect()
    }

    /// Millions of packets per second at this number of cycles per packet.
    pub(super) fn mpps(&self, cycles: f64) -> f64 {
        self.machine.hertz / cycles / 1e6
    }
}

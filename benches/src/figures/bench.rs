//! What every figure is made on.

use millrace_elements::ip::lookup::Route;

use crate::cycles::{Length, Trace, Turns};
use crate::machine::Machine;

/// Routes in tables: as many as keep the first cache busy and are filled in no time.
pub(super) const ROUTES: usize = 10_000;

/// What every figure is made on.
pub(super) struct Bench {
    pub(super) machine: Machine,
    pub(super) core: usize,
    pub(super) rounds: u32,
    pub(super) length: Length,
    /// The routes in tables that do not change their size.
    pub(super) routes: Vec<Route>,
    pub(super) trace: Trace,
    /// Whether to do no more than shows that the figures can be made: two values of what varies, and no
    /// processes beside this one.
    pub(super) brief: bool,
}

impl Bench {
    pub(super) fn turns(&self) -> Turns {
        let Self { rounds, length, core, ref trace, .. } = *self;
        Turns { rounds, length, core, trace: trace.clone() }
    }

    /// The values of what varies: all, or in brief the first two.
    pub(super) fn values<T: Copy>(&self, all: &[T]) -> Vec<T> {
        let count = if self.brief { 2 } else { all.len() };
        all.iter().copied().take(count).collect()
    }

    /// Millions of packets a second that take so many cycles each.
    pub(super) fn mpps(&self, cycles: f64) -> f64 {
        self.machine.hertz / cycles / 1e6
    }
}

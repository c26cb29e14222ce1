//! How a router ends.

use crate::sync::atomic::{AtomicU8, Ordering};

/// How far the end of a router has come. It goes on to later phases only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Tasks and timers run.
    Running,
    /// Tasks and timers run, but no thread waits in the middle of its work. The first thread asks the element that
    /// drives the router ([`stop_requested`](crate::Element::stop_requested)) until that lets it stop.
    Ending,
    /// No task and no timer runs any more. Elements finish the packets that they have under way
    /// ([`drain`](crate::Element::drain)), and these go on through the graph.
    Draining,
    /// The threads end their round. Packets stay where they are.
    Halted,
}

/// The phases that a router has entered, a bit each.
#[derive(Debug, Default)]
pub(crate) struct Phases(AtomicU8);

impl Phase {
    const fn bit(self) -> u8 {
        match self {
            Self::Running => 0,
            Self::Ending => 1,
            Self::Draining => 2,
            Self::Halted => 4,
        }
    }
}

impl Phases {
    /// Enters a phase; false if it was entered before.
    pub(crate) fn enter(&self, phase: Phase) -> bool {
        self.0.fetch_or(phase.bit(), Ordering::SeqCst) & phase.bit() == 0
    }

    /// The latest phase that was entered.
    #[inline]
    pub(crate) fn latest(&self) -> Phase {
        match self.0.load(Ordering::Relaxed) {
            0 => Phase::Running,
            1 => Phase::Ending,
            2 | 3 => Phase::Draining,
            _ => Phase::Halted,
        }
    }

    /// Whether a phase was entered, whatever followed.
    pub(crate) fn has_entered(&self, phase: Phase) -> bool {
        self.0.load(Ordering::SeqCst) & phase.bit() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_does_not_go_back_to_an_earlier_phase() {
        let phases = Phases::default();
        assert_eq!(phases.latest(), Phase::Running);
        assert!(phases.enter(Phase::Draining));
        assert!(phases.enter(Phase::Ending) && !phases.enter(Phase::Ending));
        assert_eq!(phases.latest(), Phase::Draining);
        phases.enter(Phase::Halted);
        assert_eq!(phases.latest(), Phase::Halted);
        assert!(phases.has_entered(Phase::Ending) && Phase::Ending < Phase::Draining);
    }
}

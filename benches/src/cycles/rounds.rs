//! Measures cases in turns.

use super::case::{Configuration, Run};
use super::devices::{Length, Slice, Trace};
use crate::report::median;

/// A configuration with bursts of one length.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// What is run.
    pub(crate) configuration: Configuration,
    /// Most packets at a time.
    pub(crate) burst: usize,
}

/// How cases are run.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    /// The number of turns of each case.
    pub(crate) rounds: u32,
    /// How long a turn is.
    pub(crate) length: Length,
    /// The core to run on.
    pub(crate) core: usize,
    /// What arrives.
    pub(crate) trace: Trace,
}

impl Turns {
    /// Cycles per packet of each case, by round.
    ///
    /// # Errors
    /// A configuration is wrong, loses packets, or its results depend on the length of bursts.
    pub(crate) fn cycles(&self, cases: &[Case]) -> anyhow::Result<Vec<Vec<f64>>> {
        for Case { configuration, burst } in cases {
            configuration.gate(*burst, self.core, &self.trace)?;
        }
        let mut cycles = vec![Vec::new(); cases.len()];
        for _ in 0..self.rounds {
            for (Case { configuration, burst }, cycles) in cases.iter().zip(&mut cycles) {
                let run = configuration.run(*burst, self.core, &self.trace, self.length)?;
                cycles.extend(run.cycles());
            }
        }
        Ok(cycles)
    }
}

impl Run {
    /// Cycles per packet: the median of the slices.
    pub(crate) fn cycles(&self) -> Option<f64> {
        self.per_packet(|slice| Some(slice.cycles))
    }

    /// A count per packet: the median of the slices; `None` if it was not counted.
    pub(crate) fn per_packet(&self, count: impl Fn(&Slice) -> Option<u64>) -> Option<f64> {
        let slices = self.slices.iter();
        let counts =
            slices.filter_map(|slice| Some(count(slice)? as f64 / slice.packets.max(1) as f64));
        median(counts.collect())
    }
}

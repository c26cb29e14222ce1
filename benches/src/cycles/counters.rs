//! The processor's counters, if the machine has them and the kernel permits their use.

use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware};
use perf_event::{Builder, Counter};

/// Counts events of the calling thread outside of the kernel.
pub(crate) struct Counters {
    instructions: Counter,
    cycles: Option<Counter>,
    l1i_misses: Option<Counter>,
}

/// The counts, as far as there are counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Instructions.
    pub(crate) instructions: Option<u64>,
    /// Cycles of the core, whose length changes with its frequency.
    pub(crate) cycles: Option<u64>,
    /// Misses of the first-level instruction cache.
    pub(crate) l1i_misses: Option<u64>,
}

impl Counters {
    /// Begins to count.
    ///
    /// # Errors
    /// The machine has no counter of instructions, like most virtual ones, or the kernel refuses
    /// (`/proc/sys/kernel/perf_event_paranoid` above 2).
    pub(crate) fn start() -> io::Result<Self> {
        let misses =
            Cache { which: CacheId::L1I, operation: CacheOp::READ, result: CacheResult::MISS };
        Ok(Self {
            instructions: counter(Hardware::INSTRUCTIONS)?,
            cycles: counter(Hardware::CPU_CYCLES).ok(),
            l1i_misses: counter(misses).ok(),
        })
    }

    /// What was counted so far.
    pub(crate) fn read(&mut self) -> Counts {
        let read = |counter: Option<&mut Counter>| counter.and_then(|counter| counter.read().ok());
        Counts {
            instructions: read(Some(&mut self.instructions)),
            cycles: read(self.cycles.as_mut()),
            l1i_misses: read(self.l1i_misses.as_mut()),
        }
    }
}

fn counter(event: impl Event + Clone + 'static) -> io::Result<Counter> {
    let mut counter = Builder::new(event).build()?;
    counter.enable()?;
    Ok(counter)
}

impl Counts {
    /// The difference to earlier counts.
    pub(crate) fn since(self, then: Self) -> Self {
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.wrapping_sub(then?));
        Self {
            instructions: since(self.instructions, then.instructions),
            cycles: since(self.cycles, then.cycles),
            l1i_misses: since(self.l1i_misses, then.l1i_misses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_of_what_was_counted_both_times() {
        let then = Counts { instructions: Some(5), cycles: Some(9), l1i_misses: None };
        let now = Counts { instructions: Some(7), cycles: None, l1i_misses: Some(1) };
        let since = now.since(then);
        assert_eq!((since.instructions, since.cycles, since.l1i_misses), (Some(2), None, None));
    }

    #[test]
    fn counters_count_where_there_are_any() {
        let Ok(mut counters) = Counters::start() else { return };
        let before = counters.read();
        assert!(counters.read().since(before).instructions.is_some_and(|count| count > 0));
    }
}

//! The processor's counter of instructions, where the machine has one and the kernel lets us read it.

use std::io;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Counts the instructions that the calling thread executes outside of the kernel.
pub(crate) struct Instructions(Counter);

impl Instructions {
    /// Begins to count.
    ///
    /// # Errors
    /// The machine has no counter, as most virtual ones, or the kernel refuses it
    /// (`/proc/sys/kernel/perf_event_paranoid` above 2).
    pub(crate) fn start() -> io::Result<Self> {
        let mut counter = Builder::new(Hardware::INSTRUCTIONS).build()?;
        counter.enable()?;
        Ok(Self(counter))
    }

    /// Instructions so far.
    ///
    /// # Errors
    /// The kernel does not give the count.
    pub(crate) fn read(&mut self) -> io::Result<u64> {
        self.0.read()
    }
}

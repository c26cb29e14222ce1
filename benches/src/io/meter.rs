//! What a running program spends: the time of its threads, and instructions and cycles where the processor counts them.

use std::time::Duration;
use std::{fs, io};

use anyhow::Context;
use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};

/// Counters of all threads of a process, with the kernel's work for them.
pub(crate) struct Meter {
    process: u32,
    instructions: Vec<Counter>,
    cycles: Vec<Counter>,
}

/// What was spent so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) time: Duration,
    /// Nothing where the processor does not count, as most virtual ones.
    pub(crate) instructions: Option<u64>,
    pub(crate) cycles: Option<u64>,
}

impl Meter {
    /// Begins to count. Threads that start later count only with their time.
    pub(crate) fn of(process: u32) -> anyhow::Result<Self> {
        let mut meter = Self { process, instructions: Vec::new(), cycles: Vec::new() };
        for thread in threads(process)? {
            meter.instructions.extend(counter(Hardware::INSTRUCTIONS, thread).ok());
            meter.cycles.extend(counter(Hardware::CPU_CYCLES, thread).ok());
        }
        Ok(meter)
    }

    /// Counts nothing but time.
    pub(crate) const fn of_time(process: u32) -> Self {
        Self { process, instructions: Vec::new(), cycles: Vec::new() }
    }

    /// What the process has spent.
    pub(crate) fn read(&mut self) -> anyhow::Result<Spent> {
        let mut time = Duration::ZERO;
        for thread in threads(self.process)? {
            // It may have ended; a forwarder's threads do not.
            let path = format!("/proc/{}/task/{thread}/schedstat", self.process);
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let nanos = text.split_whitespace().next().context(path)?;
            time += Duration::from_nanos(nanos.parse()?);
        }
        let total = |counters: &mut [Counter]| {
            let counts: io::Result<Vec<u64>> = counters.iter_mut().map(Counter::read).collect();
            counts.ok().filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum())
        };
        let (instructions, cycles) = (total(&mut self.instructions), total(&mut self.cycles));
        Ok(Spent { time, instructions, cycles })
    }
}

fn threads(process: u32) -> anyhow::Result<Vec<i32>> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"))?;
    tasks.map(|task| Ok(task?.file_name().to_string_lossy().parse()?)).collect()
}

fn counter(event: impl Event + Clone + 'static, thread: i32) -> io::Result<Counter> {
    let mut builder = Builder::new(event);
    let mut counter = builder.observe_pid(thread).include_kernel().build()?;
    counter.enable()?;
    Ok(counter)
}

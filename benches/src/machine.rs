//! The machine and the state of the sources, on which the figures depend.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use millrace_core::cycles;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The machine and the sources.
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) cpu: String,
    /// Frequency of the time stamp counter in Hz.
    pub(crate) hertz: f64,
    /// The commit, with `-dirty` if the sources have changes.
    pub(crate) commit: String,
}

impl Machine {
    /// Examines the machine, which takes a moment.
    pub(crate) fn look() -> Self {
        Self { cpu: cpu(), hertz: hertz(), commit: commit() }
    }
}

/// The cores that this program may run on, in order.
///
/// # Errors
/// The kernel does not report them.
pub(crate) fn cores() -> anyhow::Result<Vec<usize>> {
    let cores = sched_getaffinity(None).context("cores")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| cores.is_set(core)).collect())
}

/// The last core that this program may run on, because the first ones have most of the other work.
///
/// # Errors
/// The kernel does not report them.
pub(crate) fn last_core() -> anyhow::Result<usize> {
    cores()?.pop().context("no core to run on")
}

/// Pins the calling thread to a core.
///
/// # Errors
/// The program may not run there.
pub(crate) fn pin(core: usize) -> anyhow::Result<()> {
    anyhow::ensure!(core < CpuSet::MAX_CPU, "core {core}: there is none");
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("core {core}"))
}

/// The output of a program that does a part of the work in a process of its own.
///
/// # Errors
/// It cannot be started, or it fails: the error contains its messages.
pub(crate) fn told(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| name.clone())?;
    anyhow::ensure!(
        output.status.success(),
        "{name} ends with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name"));
    let name = name.map(|name| name.trim_start_matches([' ', '\t', ':']).to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn hertz() -> f64 {
    let (start, from) = (Instant::now(), cycles::now());
    std::thread::sleep(Duration::from_millis(100));
    let (time, to) = (start.elapsed(), cycles::now());
    to.wrapping_sub(from) as f64 / time.as_secs_f64()
}

fn commit() -> String {
    let words = ["describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"];
    let output = Command::new("git").args(words).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let commit = output.ok().filter(|output| output.status.success());
    commit.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

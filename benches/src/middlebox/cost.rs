//! Processor time: of the program in the middle, and of everything that takes part.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::hosts::Hosts;
use crate::io::meter::Meter;

/// What had been spent at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    at: Instant,
    /// By the program in the middle; nothing for the kernel.
    router: Option<Duration>,
    /// By all programs on the hosts, by this one and those that it waited for, and by the kernel's threads that handle
    /// received packets. The kernel also handles them in the time of whoever runs just then, which is included if that
    /// is one of these programs.
    all: Duration,
}

/// What was spent between two moments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) router: Option<Duration>,
    pub(crate) all: Duration,
}

/// Ticks per second of the times in `/proc/PID/stat`: USER_HZ, which is 100 on all architectures that Millrace runs on.
const TICKS: u64 = 100;

impl Spent {
    /// What has been spent until now.
    ///
    /// # Errors
    /// The kernel does not say.
    pub(crate) fn now(hosts: &Hosts, router: Option<u32>) -> anyhow::Result<Self> {
        let mut all = own()? + softirqs()?;
        for host in [&hosts.client, &hosts.between, &hosts.server] {
            let pids = fs_pids(host.name())?;
            // One may have just ended.
            all += pids.into_iter().filter_map(|pid| of(pid).ok()).sum::<Duration>();
        }
        let router = router.map(of).transpose()?;
        Ok(Self { at: Instant::now(), router, all })
    }

    /// What was spent since an earlier moment.
    pub(crate) fn since(&self, earlier: &Self) -> Cost {
        let router = self.router.zip(earlier.router);
        Cost {
            wall: self.at - earlier.at,
            router: router.map(|(late, early)| late.saturating_sub(early)),
            all: self.all.saturating_sub(earlier.all),
        }
    }
}

impl Cost {
    /// Nanoseconds of the program in the middle for each of `count`.
    pub(crate) fn router_ns(&self, count: f64) -> Option<f64> {
        self.router.map(|time| time.as_nanos() as f64 / count)
    }

    /// Nanoseconds of everything for each of `count`.
    pub(crate) fn all_ns(&self, count: f64) -> f64 {
        self.all.as_nanos() as f64 / count
    }
}

/// The time of all threads of a process.
fn of(pid: u32) -> anyhow::Result<Duration> {
    Ok(Meter::of_time(pid).read()?.time)
}

/// The time of this process, and of those that it has waited for.
fn own() -> anyhow::Result<Duration> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = text.rsplit_once(')').context("/proc/self/stat")?;
    let times = fields.split_whitespace().skip(11).take(4).map(str::parse::<u64>);
    let ticks = times.sum::<Result<u64, _>>().context("/proc/self/stat")?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

/// The time of the kernel's threads `ksoftirqd/N`.
fn softirqs() -> anyhow::Result<Duration> {
    let mut time = Duration::ZERO;
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.starts_with("ksoftirqd/") {
            time += of(pid)?;
        }
    }
    Ok(time)
}

/// The processes in a namespace.
fn fs_pids(namespace: &str) -> anyhow::Result<Vec<u32>> {
    let mut command = std::process::Command::new("ip");
    let said = super::output(command.args(["netns", "pids", namespace]))?;
    said.lines().map(|line| line.trim().parse().context("ip netns pids")).collect()
}

//! A program that forwards packets between DPDK ports, ours or another: it is started, paused and queried.
//!
//! All programs are queried in the same way, by DPDK's telemetry, and by the kernel's account of the forwarding
//! thread's processor time. A paused program uses no processor and keeps its tables, so programs can take turns on
//! one core without being set up again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use millrace_testkit::find_program;
use rustix::process::{Pid, Signal, kill_process};

use super::telemetry::{Counts, Telemetry};

/// The ports instead of cards: virtual devices of DPDK's drivers `net_pcap` and `net_null`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ports<'a> {
    /// Each generates packets and discards what it gets.
    Null,
    /// Port 0 replays a capture from memory repeatedly. Transmitted packets are dropped.
    Endless(&'a Path),
    /// Port 0 replays a capture once. What port N transmits is written to the file `N.pcap` in a folder.
    Once(&'a Path, &'a Path),
}

impl Ports<'_> {
    /// DPDK's options that make `count` ports.
    fn options(self, count: usize) -> Vec<String> {
        let port = |n: usize| match self {
            Self::Null => format!("net_null{n},size=64"),
            // Nothing receives on the others, but a port must have an input.
            Self::Endless(trace) => {
                format!("net_pcap{n},rx_pcap={},infinite_rx=1", trace.display())
            }
            Self::Once(trace, to) if n == 0 => {
                let to = captured(to, n);
                format!("net_pcap{n},rx_pcap={},tx_pcap={}", trace.display(), to.display())
            }
            Self::Once(_, to) => format!("net_pcap{n},tx_pcap={}", captured(to, n).display()),
        };
        (0..count).map(|n| format!("--vdev={}", port(n))).collect()
    }
}

/// The file with the packets that a port transmitted, in the folder of [`Ports::Once`].
pub(crate) fn captured(folder: &Path, port: usize) -> PathBuf {
    folder.join(format!("{port}.pcap"))
}

/// The counts of a program at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Packets received on port 0.
    pub(crate) received: u64,
    /// Packets transmitted, by port.
    pub(crate) transmitted: Vec<u64>,
    /// Seconds of processor time of the forwarding thread.
    pub(crate) seconds: f64,
}

impl Sample {
    /// The difference to an earlier moment.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let ports = self.transmitted.iter().zip(&before.transmitted);
        Self {
            received: self.received.saturating_sub(before.received),
            transmitted: ports.map(|(now, before)| now.saturating_sub(*before)).collect(),
            seconds: self.seconds - before.seconds,
        }
    }

    /// Packets transmitted by all ports.
    pub(crate) fn packets(&self) -> u64 {
        self.transmitted.iter().sum()
    }
}

/// How to start a program: its path and its options, without those of DPDK.
pub(crate) struct Launch<'a> {
    /// A unique name.
    pub(crate) name: &'a str,
    /// The program.
    pub(crate) program: &'a Path,
    /// Arguments before DPDK's options.
    pub(crate) before: &'a [String],
    /// Arguments after them.
    pub(crate) behind: &'a [String],
    /// The number of its ports.
    pub(crate) ports: usize,
    /// The name of the thread that forwards; by default the first thread.
    pub(crate) threads: Option<&'a [&'a str]>,
}

/// A program that runs, or is paused.
pub(crate) struct Program {
    child: Child,
    name: String,
    ports: usize,
    thread: u32,
    telemetry: Telemetry,
    log: PathBuf,
}

/// True if all programs use huge pages: if 4 GiB of them are reserved (`sysctl -w vm.nr_hugepages=2048`) when the
/// first program starts.
pub(crate) fn on_huge_pages() -> bool {
    const ENOUGH: u64 = 2048;
    static THERE_ARE: LazyLock<bool> = LazyLock::new(|| {
        let count =
            std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
        count
            .ok()
            .and_then(|count| count.trim().parse().ok())
            .is_some_and(|count: u64| count >= ENOUGH)
    });
    *THERE_ARE
}

/// The time between two checks.
const MOMENT: Duration = Duration::from_millis(10);

/// The maximum time for the start of DPDK and of a program.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The time that a program runs after a pause before it is timed, so that its tables return to the caches.
const WARM_UP: Duration = Duration::from_millis(100);

impl Program {
    /// Starts a program. Its files are in `folder`.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(
        launch: &Launch<'_>,
        ports: Ports<'_>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let Launch { name, program, .. } = launch;
        let log = folder.join(format!("{name}.log"));
        let said = File::create(&log).with_context(|| log.display().to_string())?;
        // A paused program must not outlive the benchmark.
        let mut command = match find_program("setpriv") {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(launch.before);
        command.args(["--no-pci", "--telemetry", "--file-prefix", name]);
        command.args(match on_huge_pages() {
            true => &["--huge-unlink"][..],
            false => &["--no-huge", "-m", "2048"],
        });
        command.args(ports.options(launch.ports)).args(launch.behind);
        // There DPDK makes the socket for its telemetry.
        command.env("RUNTIME_DIRECTORY", folder);
        command.stdin(Stdio::piped()).stdout(said.try_clone()?).stderr(said);
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        let socket = folder.join("dpdk").join(name).join("dpdk_telemetry.v2");
        let telemetry = wait(PATIENCE, || match Telemetry::connect(&socket) {
            Ok(telemetry) => Ok(Some(telemetry)),
            Err(error) if child.try_wait()?.is_some() => Err(error),
            Err(_) => Ok(None),
        });
        let telemetry = match telemetry {
            Ok(Some(telemetry)) => telemetry,
            failed => {
                // If it has ended, there is nothing to kill.
                let _ = child.kill();
                let _ = child.wait();
                let error = failed.err().map(|error| format!(": {error:#}")).unwrap_or_default();
                bail!("{name} does not start{error}\n{}", tail(&log));
            }
        };
        let thread = child.id();
        let name = (*name).to_owned();
        let mut program = Self { child, name, ports: launch.ports, thread, telemetry, log };
        if let Some(names) = launch.threads {
            let found = wait(PATIENCE, || program.named_thread(names))?;
            program.thread = found.with_context(|| format!("{} has no thread", program.name))?;
        }
        Ok(program)
    }

    /// Waits until it transmits.
    ///
    /// # Errors
    /// It ends, or does not transmit in time.
    pub(crate) fn wait_until_at_work(&mut self, patience: Duration) -> anyhow::Result<()> {
        self.wait_for("does not transmit", patience, |sample| sample.packets() > 0)
    }

    /// Waits until it has transmitted this number of packets.
    ///
    /// # Errors
    /// It ends, or transmits fewer.
    pub(crate) fn wait_for_packets(&mut self, count: usize) -> anyhow::Result<()> {
        let what = format!("does not transmit {count} packets");
        self.wait_for(&what, PATIENCE, |sample| sample.packets() >= count as u64)
    }

    fn wait_for(
        &mut self,
        what: &str,
        patience: Duration,
        holds: impl Fn(&Sample) -> bool,
    ) -> anyhow::Result<()> {
        let mut last = None;
        let done = wait(patience, || {
            ensure!(self.child.try_wait()?.is_none(), "it has ended");
            let sample = self.sample()?;
            let held = holds(&sample).then_some(());
            last = Some(sample);
            Ok(held)
        });
        match done {
            Ok(Some(())) => Ok(()),
            Ok(None) => bail!("{} {what}: {last:?}\n{}", self.name, tail(&self.log)),
            Err(error) => bail!("{} {what}: {error:#}\n{}", self.name, tail(&self.log)),
        }
    }

    /// Its present counts. The counts are not of the same moment, because it continues meanwhile. If the answers take
    /// long, they are queried again.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn sample(&mut self) -> anyhow::Result<Sample> {
        const QUICK: Duration = Duration::from_micros(500);
        const TRIES: usize = 30;

        let mut quickest: Option<(Duration, Sample)> = None;
        for _ in 0..TRIES {
            let start = Instant::now();
            let seconds = self.processor_time()?;
            let ports: anyhow::Result<Vec<Counts>> =
                (0..self.ports).map(|port| self.telemetry.port(port)).collect();
            let ports = ports?;
            let took = start.elapsed();
            if quickest.as_ref().is_none_or(|(other, _)| took < *other) {
                let received = ports.first().map_or(0, |port| port.received);
                let transmitted = ports.iter().map(|port| port.transmitted).collect();
                quickest = Some((took, Sample { received, transmitted, seconds }));
            }
            if took < QUICK {
                break;
            }
        }
        quickest.map(|(_, sample)| sample).context("no ports")
    }

    /// What it does in a time. It is paused before and afterwards.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn measure(&mut self, window: Duration) -> anyhow::Result<Sample> {
        self.go_on()?;
        std::thread::sleep(WARM_UP);
        let before = self.sample().with_context(|| tail(&self.log))?;
        std::thread::sleep(window);
        let after = self.sample().with_context(|| tail(&self.log))?;
        self.pause()?;
        Ok(after.since(&before))
    }

    /// Pauses it.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Continues it.
    fn go_on(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal).with_context(|| self.name.clone())
    }

    /// Seconds of processor time that the forwarding thread has had, in user mode and in the kernel
    /// (`/proc/PID/task/TID/schedstat`: nanoseconds).
    fn processor_time(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/task/{}/schedstat", self.child.id(), self.thread);
        let text = fs::read_to_string(&path).context(path)?;
        let nanos: f64 = text.split_whitespace().next().unwrap_or_default().parse()?;
        Ok(nanos / 1e9)
    }

    /// The thread that has one of these names.
    fn named_thread(&self, names: &[&str]) -> anyhow::Result<Option<u32>> {
        for entry in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let entry = entry?;
            let name = fs::read_to_string(entry.path().join("comm"))?;
            if names.contains(&name.trim()) {
                return Ok(Some(entry.file_name().to_string_lossy().parse()?));
            }
        }
        Ok(None)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // If it has ended, there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Repeats a query until it has a result, or the time is over.
pub(crate) fn wait<T>(
    patience: Duration,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if Instant::now() > end {
            return Ok(None);
        }
        std::thread::sleep(MOMENT);
    }
}

/// The last lines of a program's messages.
fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(10)..).unwrap_or_default().join("\n")
}

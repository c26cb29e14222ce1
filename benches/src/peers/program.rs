//! A program that forwards packets between ports of DPDK, ours or another: started, paused, asked what
//! it has done.
//!
//! All of them are asked in the same way, by DPDK's telemetry and by the kernel's account of the
//! forwarding thread's processor time. A program that is paused has no processor and keeps its tables,
//! so programs can take turns on one core without being set up anew each time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use millrace_testkit::find_program;
use rustix::process::{Pid, Signal, kill_process};

use super::telemetry::{Counts, Telemetry};

/// What takes the place of cards: virtual devices of DPDK's drivers `net_pcap` and `net_null`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ports<'a> {
    /// Each makes packets out of nothing and swallows what it gets.
    Null,
    /// Port 0 replays a capture from memory for ever. What ports transmit is dropped.
    Endless(&'a Path),
    /// Port 0 replays a capture once. What port N transmits goes to the file `N.pcap` in a folder.
    Once(&'a Path, &'a Path),
}

impl Ports<'_> {
    /// The options of DPDK's that make `count` ports.
    fn options(self, count: usize) -> Vec<String> {
        let port = |n: usize| match self {
            Self::Null => format!("net_null{n},size=64"),
            // On the others nobody receives; but a port must have something.
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

/// The file with what a port transmitted, in the folder of [`Ports::Once`].
pub(crate) fn captured(folder: &Path, port: usize) -> PathBuf {
    folder.join(format!("{port}.pcap"))
}

/// What a program has done up to a moment.
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
    /// What was done since another moment.
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

/// A program, where it is and what its options are; those of DPDK's not included.
pub(crate) struct Launch<'a> {
    /// A word for it, as no other program has it.
    pub(crate) name: &'a str,
    /// The program.
    pub(crate) program: &'a Path,
    /// What stands before DPDK's options.
    pub(crate) before: &'a [String],
    /// What stands behind them.
    pub(crate) behind: &'a [String],
    /// How many ports it has.
    pub(crate) ports: usize,
    /// The thread that forwards; the first one unless given.
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

/// Whether all programs use huge pages: where 4 GiB of them are reserved (`sysctl -w vm.nr_hugepages=2048`) when the
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

/// How often it is looked whether something has come.
const MOMENT: Duration = Duration::from_millis(10);

/// For DPDK's start, and a program's.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long a program runs after a pause before it is timed: its tables come back into the caches.
const WARM_UP: Duration = Duration::from_millis(100);

impl Program {
    /// Starts a program. Everything that it leaves behind is in `folder`.
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
        // Whatever becomes of the bench, a program that is paused must not stay.
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
                // Where it has ended there is nothing to kill.
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
    /// It ends, or never does.
    pub(crate) fn wait_until_at_work(&mut self, patience: Duration) -> anyhow::Result<()> {
        self.wait_for("does not transmit", patience, |sample| sample.packets() > 0)
    }

    /// Waits until it has transmitted so many packets.
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

    /// What it has done so far. The counts are not of one moment, for it goes on meanwhile; so if the answers
    /// take long, they are asked for again.
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

    /// What it does in a time; it is paused before and afterwards.
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

    /// Takes the processor from it.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Gives the processor back to it.
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
        // Where it has ended there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks again and again until there is something, or patience is at its end.
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

/// The last lines that a program said.
fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(10)..).unwrap_or_default().join("\n")
}

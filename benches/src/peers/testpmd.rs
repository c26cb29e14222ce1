//! `dpdk-testpmd`, DPDK's own forwarder: its mode `io` hands every burst that it received on, as it is, and
//! its mode `macswap` swaps the Ethernet addresses of each packet. FromDPDKDevice -> ToDPDKDevice does the same
//! work with a graph around it, and so does EtherMirror between them.
//!
//! Each is measured with the bursts that the programs choose by themselves, and with bursts of one length.
//!
//! Both run on one core and on virtual devices: `net_null` makes packets out of nothing and swallows
//! them, so what is compared is overhead alone; `net_pcap` replays a capture from memory, at about the
//! cost of a card's receive path. A rate is packets in a second of the forwarding thread's processor time:
//! who shares the machine slows both alike, not the rate.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use millrace_testkit::find_program;
use serde_json::{Value, json};

use super::capture;
use crate::machine::{self, Machine};
use crate::report::{self, median, rounded};
use crate::traffic;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each case is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Milliseconds that are timed in each round.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    window: u64,

    /// Most packets at a time, 1 to 256, of both programs; may be given several times. Each program's own choice is
    /// measured besides.
    #[arg(long, value_name = "N", default_values_t = [32, 64, 128, 256], value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: Vec<u16>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What both programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They hand packets on.
    Io,
    /// They swap the Ethernet addresses.
    MacSwap,
}

impl Mode {
    const ALL: [Mode; 2] = [Mode::Io, Mode::MacSwap];

    /// testpmd's name of it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Io => "io",
            Mode::MacSwap => "macswap",
        }
    }

    /// The graph that does the same, between the devices.
    fn elements(self) -> &'static str {
        match self {
            Mode::Io => "",
            Mode::MacSwap => "-> EtherMirror ",
        }
    }
}

/// Both programs at the same work on one device: packets in a second of processor time.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// The device's driver.
    pub(crate) device: &'static str,
    /// What they do.
    pub(crate) mode: Mode,
    /// Most packets at a time; each program's own choice unless given.
    pub(crate) burst: Option<u16>,
    /// A rate of each round.
    pub(crate) ours: Vec<f64>,
    /// A rate of testpmd in each round.
    pub(crate) theirs: Vec<f64>,
}

impl Comparison {
    /// How many times testpmd's rate ours is: the median of the rounds' ratios.
    pub(crate) fn ratio(&self) -> f64 {
        let ratios = self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs);
        median(ratios.collect()).unwrap_or(f64::NAN)
    }

    /// The row of a report for programs.
    pub(crate) fn json(&self) -> Value {
        let mpps = |rates: &[f64]| median(rates.to_vec()).map(|rate| rounded(rate / 1e6));
        json!({
            "group": "dpdk",
            "name": self.device,
            "mode": self.mode.name(),
            "value": self.burst,
            "mpps": mpps(&self.ours),
            "testpmd_mpps": mpps(&self.theirs),
            "ratio": rounded(self.ratio()),
        })
    }
}

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// There is no DPDK, or not two cores.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let machine = Machine::look();
        println!("{}; commit {}\n{} rounds\n", machine.cpu, machine.commit, self.rounds);
        let rows = compare(&self.burst, self.rounds, Duration::from_millis(self.window))?;
        print!("{}", tell(&rows));
        let options = json!({"suite": "dpdk", "rounds": self.rounds, "window_ms": self.window});
        let rows = rows.iter().map(Comparison::json).collect();
        report::write(self.json.as_deref(), &machine, options, rows)
    }
}

/// The table for people.
pub(crate) fn tell(rows: &[Comparison]) -> String {
    let mut text =
        format!("{:<20}{:>6}{:>12}{:>12}{:>8}\n", "DPDK", "burst", "Mpps", "testpmd", "ratio");
    for row in rows {
        let mpps = |rates: &[f64]| median(rates.to_vec()).unwrap_or(f64::NAN) / 1e6;
        text.push_str(&format!(
            "{:<12}{:<8}{:>6}{:>12.2}{:>12.2}{:>8.2}\n",
            row.device,
            row.mode.name(),
            row.burst.map_or_else(|| "own".to_owned(), |burst| burst.to_string()),
            mpps(&row.ours),
            mpps(&row.theirs),
            row.ratio()
        ));
    }
    text
}

/// Measures both programs in turns, on each device and for each length of bursts.
///
/// # Errors
/// There is no DPDK to build the plugin against, no testpmd, not two cores; a program does not run.
pub(crate) fn compare(
    bursts: &[u16],
    rounds: u32,
    window: Duration,
) -> anyhow::Result<Vec<Comparison>> {
    let cores = machine::cores()?;
    let [first, .., last] = cores[..] else { bail!("this takes two cores") };
    let testpmd = find_program("dpdk-testpmd")
        .context("there is no dpdk-testpmd: apt-get install dpdk-dev libdpdk-dev")?;
    let millrace = build()?;
    let folder = std::env::temp_dir().join(format!("millrace-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let trace = folder.join("trace.pcap");
    capture::write(&trace, &traffic::trace(&traffic::routes(256))?)?;
    let replay = format!("net_pcap0,rx_pcap={},infinite_rx=1", trace.display());
    let devices = [("net_null", "net_null0,size=64"), ("net_pcap", replay.as_str())];
    let mut rows: Vec<(&str, Comparison)> = Vec::new();
    for (device, argument) in devices {
        for mode in Mode::ALL {
            let bursts = std::iter::once(None).chain(bursts.iter().copied().map(Some));
            rows.extend(bursts.map(|burst| {
                (argument, Comparison { device, mode, burst, ours: Vec::new(), theirs: Vec::new() })
            }));
        }
    }
    let outcome = (0..rounds).try_for_each(|_| {
        rows.iter_mut().try_for_each(|(device, row)| {
            let work = Work { device, mode: row.mode, burst: row.burst };
            row.ours.push(run_millrace(&millrace, work, last, window)?);
            row.theirs.push(run_testpmd(&testpmd, work, [first, last], window)?);
            anyhow::Ok(())
        })
    });
    // Another run of the bench makes a folder of its own.
    let _ = std::fs::remove_dir_all(&folder);
    outcome?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Builds the program and the plugin as users do; gives the program's path.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("the bench is not where Cargo puts it")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--release", "--bin", "millrace", "--lib"]);
    command
        .args(["--package", "millrace", "--package", "millrace-dpdk", "--target-dir"])
        .arg(target);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    ensure!(command.status()?.success(), "the program cannot be built");
    Ok(target.join("release/millrace"))
}

/// Options of DPDK's that both programs get.
fn environment(device: &str) -> Vec<String> {
    let words = ["--no-huge", "-m", "1024", "--no-pci", "--no-shconf", "--no-telemetry"];
    let vdev = format!("--vdev={device}");
    words.map(str::to_owned).into_iter().chain([vdev]).collect()
}

/// What a program is to do.
#[derive(Clone, Copy)]
struct Work<'a> {
    /// The device, as DPDK wants it.
    device: &'a str,
    mode: Mode,
    burst: Option<u16>,
}

fn run_millrace(
    program: &Path,
    work: Work<'_>,
    core: usize,
    window: Duration,
) -> anyhow::Result<f64> {
    let mut command = Command::new(program);
    command.args(["run", "--json", &format!("--affinity={core}"), "--dpdk"]);
    command.args(environment(work.device)).args(["--", "-e"]);
    let burst = work.burst.map(|burst| format!(", BURST {burst}")).unwrap_or_default();
    let elements = work.mode.elements();
    command.arg(format!(
        "DPDKInfo(NB_MBUF 8192);
         from :: FromDPDKDevice(0{burst}) {elements}-> ToDPDKDevice(0);"
    ));
    let mut running = Running::start(&mut command)?;
    running.wait_for("opened by driver")?;
    // The first thread forwards; what it did before is no forwarding.
    let (id, before) = (running.id(), running.processor_time(running.id())?);
    std::thread::sleep(window);
    let spent = running.processor_time(id)? - before;
    let text = running.stop(false)?;
    // Behind what else it says.
    let summary =
        text.find("{\n").and_then(|at| text.get(at..)).context("millrace gives no summary")?;
    let summary: Value = serde_json::from_str(summary).context("the summary of millrace")?;
    let packets = summary["totals"]["out"].as_u64().context("packets of millrace")?;
    ensure!(spent > 0.0, "millrace did nothing");
    Ok(packets as f64 / spent)
}

fn run_testpmd(
    program: &Path,
    work: Work<'_>,
    [main, core]: [usize; 2],
    window: Duration,
) -> anyhow::Result<f64> {
    let mut command = Command::new(program);
    command.args(environment(work.device)).arg(format!("--lcores=0@{main},1@{core}"));
    command.args(["--", "--nb-cores=1", "--total-num-mbufs=8192", "--auto-start"]);
    command.arg(format!("--forward-mode={}", work.mode.name()));
    command.args(work.burst.map(|burst| format!("--burst={burst}")));
    let mut running = Running::start(&mut command)?;
    let worker = running.worker()?;
    std::thread::sleep(window);
    // All of its time: it has done nothing but forward, and its packets are counted from the start.
    let spent = running.processor_time(worker)?;
    let text = running.stop(true)?;
    let received = text.lines().find_map(|line| line.split_once("RX-packets:"));
    let packets =
        received.and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok());
    let packets = packets.context("packets of testpmd")?;
    ensure!(spent > 0.0, "testpmd did nothing");
    Ok(packets as f64 / spent)
}

/// For what takes a moment on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Seconds of processor time that a thread has had when it is at work.
const BUSY: f64 = 0.02;

/// A program that forwards, and what it says.
struct Running {
    child: Child,
    said: BufReader<std::io::PipeReader>,
    text: String,
}

impl Running {
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        // Both streams in one: the programs say what matters here on different ones.
        let (reader, writer) = std::io::pipe()?;
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        // The command's own ends would keep the pipe open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child, said: BufReader::new(reader), text: String::new() })
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads what the program says up to a line with these words.
    fn wait_for(&mut self, words: &str) -> anyhow::Result<()> {
        loop {
            let mut line = String::new();
            if self.said.read_line(&mut line)? == 0 {
                bail!("it ended early: {}", self.text);
            }
            self.text.push_str(&line);
            if line.contains(words) {
                return Ok(());
            }
        }
    }

    /// The thread in which testpmd forwards, once it does: what testpmd says comes when it ends.
    fn worker(&mut self) -> anyhow::Result<u32> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
            // Newer versions of DPDK have the other name.
            let thread = self.thread("rte-worker-1").or_else(|_| self.thread("dpdk-worker1"));
            if let Ok(thread) = thread
                && self.processor_time(thread)? > BUSY
            {
                return Ok(thread);
            }
        }
        bail!("testpmd does not forward: {}", self.text)
    }

    /// The thread of this name.
    fn thread(&self, name: &str) -> anyhow::Result<u32> {
        for entry in std::fs::read_dir(format!("/proc/{}/task", self.id()))? {
            let entry = entry?;
            if std::fs::read_to_string(entry.path().join("comm"))?.trim() == name {
                return Ok(entry.file_name().to_string_lossy().parse()?);
            }
        }
        bail!("it has no thread {name}")
    }

    /// Seconds of processor time that a thread has had, in user mode and in the kernel
    /// (`/proc/PID/task/TID/schedstat`: nanoseconds).
    fn processor_time(&self, thread: u32) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/task/{thread}/schedstat", self.id());
        let text = std::fs::read_to_string(&path).context(path)?;
        let nanos: f64 = text.split_whitespace().next().unwrap_or_default().parse()?;
        Ok(nanos / 1e9)
    }

    /// Ends the program; gives all that it said since the start of the measurement. testpmd ends when it is
    /// given a line.
    fn stop(mut self, by_line: bool) -> anyhow::Result<String> {
        if by_line {
            self.child.stdin.take().context("a pipe to testpmd")?.write_all(b"\n")?;
        } else {
            let id = rustix::process::Pid::from_child(&self.child);
            rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        }
        let mut text = String::new();
        self.said.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}: {text}");
        Ok(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Where it has ended there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

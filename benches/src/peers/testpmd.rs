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
//!
//! Both run on ordinary pages, where testpmd's mbufs begin a page each and ours do not: on huge pages ratios are
//! lower (docs/design.md, "Devices and threads").

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use millrace_testkit::find_program;
use serde_json::{Value, json};

use super::capture;
use super::program::{Launch, PATIENCE, Ports, Program};
use crate::machine::{self, Machine};
use crate::report::{self, median, rounded};
use crate::traffic;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each case is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// The duration of each measurement in milliseconds
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    window: u64,

    /// The maximum number of packets at a time, 1 to 256, for both programs; may be given several times; each
    /// program's own choice is measured as well
    #[arg(long, value_name = "N", default_values_t = [32, 64, 128, 256], value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: Vec<u16>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What both programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Packets are forwarded unchanged.
    Io,
    /// Ethernet addresses are swapped.
    MacSwap,
}

impl Mode {
    const ALL: [Mode; 2] = [Mode::Io, Mode::MacSwap];

    /// testpmd's name for it.
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

/// Both programs with the same work and device: packets per second of processor time.
#[derive(Clone, Debug)]
struct Comparison {
    /// The device's driver.
    device: &'static str,
    /// What they do.
    mode: Mode,
    /// The maximum number of packets at a time; by default each program's own choice.
    burst: Option<u16>,
    /// Our rate in each round.
    ours: Vec<f64>,
    /// testpmd's rate in each round.
    theirs: Vec<f64>,
}

impl Comparison {
    /// The ratio of our rate to testpmd's: the median of the rounds' ratios.
    fn ratio(&self) -> f64 {
        let ratios = self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs);
        median(ratios.collect()).unwrap_or(f64::NAN)
    }

    /// The row of a report for programs.
    fn json(&self) -> Value {
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
    /// There is no DPDK, or there are fewer than two cores.
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

/// The table as text.
fn tell(rows: &[Comparison]) -> String {
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
fn compare(bursts: &[u16], rounds: u32, window: Duration) -> anyhow::Result<Vec<Comparison>> {
    let cores = machine::cores()?;
    let [first, .., last] = cores[..] else { bail!("this takes two cores") };
    let testpmd = find_program("dpdk-testpmd")
        .context("there is no dpdk-testpmd: apt-get install dpdk-dev libdpdk-dev pkg-config")?;
    let place = tempfile::Builder::new().prefix("millrace-bench-").tempdir()?;
    let folder = place.path().to_owned();
    let trace = folder.join("trace.pcap");
    capture::write(&trace, &traffic::trace(&traffic::routes(256))?)?;
    let rig = Rig { millrace: build()?, testpmd, cores: [first, last], folder, window };
    let mut rows: Vec<(Ports<'_>, Comparison)> = Vec::new();
    for (device, ports) in [("net_null", Ports::Null), ("net_pcap", Ports::Endless(&trace))] {
        for mode in Mode::ALL {
            let bursts = std::iter::once(None).chain(bursts.iter().copied().map(Some));
            rows.extend(bursts.map(|burst| {
                (ports, Comparison { device, mode, burst, ours: Vec::new(), theirs: Vec::new() })
            }));
        }
    }
    for _ in 0..rounds {
        for (ports, row) in &mut rows {
            row.ours.push(rig.ours(row, *ports)?);
            row.theirs.push(rig.theirs(row, *ports)?);
        }
    }
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Builds the program and the plugin as for packages; returns the program's path.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("the bench is not where Cargo puts it")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--profile", PROFILE, "--bin", "millrace", "--lib"]);
    command
        .args(["--package", "millrace", "--package", "millrace-dpdk", "--target-dir"])
        .arg(target);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    ensure!(command.status()?.success(), "the program cannot be built");
    Ok(target.join(PROFILE).join("millrace"))
}

/// Cargo's profile of what is measured.
const PROFILE: &str = "dist";

/// testpmd's thread that forwards; the second name is that of newer versions of DPDK.
pub(crate) const WORKER: &[&str] = &["rte-worker-1", "dpdk-worker1"];

/// The arguments before and after DPDK's options with which testpmd forwards on the second core, begins at once, and
/// drops nothing.
pub(crate) fn words(
    [main, core]: [usize; 2],
    mode: Mode,
    mbufs: usize,
    burst: Option<u16>,
) -> [Vec<String>; 2] {
    let mut behind =
        ["--", "--no-flush-rx", "--nb-cores=1", "--auto-start"].map(str::to_owned).to_vec();
    behind.push(format!("--forward-mode={}", mode.name()));
    behind.push(format!("--total-num-mbufs={mbufs}"));
    behind.extend(burst.map(|burst| format!("--burst={burst}")));
    [vec![format!("--lcores=0@{main},1@{core}")], behind]
}

/// Packet buffers of either program.
const MBUFS: usize = 8192;

/// The programs, and where they run.
struct Rig {
    millrace: PathBuf,
    testpmd: PathBuf,
    cores: [usize; 2],
    folder: PathBuf,
    window: Duration,
}

impl Rig {
    /// Packets of ours in a second of processor time, once.
    fn ours(&self, row: &Comparison, ports: Ports<'_>) -> anyhow::Result<f64> {
        let [_, core] = self.cores;
        let burst = row.burst.map(|burst| format!(", BURST {burst}")).unwrap_or_default();
        let graph = format!(
            "DPDKInfo(NB_MBUF {MBUFS}); FromDPDKDevice(0{burst}) {}-> ToDPDKDevice(0);",
            row.mode.elements()
        );
        let affinity = format!("--affinity={core}");
        let before = ["run", "--json", &affinity, "--dpdk"].map(str::to_owned);
        let behind = ["--", "-e", &graph].map(str::to_owned);
        let launch = Launch {
            name: "millrace",
            program: &self.millrace,
            before: &before,
            behind: &behind,
            ports: 1,
            threads: None,
        };
        self.rate(&launch, ports)
    }

    /// Those of testpmd.
    fn theirs(&self, row: &Comparison, ports: Ports<'_>) -> anyhow::Result<f64> {
        let [before, behind] = words(self.cores, row.mode, MBUFS, row.burst);
        let launch = Launch {
            name: "testpmd",
            program: &self.testpmd,
            before: &before,
            behind: &behind,
            ports: 1,
            threads: Some(WORKER),
        };
        self.rate(&launch, ports)
    }

    fn rate(&self, launch: &Launch<'_>, ports: Ports<'_>) -> anyhow::Result<f64> {
        // A folder for each start: its socket is that of this program, not of the one before.
        let folder = tempfile::tempdir_in(&self.folder)?;
        let mut program = Program::start(launch, ports, folder.path())?;
        program.wait_until_at_work(PATIENCE)?;
        let done = program.measure(self.window)?;
        let packets = done.packets() as f64;
        ensure!(packets > 0.0 && done.seconds > 0.0, "{} did nothing", launch.name);
        Ok(packets / done.seconds)
    }
}

//! Instructions a packet of any configuration, its own beside those of its devices.
//!
//! Callgrind counts ([`crate::callgrind`]), so the figures are the same on a busy machine as on a quiet one. The
//! devices are the bench's, in memory; what they take to receive and to transmit, with the allocation and the
//! release of packet memory, stands for a driver and is told apart. All else is the configuration's own: its elements
//! and the engine beneath them.

mod prepared;
mod profile;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use millrace_core::isa::Level;
use serde_json::{Value, json};

use self::prepared::Prepared;
use self::profile::Profile;
use crate::callgrind::{self, Stretch};
use crate::machine::Machine;
use crate::report::{self, rounded};
use crate::rules::drawn::Drawn;

/// What is counted.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    subject: Subject,

    /// Shows the functions that contain this percentage of the instructions; by default none
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "95", value_parser = clap::value_parser!(u8).range(1..=100))]
    functions: Option<u8>,

    /// Counts only the code for every processor, not that for AVX2
    #[arg(long)]
    baseline: bool,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is run, by the worker and by the program that starts it.
#[derive(clap::Args, Clone)]
pub(crate) struct Subject {
    /// Configurations; by default the plain routers and the forwarder of the table of targets. They may use the
    /// variables `$burst`, `$mbufs`, `$ring` and `$rules`, like those in `benches/configs/dpdk`. Packets arrive on
    /// the device that they open first
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Most packets at a time, 1 to 256; may be given several times.
    #[arg(long, value_name = "N", default_values_t = [32, 128], value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: Vec<u16>,

    /// The number of routes in each IPv4 table, distributed over all its outputs
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    routes: u32,

    /// Also measures the filters of the table of targets, with 10, 100 and 1,000 rules
    #[arg(long)]
    filters: bool,

    /// The file that `$rules` names.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Writes to a handler before packets arrive: `element.handler text`; may be given several times
    #[arg(long, value_name = "WRITE")]
    write: Vec<String>,

    /// Runs elements one by one
    #[arg(long)]
    no_optimise: bool,
}

/// Configurations that are counted when no other is named.
const PLAIN: [(&str, &str); 5] = [
    ("forward", include_str!("../../configs/dpdk/forward.click")),
    ("plain-minimal", include_str!("../../configs/dpdk/plain-minimal.click")),
    ("plain-full", include_str!("../../configs/dpdk/plain-full.click")),
    (
        "plain-minimal-instrumented",
        include_str!("../../configs/dpdk/plain-minimal-instrumented.click"),
    ),
    ("plain-full-instrumented", include_str!("../../configs/dpdk/plain-full-instrumented.click")),
];

/// A configuration with bursts of one length: what a packet takes.
struct Row {
    name: String,
    burst: u64,
    all: f64,
    devices: f64,
    came_out: f64,
    /// The functions with the most instructions, and their counts.
    functions: Vec<(String, f64)>,
}

impl Options {
    /// Counts and reports.
    ///
    /// # Errors
    /// A configuration is wrong, or there is no Valgrind.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let level = match self.baseline {
            true => Level::Baseline,
            false => Level::of_processor().min(Level::Avx2),
        };
        let mut rows = Vec::new();
        let share = f64::from(self.functions.unwrap_or(0)) / 100.0;
        let mut profiles = Vec::new();
        let stretches =
            callgrind::count_with(&self.subject.words(), level, false, |stretch, record| {
                profiles.push(
                    Profile::parse(record).map(|profile| Taken::of(stretch, &profile, share)),
                );
            })?;
        for (stretch, taken) in stretches.iter().zip(profiles) {
            let taken = taken.context("a record of callgrind that cannot be read")?;
            rows.push(Row::new(stretch, taken)?);
        }
        print!("{}", table(&rows));
        println!(
            "instructions a packet ({}); own are those beside receiving and transmitting, in memory",
            level.name()
        );
        let options = json!({
            "suite": "own", "routes": self.subject.routes, "level": level.name(),
            "optimise": !self.subject.no_optimise,
        });
        let rows = rows.iter().map(Row::json).collect();
        report::write(self.json.as_deref(), &Machine::look(), options, rows)
    }
}

/// Instructions per packet of a stretch, without those of the devices. `None` if the record cannot be read.
pub(crate) fn own(stretch: &Stretch, record: &str) -> Option<f64> {
    let devices = Profile::parse(record)?.within(is_device);
    Some(stretch.per_packet(stretch.instructions.saturating_sub(devices)))
}

/// The counts of a stretch.
struct Taken {
    devices: f64,
    functions: Vec<(String, f64)>,
}

impl Taken {
    fn of(stretch: &Stretch, profile: &Profile, share: f64) -> Self {
        let devices = stretch.per_packet(profile.within(is_device));
        let most = (stretch.instructions as f64 * share) as u64;
        let functions = profile.heaviest(most).into_iter();
        let functions =
            functions.map(|(name, count)| (name.to_owned(), stretch.per_packet(count))).collect();
        Self { devices, functions }
    }
}

/// True for the two functions of the devices.
fn is_device(name: &str) -> bool {
    name.contains("cycles::devices::")
        && (name.contains("RxQueue>::receive") || name.contains("TxQueue>::transmit"))
}

impl Row {
    fn new(stretch: &Stretch, taken: Taken) -> anyhow::Result<Self> {
        let mut parts = stretch.name.split('\t');
        let (Some(name), Some(burst), Some(came_out)) = (parts.next(), parts.next(), parts.next())
        else {
            bail!("told: {}", stretch.name);
        };
        Ok(Self {
            name: name.to_owned(),
            burst: burst.parse()?,
            came_out: came_out.parse()?,
            all: stretch.per_packet(stretch.instructions),
            devices: taken.devices,
            functions: taken.functions,
        })
    }

    fn own(&self) -> f64 {
        self.all - self.devices
    }

    fn json(&self) -> Value {
        let functions = self.functions.iter().map(|(name, count)| json!([name, rounded(*count)]));
        json!({
            "name": self.name,
            "burst": self.burst,
            "instructions": rounded(self.all),
            "devices": rounded(self.devices),
            "own": rounded(self.own()),
            "came_out": rounded(self.came_out),
            "functions": functions.collect::<Vec<_>>(),
        })
    }
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or_default().max(13);
    let mut text = format!(
        "{:width$}{:>7}{:>9}{:>9}{:>9}{:>10}\n",
        "configuration", "burst", "all", "devices", "own", "came out"
    );
    for row in rows {
        text += &format!(
            "{:width$}{:>7}{:>9.1}{:>9.1}{:>9.1}{:>9.0}%\n",
            row.name,
            row.burst,
            row.all,
            row.devices,
            row.own(),
            row.came_out * 100.0
        );
        for (name, count) in &row.functions {
            text += &format!("{count:>12.1}  {name}\n");
        }
    }
    text
}

impl Subject {
    /// The arguments of the worker.
    fn words(&self) -> Vec<String> {
        let mut words = vec!["own-worker".to_owned(), format!("--routes={}", self.routes)];
        words.extend(self.burst.iter().map(|burst| format!("--burst={burst}")));
        words.extend(self.rules.iter().map(|rules| format!("--rules={}", rules.display())));
        words.extend(self.write.iter().map(|write| format!("--write={write}")));
        words.extend(self.filters.then(|| "--filters".to_owned()));
        words.extend(self.no_optimise.then(|| "--no-optimise".to_owned()));
        words.push("--".to_owned());
        words.extend(self.files.iter().map(|file| file.display().to_string()));
        words
    }

    /// Names and texts of the configurations.
    fn configurations(&self) -> anyhow::Result<Vec<(String, String)>> {
        if self.files.is_empty() {
            return Ok(PLAIN.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
        }
        let read = |file: &PathBuf| {
            let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok((name, text))
        };
        self.files.iter().map(read).collect()
    }
}

/// What is run under callgrind.
#[derive(clap::Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    subject: Subject,
}

impl Worker {
    /// Runs each configuration with each length of bursts between two marks.
    ///
    /// # Errors
    /// A configuration is wrong, or gets no packets.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let subject = &self.subject;
        for (name, text) in subject.configurations()? {
            self.tell(&Prepared::new(&name, &text, subject)?)?;
        }
        if subject.filters {
            for (count, hits) in
                [10, 100, 1000].into_iter().flat_map(|count| [(count, false), (count, true)])
            {
                self.tell(&Prepared::filter(Drawn { count, seed: 1, hits }, subject)?)?;
            }
        }
        Ok(())
    }

    /// Runs a configuration with each length of bursts.
    fn tell(&self, prepared: &Prepared) -> anyhow::Result<()> {
        let name = prepared.name();
        for &burst in &self.subject.burst {
            let run = prepared.run(burst.into()).with_context(|| name.to_owned())?;
            ensure!(!run.slices.is_empty(), "{name}: too few packets were received");
            let packets = run.slices.iter().map(|slice| slice.packets).sum();
            let burst = u64::from(burst).min(run.wanted);
            let came_out = run.counts.1 as f64 / run.counts.0.max(1) as f64;
            callgrind::tell(&format!("{name}\t{burst}\t{came_out}"), packets);
        }
        Ok(())
    }
}

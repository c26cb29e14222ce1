//! Snap's figures (Sun and Ricci, ANCS'13), measured on this work: each is a command that checks that the application does the
//! same in a section as on the CPU, and gives a table, a report for programs and a plot.
//!
//! | name | after |
//! |---|---|
//! | `kernels` | lookup, classifier and matcher on the device alone, by the size of batches |
//! | `batch` | figure 2: a device against the CPU, by the size of batches |
//! | `applications` | table 1: forwarder, router, IDS, SDN |
//! | `sizes` | figure 8: three applications by packet size; slices against whole packets |
//! | `divergence` | figure 9: packets that go to two matchers |
//! | `router` | figure 11: the full router with an intrusion detection |
//! | `latency` | how long packets take, by the size of batches |
//!
//! On the host backend the figures show that all is right, and what the frame around a device costs; what a device would give
//! they do not show.

mod apps;
mod device;
mod kernels;
mod sweep;

use std::path::PathBuf;

use anyhow::Context;
use millrace_testkit::generate::patterns;
use serde_json::json;

use self::apps::Fixture;
pub(crate) use self::device::Calibration;
use crate::figures::{self, figure::Figure};
use crate::machine::{self, Machine};

/// Which figures, on what, and where they go.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Makes only the figure of this name; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = NAMES)]
    only: Vec<String>,

    /// What sections run on, as the element GPURuntime takes it: auto, cuda, host or simulator.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,

    /// Writes each figure's plot into this directory, as NAME.svg.
    #[arg(long, value_name = "DIRECTORY")]
    svg: Option<PathBuf>,

    /// Writes each figure's report for programs into this directory, as NAME.json.
    #[arg(long, value_name = "DIRECTORY")]
    json: Option<PathBuf>,

    /// How often each case is measured; the figures show medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Packets of a run.
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = clap::value_parser!(u32).range(10_000..))]
    packets: u32,

    /// Rules of the classifier.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rules: u32,

    /// Patterns, one a line; made up unless given.
    #[arg(long, value_name = "FILE")]
    patterns: Option<PathBuf>,

    /// The core to run on; the last one unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,
}

/// Makes a figure.
type Maker = fn(&Bench) -> anyhow::Result<Figure>;

/// The figures, in the order of the book's page.
const FIGURES: [(&str, Maker); 7] = [
    ("kernels", kernels::figure),
    ("batch", sweep::batch),
    ("applications", sweep::applications),
    ("sizes", sweep::sizes),
    ("divergence", sweep::divergence),
    ("router", sweep::router),
    ("latency", sweep::latency),
];

const NAMES: [&str; 7] = {
    let mut names = [""; 7];
    let mut at = 0;
    while at < names.len() {
        names[at] = FIGURES[at].0;
        at += 1;
    }
    names
};

/// Patterns that are made up where no file is given: as many as the largest free set of phrases has.
const PATTERNS: usize = 3640;

/// What every figure is made on.
struct Bench {
    hertz: f64,
    core: usize,
    rounds: u32,
    packets: usize,
    device: String,
    fixture: Fixture,
    /// What the figures are true of, for the notes.
    place: String,
}

impl Options {
    /// Makes the figures.
    ///
    /// # Errors
    /// A configuration is wrong, does not in a section what it does on the CPU or loses packets, or a file cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let machine = Machine::look();
        let patterns = match &self.patterns {
            None => patterns::made_up(PATTERNS, 1),
            Some(file) => lines(file)?,
        };
        let bench = Bench {
            hertz: machine.hertz,
            core: self.core.map_or_else(machine::last_core, Ok)?,
            rounds: self.rounds,
            packets: self.packets as usize,
            device: self.device.clone(),
            place: format!(
                "Device: {}; {} rules of the kind acl1, {} patterns; one core.",
                self.device,
                self.rules,
                patterns.len()
            ),
            fixture: Fixture::new(&self.device, self.rules as usize, patterns)?,
        };
        for place in self.svg.iter().chain(&self.json) {
            std::fs::create_dir_all(place).with_context(|| place.display().to_string())?;
        }
        println!("{}, commit {}\n", machine.cpu, machine.commit);
        for (name, make) in FIGURES {
            if self.only.is_empty() || self.only.iter().any(|only| only == name) {
                let figure = make(&bench).with_context(|| format!("the figure {name}"))?;
                println!("{}", figure.table());
                let options = json!({
                    "suite": "gpu",
                    "device": self.device,
                    "rounds": self.rounds,
                    "packets": self.packets,
                    "rules": self.rules,
                    "notes": figure.notes,
                });
                figures::write(
                    &figure,
                    self.svg.as_deref(),
                    self.json.as_deref(),
                    &machine,
                    options,
                )?;
            }
        }
        Ok(())
    }
}

fn lines(file: &std::path::Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(<[u8]>::to_vec).collect())
}

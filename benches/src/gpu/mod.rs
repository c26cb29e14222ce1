//! Snap's figures (Sun and Ricci, ANCS'13), measured on this work: each is a command that checks that the application does the
//! same in a section as on the CPU, and gives a table, a report for programs and a plot.
//!
//! | name | after |
//! |---|---|
//! | `kernels` | lookups, classifier and matcher by themselves: kernel, copies, packets, and the CPU's engines |
//! | `batch` | figure 2: a device against the CPU, by the size of batches |
//! | `applications` | table 1: forwarder, router, IDS, SDN |
//! | `sizes` | figure 8: three applications by packet size; slices against whole packets |
//! | `divergence` | figure 9: packets that go to two matchers |
//! | `router` | figure 11: the full router with an intrusion detection |
//! | `cores` | the IDS router on several cores, beside a forwarder |
//! | `latency` | how long packets take, by the size of batches |
//! | `faults` | order and loss while the device fails |
//!
//! Where the design sets a floor and an aim, the figure has them, and says on a GPU whether they are met.
//!
//! On the host backend the figures show that all is right, and what the frame around a device costs; what a device would give
//! they do not show.

mod apps;
mod bench;
mod bitmaps;
mod calibration;
mod device;
mod jobs;
mod kernels;
mod sweep;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use millrace_gpu::cuda::calibrate::calibrate;
use millrace_testkit::data::Data;
use millrace_testkit::generate::patterns;
use serde_json::json;

use self::apps::Fixture;
use self::bench::{Bench, Routes};
pub(crate) use self::calibration::Calibration;
use crate::figures::runner::{Choice, List};
use crate::machine::{self, Machine};

/// Which figures to make, with which data, and where to write them.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,

    /// The device of sections, as an argument of GPURuntime: auto, cuda, host or simulator
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,

    /// Packets per run from device to device
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = clap::value_parser!(u32).range(10_000..))]
    packets: u32,

    /// The duration of each measurement of a kernel, of copies and of engines, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    window: u64,

    /// The number of rules of the classifier
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rules: u32,

    /// A file with one pattern per line; by default the phrases of modsecurity-crs, or generated patterns if these
    /// were not fetched
    #[arg(long, value_name = "FILE")]
    patterns: Option<PathBuf>,
}

/// The figures, in the order of the book's page.
const FIGURES: &List<Bench> = &[
    ("kernels", kernels::figure),
    ("batch", sweep::batch),
    ("applications", sweep::applications),
    ("sizes", sweep::sizes),
    ("divergence", sweep::divergence),
    ("router", sweep::router),
    ("cores", sweep::cores),
    ("latency", sweep::latency),
    ("faults", sweep::faults),
];

/// The default number of measurements of each case.
const ROUNDS: u32 = 7;

/// The number of generated patterns, which is that of the largest free set of phrases.
const PATTERNS: usize = 3640;

/// Routes in the applications' tables.
const ROUTES: usize = 130_000;

/// The size of copies for measuring their rate.
const COPIED: usize = 64 << 20;

impl Options {
    /// Makes the figures.
    ///
    /// # Errors
    /// A configuration is wrong, gives other results in a section than on the CPU, or loses packets; or a file cannot
    /// be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        self.choice.check(FIGURES)?;
        let machine = Machine::look();
        let bench = self.bench(&machine)?;
        let options = json!({
            "suite": "gpu",
            "device": bench.device.caps().name,
            "backend": bench.device.caps().backend,
            "bytes_a_second_to_the_device": bench.bus,
            "rounds": bench.rounds,
            "packets": self.packets,
            "window_milliseconds": self.window,
            "rules": self.rules,
            "cores": bench.cores.len(),
        });
        self.choice.make(FIGURES, &bench, &machine, &options)
    }

    fn bench(&self, machine: &Machine) -> anyhow::Result<Bench> {
        let (patterns, origin) = self.patterns()?;
        let device = device::open(&self.device)?;
        let caps = device.caps();
        let is_gpu = caps.backend == "cuda";
        let bus = match is_gpu {
            true => Some(calibrate(0, COPIED).map_err(|why| anyhow!("{why}"))?.to_device),
            false => None,
        };
        Ok(Bench {
            hertz: machine.hertz,
            core: self.choice.core()?,
            cores: machine::cores()?,
            rounds: self.choice.rounds.unwrap_or(ROUNDS),
            packets: self.packets as usize,
            window: Duration::from_millis(self.window),
            rules: self.rules as usize,
            routes: Routes::find()?,
            is_gpu,
            bus,
            place: format!(
                "Device: {}; {} rules of the kind acl1 where no other is named, {} patterns ({origin}).",
                caps.name,
                self.rules,
                patterns.len()
            ),
            brief: false,
            fixture: Fixture::new(&self.device, ROUTES, self.rules as usize, patterns)?,
            device,
        })
    }

    /// The patterns, and where they come from.
    fn patterns(&self) -> anyhow::Result<(Vec<Vec<u8>>, &'static str)> {
        if let Some(file) = &self.patterns {
            return Ok((lines(file)?, "of a file"));
        }
        match Data::Phrases.folder() {
            Some(folder) => Ok((patterns::phrases(&folder)?, "phrases of modsecurity-crs")),
            None => Ok((patterns::made_up(PATTERNS, 1), "made up")),
        }
    }
}

fn lines(file: &std::path::Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every figure checks what it measures, so making it is the test.
    #[test]
    fn every_figure_can_be_made() {
        let cores = machine::cores().unwrap();
        let bench = Bench {
            hertz: 2e9,
            core: machine::last_core().unwrap(),
            cores: cores.into_iter().take(2).collect(),
            rounds: 1,
            packets: 2000,
            window: Duration::from_millis(1),
            rules: 40,
            routes: Routes { kind: "few", routes: crate::traffic::routes(1000) },
            device: device::open("host").unwrap(),
            is_gpu: false,
            bus: None,
            fixture: Fixture::new("host", 1000, 40, patterns::made_up(20, 1)).unwrap(),
            place: String::new(),
            brief: true,
        };
        for (name, make) in FIGURES {
            let figure = make(&bench).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert_eq!(figure.name, *name);
            for series in figure.panels.iter().flat_map(|panel| &panel.series) {
                let sane = |&(_, y): &(f64, f64)| y.is_finite() && y >= 0.0;
                assert!(!series.points.is_empty(), "{name}: {}", series.label);
                assert!(series.points.iter().all(sane), "{name}: {series:?}");
            }
            assert!(figure.targets.iter().all(|target| target.value.is_finite()), "{name}");
        }
    }
}

//! Measures the cost of packets in memory, on one pinned thread, in cycles and instructions.
//!
//! The devices are those of the benchmarks ([`devices`]). Configurations take turns, round after round, and each
//! round uses a new router, so that neither changes of the machine's speed nor the address of a table in memory
//! favour one of them. Before the measurement, each configuration must give the same results with bursts as with
//! single packets.

mod case;
mod counters;
mod devices;
mod figures;
mod rounds;
pub(crate) mod suites;

use std::path::PathBuf;

use serde_json::json;

pub(crate) use self::case::{Configuration, Run, Way};
use self::counters::Counters;
pub(crate) use self::devices::{INGRESS, Length, Manner, Trace};
use self::figures::Figures;
pub(crate) use self::rounds::{Case, Turns};
use crate::machine::{self, Machine};
use crate::{report, traffic};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each configuration is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Most packets at a time, 1 to 256; may be given several times.
    #[arg(long, value_name = "N", default_values_t = [32, 256], value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: Vec<u16>,

    /// Measures only the configuration or the element of this name; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Routes in the routers' tables.
    #[arg(long, value_name = "N", default_value_t = ROUTES, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    routes: u32,

    /// The core to run on; the last one unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Routers,
    Elements,
    Both,
}

/// Routes in the routers' tables unless another number is wanted.
const ROUTES: u32 = 130_000;

/// A run that is timed.
pub(crate) const LENGTH: Length = Length { warm_up: 32_768, slice: 8192, slices: 32, keep: false };

impl Options {
    /// Options for the routers with their usual table.
    pub(crate) fn routers(
        rounds: u32,
        burst: &[u16],
        core: Option<usize>,
        json: &Option<PathBuf>,
    ) -> Self {
        let (burst, json) = (burst.to_vec(), json.clone());
        Self { rounds, burst, only: Vec::new(), routes: ROUTES, core, json }
    }

    /// Measures and reports.
    ///
    /// # Errors
    /// A configuration is wrong, loses packets, or its results depend on the length of bursts.
    pub(crate) fn run(&self, subject: Subject) -> anyhow::Result<()> {
        let core = self.core.map_or_else(machine::last_core, Ok)?;
        let machine = Machine::look();
        println!(
            "{}, time stamp counter {:.2} GHz, core {core}; commit {}\n\
             {} routes, frames of {} bytes (64 with the check sequence), {} rounds\n",
            machine.cpu,
            machine.hertz / 1e9,
            machine.commit,
            self.routes,
            traffic::FRAME_LEN,
            self.rounds
        );
        if let Err(error) = Counters::start() {
            println!("no column for instructions: the kernel gives no counter of them: {error}\n");
        }

        let routes = traffic::routes(self.routes as usize);
        let trace: Trace = traffic::trace(&routes)?.into();
        let mut configurations = Vec::new();
        if subject != Subject::Elements {
            configurations.extend(suites::routers(&routes));
        }
        if subject != Subject::Routers {
            configurations.extend(suites::elements(&routes));
        }
        if !self.only.is_empty() {
            configurations.retain(|configuration| self.only.contains(&configuration.graph.name));
            anyhow::ensure!(!configurations.is_empty(), "--only: there is nothing of this name");
        }
        let rows = self.measure(&configurations, core, &trace)?;
        print!("{}", figures::tables(&rows, machine.hertz));
        let options = json!({
            "suite": format!("{subject:?}").to_lowercase(),
            "rounds": self.rounds,
            "burst": self.burst,
            "routes": self.routes,
            "core": core,
            "frame": traffic::FRAME_LEN,
        });
        let rows = rows.iter().map(|row| row.json(machine.hertz)).collect();
        report::write(self.json.as_deref(), &machine, options, rows)
    }

    fn measure(
        &self,
        configurations: &[Configuration],
        core: usize,
        trace: &Trace,
    ) -> anyhow::Result<Vec<Figures>> {
        let mut rows = Vec::new();
        for configuration in configurations {
            for &burst in &self.burst {
                configuration.gate(burst.into(), core, trace)?;
                rows.push((configuration, Figures::new(configuration, burst.into())));
            }
        }
        for _ in 0..self.rounds {
            for (configuration, figures) in &mut rows {
                figures.add(&configuration.run(figures.burst, core, trace, LENGTH)?);
            }
        }
        Ok(rows.into_iter().map(|(_, figures)| figures).collect())
    }
}

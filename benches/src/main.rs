//! `cargo xtask bench`: what packets cost, in memory, on the engine that users run.
//!
//! One thread, pinned; the devices are the bench's own ([`devices`]). Configurations take turns,
//! round after round, each round on a router made afresh, so that neither the machine's moods nor
//! the place of a table in memory favour one of them. Before anything is timed, each configuration
//! must do with bursts what it does with one packet at a time.

mod case;
mod devices;
mod figures;
mod instructions;
mod machine;
mod suites;
mod traffic;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use serde_json::json;

use case::Configuration;
use devices::{Length, Trace};
use figures::Figures;
use instructions::Instructions;
use machine::Machine;

/// Measures cycles and instructions a packet, in memory.
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
struct Cli {
    /// What to measure.
    suite: Suite,

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
    #[arg(long, value_name = "N", default_value_t = 130_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    routes: u32,

    /// The core to run on; the last one unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// A forwarder, a minimal router and the full router of the examples.
    Router,
    /// Each element by itself.
    Elements,
    /// Both.
    All,
}

/// A run that is timed.
const LENGTH: Length = Length { warm_up: 32_768, slice: 8192, slices: 32, keep: false };

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Cli {
    fn run(&self) -> anyhow::Result<()> {
        if cfg!(debug_assertions) {
            eprintln!("bench: built without optimisation; the figures say nothing");
        }
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
        if let Err(error) = Instructions::start() {
            println!("no column for instructions: the kernel gives no counter of them: {error}\n");
        }

        let routes = traffic::routes(self.routes as usize);
        let trace: Trace = traffic::trace(&routes)?.into();
        let mut configurations = Vec::new();
        if self.suite != Suite::Elements {
            configurations.extend(suites::routers(&routes));
        }
        if self.suite != Suite::Router {
            configurations.extend(suites::elements(&routes));
        }
        if !self.only.is_empty() {
            configurations.retain(|configuration| self.only.contains(&configuration.name));
            anyhow::ensure!(!configurations.is_empty(), "--only: there is nothing of this name");
        }
        let rows = self.measure(&configurations, core, &trace)?;
        print!("{}", figures::tables(&rows, machine.hertz));
        self.write_json(&rows, &machine, core)
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

    fn write_json(&self, rows: &[Figures], machine: &Machine, core: usize) -> anyhow::Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let report = json!({
            "commit": machine.commit,
            "date": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            "cpu": machine.cpu,
            "hertz": machine.hertz.round(),
            "options": {
                "suite": format!("{:?}", self.suite).to_lowercase(),
                "rounds": self.rounds,
                "burst": self.burst,
                "routes": self.routes,
                "core": core,
                "frame": traffic::FRAME_LEN,
            },
            "rows": rows.iter().map(|row| row.json(machine.hertz)).collect::<Vec<_>>(),
        });
        std::fs::write(path, format!("{report:#}\n")).with_context(|| path.display().to_string())
    }
}

//! The figures of the papers that this work stands on, measured on this work: each is a command that gives a
//! table, a report for programs and a plot.
//!
//! | name | after |
//! |---|---|
//! | `vectors` | VPP (Barach et al., 2018), figure 2: the length of vectors |
//! | `loops` | VPP, figure 3: multi-loops and prefetching |
//! | `batching` | DoubleClick (Kim et al., APSys 2012), figure 2: I/O batching, then computation batching |
//! | `steps` | FastClick (Barbette et al., ANCS 2015), figure 15: one thing switched on after the other |
//! | `split` | DoubleClick's open question: what a classifier leaves of a batch |
//! | `latency` | how long packets take at low, middling and high load |
//! | `growth` | what more routes, rules and elements cost |
//! | `lookups`, `rules` | what the suites of these names have found, drawn from their reports |
//!
//! Everything runs in memory, on the devices of [`crate::cycles`] or, where packets must arrive at given times,
//! on devices of its own ([`crate::feed`]).

mod batching;
mod bench;
pub(crate) mod figure;
mod growth;
pub(crate) mod latency;
mod loops;
mod plot;
mod reports;
pub(crate) mod runner;
mod split;
mod steps;
pub(crate) mod target;
mod vectors;

use std::path::PathBuf;

use anyhow::bail;
use serde_json::json;

use self::bench::{Bench, ROUTES};
use self::runner::{Choice, List};
use crate::cycles;
use crate::machine::Machine;
use crate::traffic;

/// Which figures to make, and where to write them.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    choice: Choice,

    /// Draws `lookups` from this report of `bench lookup --json`
    #[arg(long, value_name = "FILE")]
    lookups: Option<PathBuf>,

    /// Draws `rules` from this report of `bench rules --json`
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

/// The figures, in the order of the book's page.
const FIGURES: &List<Bench> = &[
    ("vectors", vectors::figure),
    ("loops", loops::figure),
    ("batching", batching::figure),
    ("steps", steps::figure),
    ("split", split::figure),
    ("latency", latency::figure),
    ("growth", growth::figure),
];

/// The default number of measurements of each case.
const ROUNDS: u32 = 3;

impl Options {
    /// Makes the figures.
    ///
    /// # Errors
    /// A configuration is wrong or loses packets, or a file cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let routes = traffic::routes(ROUTES);
        let bench = Bench {
            machine: Machine::look(),
            core: self.choice.core()?,
            rounds: self.choice.rounds.unwrap_or(ROUNDS),
            length: cycles::LENGTH,
            trace: traffic::trace(&routes)?.into(),
            routes,
            brief: false,
        };
        let options = json!({"suite": "figures", "rounds": bench.rounds, "core": bench.core});
        let lookups = self.lookups.as_deref().map(reports::lookups);
        let rules = self.rules.as_deref().map(reports::rules);
        let drawn: Vec<_> = [lookups, rules].into_iter().flatten().collect::<Result<_, _>>()?;
        // If reports are given, only the other figures that are named.
        if drawn.is_empty() || !self.choice.only.is_empty() {
            self.choice.make(FIGURES, &bench, &bench.machine, &options)?;
        }
        drawn.iter().try_for_each(|figure| self.choice.keep(figure, &bench.machine, &options))
    }
}

/// A part of a figure that runs in a process of its own.
#[derive(clap::Args)]
pub(crate) struct Worker {
    /// Which part.
    #[arg(value_name = "NAME")]
    name: String,

    #[arg(long)]
    core: usize,

    /// The arguments of the part.
    words: Vec<String>,
}

impl Worker {
    /// Runs it and prints what it finds.
    ///
    /// # Errors
    /// A configuration is wrong or loses packets.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match self.name.as_str() {
            "vectors" => vectors::work(self.core),
            "steps" => steps::work(self.core, &self.words),
            name => bail!("no figure {name} has work to do"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_can_be_made_and_drawn() {
        let routes = traffic::routes(100);
        let bench = Bench {
            machine: Machine { cpu: String::new(), hertz: 2e9, commit: String::new() },
            core: crate::machine::last_core().unwrap(),
            rounds: 1,
            length: cycles::Length { warm_up: 256, slice: 512, slices: 1, keep: false },
            trace: traffic::trace(&routes).unwrap().into(),
            routes,
            brief: true,
        };
        for (name, make) in FIGURES {
            let figure = make(&bench).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert_eq!(figure.name, *name);
            assert!(!figure.panels.is_empty(), "{name}");
            for panel in &figure.panels {
                assert!(!panel.series.is_empty(), "{name}: {}", panel.title);
                for series in &panel.series {
                    let sane = |&(_, y): &(f64, f64)| y.is_finite() && y >= 0.0;
                    assert!(!series.points.is_empty(), "{name}: {}", series.label);
                    assert!(series.points.iter().all(sane), "{name}: {series:?}");
                }
            }
            let picture = plot::svg(&figure);
            assert!(!picture.contains("NaN"), "{name}");
            assert!(figure.table().lines().count() > 3, "{name}");
        }
    }
}

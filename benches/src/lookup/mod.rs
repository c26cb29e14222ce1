//! The cost of a route lookup: the structures of the routing elements with the Internet's routes, and with tables of
//! one route to a million.
//!
//! Structures take turns, round after round, and for each piece of the work the best round counts, so that other work
//! of the machine does not matter. Before the measurement, each structure must find the same as a simple prefix tree
//! ([`oracle`]).

mod curve;
mod measure;
mod oracle;
mod subject;
mod table;
pub(crate) mod tables;
mod updates;
mod worker;

use std::path::PathBuf;

use anyhow::ensure;
use millrace_elements::ip::lookup::Route;
use serde_json::{Value, json};

use self::measure::{Destinations, Lookups};
use self::oracle::Oracle;
use self::subject::{STRUCTURES, Structure};
use self::updates::Updates;
pub(crate) use self::worker::Worker;
use crate::machine::{self, Machine};
use crate::report;

/// What to measure, and how.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The number of turns of each structure
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// A folder of routing tables, files with one route per line: `PREFIX NUMBER`; `cargo xtask bench lookup` fetches
    /// three of RouteViews; by default 130,000 and 512,000 generated routes
    #[arg(long, value_name = "FOLDER")]
    tables: Option<PathBuf>,

    /// Measures only the structure of this name; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Measures only the curve: costs by the number of routes
    #[arg(long, conflicts_with = "no_curve")]
    curve: bool,

    /// Does not measure the curve
    #[arg(long)]
    no_curve: bool,

    /// Also counts instructions per lookup with callgrind, which takes some minutes
    #[arg(long)]
    instructions: bool,

    /// The core to run on; the last one unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// A table cannot be read, or a structure finds a wrong route.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let structures: Vec<&Structure> =
            STRUCTURES.iter().filter(|one| self.wants(one.name)).collect();
        ensure!(!structures.is_empty(), "--only: there is nothing of this name");
        let core = self.core.map_or_else(machine::last_core, Ok)?;
        let elsewhere = machine::cores()?.into_iter().find(|other| *other != core);
        machine::pin(core)?;
        let machine = Machine::look();
        println!(
            "{}, time stamp counter {:.2} GHz, core {core}; commit {}; {} rounds\n",
            machine.cpu,
            machine.hertz / 1e9,
            machine.commit,
            self.rounds
        );
        let mut rows = Vec::new();
        if !self.curve {
            let fetched = std::env::var_os(tables::VARIABLE).map(PathBuf::from);
            for (name, routes) in tables::all(self.tables.as_deref().or(fetched.as_deref()))? {
                rows.extend(self.on_table(&name, &routes, &structures, elsewhere)?);
            }
        }
        if self.instructions {
            let words: Vec<&str> = structures.iter().map(|one| one.name).collect();
            rows.extend(worker::count(&words)?);
        }
        if !self.no_curve {
            rows.extend(curve::measure(&structures, self.rounds)?);
        }
        let options = json!({
            "suite": "lookup",
            "rounds": self.rounds,
            "only": self.only,
            "core": core,
            "batch": subject::BATCH,
        });
        report::write(self.json.as_deref(), &machine, options, rows)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Measures and prints all figures of one table.
    fn on_table(
        &self,
        name: &str,
        routes: &[Route],
        structures: &[&Structure],
        elsewhere: Option<usize>,
    ) -> anyhow::Result<Vec<Value>> {
        let oracle = Oracle::new(routes);
        let mut subjects = Vec::new();
        for structure in structures {
            let built = measure::build(structure, routes, self.rounds)?;
            oracle.compare(&*built.subject, structure.name)?;
            subjects.push(built);
        }
        let kinds = Destinations::all(routes);
        let mut lookups = vec![vec![Lookups::default(); kinds.len()]; subjects.len()];
        for _ in 0..self.rounds {
            for (at, kind) in kinds.iter().enumerate() {
                for (built, lookups) in subjects.iter().zip(&mut lookups) {
                    if let Some(lookups) = lookups.get_mut(at) {
                        lookups.add_round(&*built.subject, &kind.addresses);
                    }
                }
            }
        }
        let mut rows = Vec::new();
        let mut lines = Vec::new();
        for ((structure, built), lookups) in structures.iter().zip(&subjects).zip(&lookups) {
            let updates = Updates::measure(&*built.subject, routes, &oracle, elsewhere)?;
            // After all changes, the table is the original one.
            oracle.compare(&*built.subject, structure.name)?;
            rows.push(json!({
                "kind": "table",
                "table": name,
                "routes": routes.len(),
                "structure": structure.name,
                "build_ms": report::rounded(built.milliseconds),
                "memory": built.memory.1,
                "routes_memory": built.memory.0,
                "updates": updates.json(),
            }));
            for (kind, lookups) in kinds.iter().zip(lookups) {
                rows.push(json!({
                    "kind": "lookup",
                    "table": name,
                    "routes": routes.len(),
                    "structure": structure.name,
                    "destinations": kind.name,
                    "single_ns": report::rounded(lookups.single()),
                    "batched_ns": report::rounded(lookups.batched()),
                }));
            }
            lines.push(table::Line { structure: structure.name, built, lookups, updates });
        }
        print!("{}", table::of_table(name, routes.len(), &kinds, &lines));
        Ok(rows)
    }
}

//! The cost of counting: the routers in this program, and in one that was built without the engine's counters
//! (feature `uncounted`), in turns. Each turn is a process of its own. The difference is smaller than the
//! disturbances by other work on the machine, which only ever add time. So the minimum cycles of all turns are
//! compared, not the median.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use millrace_elements::ip::lookup::Route;
use serde_json::{Value, json};

use super::{BURSTS, Row, variant};
use crate::cycles::{self, Case, Trace, suites};
use crate::{machine, traffic};

/// Routes in the routers' tables: counting does not depend on how many, and a process fills them each time.
const ROUTES: usize = 10_000;

/// The rows; without figures when there is no program without counters.
///
/// # Errors
/// A program fails.
pub(super) fn rows(core: usize, rounds: u32) -> anyhow::Result<Vec<Row>> {
    let names: Vec<(String, usize)> = cases(&[]).iter().map(Case::key).collect();
    let mut least = vec![(f64::INFINITY, f64::INFINITY); names.len()];
    if let Some(uncounted) = variant("uncounted") {
        let routes = traffic::routes(ROUTES);
        let trace: Trace = traffic::trace(&routes)?.into();
        for Case { configuration, burst } in cases(&routes) {
            configuration.gate(burst, core, &trace)?;
        }
        let counted = std::env::current_exe().context("where this program is")?;
        for _ in 0..rounds {
            let (with, without) = (run(&counted, core)?, run(&uncounted, core)?);
            ensure!(with.len() == names.len() && without.len() == names.len(), "cases are missing");
            for ((with, without), least) in with.iter().zip(&without).zip(&mut least) {
                *least = (with.min(least.0), without.min(least.1));
            }
        }
    }
    let rows = names.into_iter().zip(least).map(|((name, burst), (with, without))| Row {
        workload: format!("always-on counters, {name}"),
        burst,
        figure: without.is_finite().then(|| (with / without - 1.0) * 100.0),
        unit: "percent of the cycles without",
        floor: 2.0,
        aim: 1.0,
    });
    Ok(rows.collect())
}

/// The routers, with each length of bursts.
fn cases(routes: &[Route]) -> Vec<Case> {
    let routers = suites::routers(routes).into_iter();
    routers
        .flat_map(|configuration| {
            BURSTS.map(|burst| Case { configuration: configuration.clone(), burst })
        })
        .collect()
}

impl Case {
    fn key(&self) -> (String, usize) {
        (self.configuration.graph.name.clone(), self.burst)
    }
}

/// Lets a program have its turn. Gives cycles a packet, case by case.
fn run(program: &Path, core: usize) -> anyhow::Result<Vec<f64>> {
    let mut command = Command::new(program);
    command.args(["overhead-worker", "--core", &core.to_string()]);
    let told = machine::told(&mut command)?;
    let cycles = told.lines().map(|line| {
        let told: Value = serde_json::from_str(line)?;
        told["cycles"].as_f64().with_context(|| format!("told: {line}"))
    });
    cycles.collect()
}

/// A turn of this program.
#[derive(clap::Args)]
pub(crate) struct Worker {
    #[arg(long)]
    core: usize,
}

impl Worker {
    /// Runs every case once and prints its cycles a packet.
    ///
    /// # Errors
    /// A configuration is wrong or loses packets.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let routes = traffic::routes(ROUTES);
        let trace: Trace = traffic::trace(&routes)?.into();
        for Case { configuration, burst } in cases(&routes) {
            let run = configuration.run(burst, self.core, &trace, cycles::LENGTH)?;
            println!(
                "{}",
                json!({ "name": configuration.graph.name, "burst": burst, "cycles": run.cycles() })
            );
        }
        Ok(())
    }
}

//! Batching, prefetching and recycling, switched on one after the other: FastClick's figure 15.
//!
//! Each step runs in a process of its own, in turns, because the program without prefetching is built with the
//! feature `no-prefetch`. Transmitting devices hold packets as cards do, so that packet memory is in no near cache
//! when it is reused. Otherwise prefetching would have no effect.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use millrace_elements::ip::lookup::Route;

use super::batching::{one_at_a_time, work as cycles_of};
use super::bench::{Bench, ROUTES};
use super::figure::{Axis, Figure, Panel, Scale, Series};
use crate::cycles::{self, Configuration, Length, Manner, Trace, suites};
use crate::overhead::variant;
use crate::report::median;
use crate::{machine, traffic};

/// A step: its name, and what is switched on.
struct Step {
    name: &'static str,
    word: &'static str,
    batches: bool,
    prefetch: bool,
    recycling: bool,
}

const STEPS: [Step; 4] = [
    Step { name: "none", word: "none", batches: false, prefetch: false, recycling: false },
    Step { name: "+ batching", word: "batching", batches: true, prefetch: false, recycling: false },
    Step { name: "+ prefetch", word: "prefetch", batches: true, prefetch: true, recycling: false },
    Step { name: "+ recycling", word: "recycling", batches: true, prefetch: true, recycling: true },
];

/// The configurations, from the suite of routers.
const NAMES: [&str; 3] = ["forward", "minimal-router", "full-router"];

/// Most packets at a time.
const BURST: usize = 32;

/// Packets that each transmitting device holds.
const HELD: usize = 4096;

/// Makes the figure.
///
/// # Errors
/// A configuration is wrong or loses packets, or a program fails.
pub(super) fn figure(bench: &Bench) -> anyhow::Result<Figure> {
    let mut notes = vec![format!(
        "Bursts of {BURST}; transmitting devices hold {HELD} packets each. Without recycling packets are taken \
         and given back one by one, with it a burst at a time; all steps take them from the thread's own list."
    )];
    let steps: Vec<(&Step, Option<PathBuf>)> = if bench.brief {
        STEPS.iter().map(|step| (step, None)).collect()
    } else if let Some(without) = variant("no-prefetch") {
        let this = std::env::current_exe().context("where this program is")?;
        let program = |step: &Step| if step.prefetch { this.clone() } else { without.clone() };
        STEPS.iter().map(|step| (step, Some(program(step)))).collect()
    } else {
        notes.push(
            "The steps without prefetching are missing: `cargo xtask bench` builds the program for them."
                .to_owned(),
        );
        STEPS.iter().filter(|step| step.prefetch).map(|step| (step, None)).collect()
    };
    for name in NAMES {
        for batches in [true, false] {
            let configuration = configuration(name, batches, &bench.routes)?;
            configuration.gate(BURST, bench.core, &bench.trace)?;
        }
    }
    let mut found = vec![vec![Vec::new(); NAMES.len()]; steps.len()];
    for _ in 0..bench.rounds {
        for ((step, program), found) in steps.iter().zip(&mut found) {
            let cycles = match program {
                Some(program) => ask(program, step, bench.core)?,
                None => run(step, &bench.routes, &bench.trace, bench.core, bench.length)?,
            };
            ensure!(cycles.len() == NAMES.len(), "{}: cases are missing", step.name);
            for (cycles, found) in cycles.into_iter().zip(found) {
                found.push(cycles);
            }
        }
    }
    let series = NAMES.iter().enumerate().map(|(at, name)| {
        let points = found.iter().enumerate().filter_map(|(step, found)| {
            let cycles = median(found.get(at)?.clone())?;
            Some((step as f64, bench.mpps(cycles)))
        });
        Series::new(*name, points.collect())
    });
    Ok(Figure {
        name: "steps",
        title: "One thing after the other (FastClick, figure 15)".to_owned(),
        panels: vec![Panel {
            title: "Switched on so far".to_owned(),
            x: Axis::new(
                "step",
                Scale::Names(steps.iter().map(|(step, _)| step.name.to_owned()).collect()),
            ),
            y: Axis::new("Mpps, one core", Scale::Linear),
            series: series.collect(),
        }],
        targets: Vec::new(),
        notes,
    })
}

/// Runs a step with a program in a process of its own. Returns cycles per packet, by configuration.
fn ask(program: &PathBuf, step: &Step, core: usize) -> anyhow::Result<Vec<f64>> {
    let mut command = Command::new(program);
    command.args(["figures-worker", "steps", step.word, "--core", &core.to_string()]);
    let told = machine::told(&mut command)?;
    told.lines().map(|line| line.parse().with_context(|| format!("told: {line}"))).collect()
}

/// A step in this process.
///
/// # Errors
/// There is no such step, or it cannot be run.
pub(super) fn work(core: usize, words: &[String]) -> anyhow::Result<()> {
    let step = STEPS.iter().find(|step| words.first().is_some_and(|word| word == step.word));
    let Some(step) = step else { bail!("no step {words:?}") };
    let routes = traffic::routes(ROUTES);
    let trace: Trace = traffic::trace(&routes)?.into();
    for cycles in run(step, &routes, &trace, core, cycles::LENGTH)? {
        println!("{cycles}");
    }
    Ok(())
}

/// Runs a step once. Returns cycles per packet, by configuration.
fn run(
    step: &Step,
    routes: &[Route],
    trace: &Trace,
    core: usize,
    length: Length,
) -> anyhow::Result<Vec<f64>> {
    let manner = Manner { singly: !step.recycling, held: HELD, ..Manner::default() };
    let runs = NAMES.iter().map(|name| {
        let configuration = configuration(name, step.batches, routes)?;
        let run = configuration.run_in(manner, BURST, core, trace, length)?;
        cycles_of(&run).context("no slices")
    });
    runs.collect()
}

/// One of the routers, with batches in its graph or with single packets.
fn configuration(name: &str, batches: bool, routes: &[Route]) -> anyhow::Result<Configuration> {
    let whole = suites::routers(routes).into_iter().find(|one| one.graph.name == name);
    let whole = whole.with_context(|| format!("there is no {name}"))?;
    if batches { Ok(whole) } else { one_at_a_time(&whole) }
}

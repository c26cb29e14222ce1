//! The best length of vectors: VPP's figure 2. Longer ones distribute the cost of an element over more packets. And
//! once the instructions of an element are in the first-level cache, they are used more often before those of the
//! next element replace them.

use anyhow::Context;
use millrace_core::Batch;
use millrace_core::isa::Level;
use millrace_elements::ip::lookup::Route;
use millrace_testkit::find_program;

use super::bench::Bench;
use super::figure::{Axis, Figure, Panel, Scale, Series};
use crate::callgrind;
use crate::cycles::{Case, Configuration, Length, Trace, suites};
use crate::report::median;
use crate::traffic;

/// Lengths of vectors. VPP goes to 1,024; our batches hold [`Batch::CAPACITY`] packets.
const BURSTS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, Batch::CAPACITY];

/// The configurations, from the suite of routers.
const NAMES: [&str; 2] = ["minimal-router", "full-router"];

/// Makes the figure.
///
/// # Errors
/// A configuration is wrong or loses packets, or callgrind fails.
pub(super) fn figure(bench: &Bench) -> anyhow::Result<Figure> {
    let cases = cases(&bench.routes, &bench.values(&BURSTS));
    let cycles = bench.turns().cycles(&cases)?;
    let cycles: Option<Vec<f64>> = cycles.into_iter().map(median).collect();
    let cycles = cycles.context("no rounds")?;
    let panel = |title: &str, label: &str, values: Vec<f64>| Panel {
        title: title.to_owned(),
        x: Axis::new("vector, packets", Scale::Log2),
        y: Axis::new(label, Scale::Linear),
        series: series(&cases, &values),
    };
    let mpps = cycles.iter().map(|&cycles| bench.mpps(cycles)).collect();
    let mut panels = vec![panel("Speed", "Mpps, one core", mpps)];
    let mut notes = vec![format!(
        "Vectors of VPP's figure go to 1,024 packets; a batch here holds {} at most.",
        Batch::CAPACITY
    )];
    let counted = match by_processor(bench, &cases)? {
        Some(counted) => Some(counted),
        None if !bench.brief && find_program("valgrind").is_some() => {
            notes.push(
                "Instructions and cache misses are counted by callgrind, on a processor without AVX-512 and a simulated \
                 cache without prefetcher; cycles are those of the machine's time stamp counter, which may run slower \
                 than the core."
                    .to_owned(),
            );
            Some(by_callgrind(bench, &cycles)?)
        }
        None => {
            notes.push("Nobody counts instructions: no counter, and no valgrind.".to_owned());
            None
        }
    };
    if let Some(Counted { how, instructions, per_cycle, l1i_misses }) = counted {
        panels.push(panel("Instructions", &format!("instructions a packet{how}"), instructions));
        panels.push(panel(
            "Instructions a cycle",
            &format!("instructions{how} a cycle"),
            per_cycle,
        ));
        if let Some(misses) = l1i_misses {
            let title = "Misses of the first cache for instructions";
            panels.push(panel(title, &format!("misses a packet{how}"), misses));
        }
    }
    let title = "Longer vectors: fewer instructions, fewer misses (VPP, figure 2)".to_owned();
    Ok(Figure { name: "vectors", title, panels, targets: Vec::new(), notes })
}

/// The counts of each case.
struct Counted {
    /// The method, if it is not the processor's counters.
    how: &'static str,
    /// Instructions a packet.
    instructions: Vec<f64>,
    /// Instructions a cycle.
    per_cycle: Vec<f64>,
    /// Misses a packet.
    l1i_misses: Option<Vec<f64>>,
}

/// Counts by the processor's counters; `None` if it has none.
fn by_processor(bench: &Bench, cases: &[Case]) -> anyhow::Result<Option<Counted>> {
    let (mut instructions, mut per_cycle, mut misses) = (Vec::new(), Vec::new(), Vec::new());
    for Case { configuration, burst } in cases {
        let run = configuration.run(*burst, bench.core, &bench.trace, bench.length)?;
        let count = run.per_packet(|slice| slice.counts.instructions);
        let cycles = run.per_packet(|slice| slice.counts.cycles);
        let (Some(count), Some(cycles)) = (count, cycles) else { return Ok(None) };
        instructions.push(count);
        per_cycle.push(count / cycles);
        misses.extend(run.per_packet(|slice| slice.counts.l1i_misses));
    }
    let l1i_misses = (misses.len() == cases.len()).then_some(misses);
    Ok(Some(Counted { how: "", instructions, per_cycle, l1i_misses }))
}

/// Counts by callgrind, and the measured cycles per packet.
fn by_callgrind(bench: &Bench, cycles: &[f64]) -> anyhow::Result<Counted> {
    let words = ["figures-worker", "vectors", "--core", &bench.core.to_string()];
    let counted = callgrind::count(&words, Level::of_processor().min(Level::Avx2), true)?;
    let instructions: Vec<f64> =
        counted.iter().map(|one| one.per_packet(one.instructions)).collect();
    let per_cycle = instructions.iter().zip(cycles).map(|(count, cycles)| count / cycles).collect();
    let misses = counted.iter().map(|one| Some(one.per_packet(one.i1_misses?))).collect();
    Ok(Counted { how: " (simulated)", instructions, per_cycle, l1i_misses: misses })
}

fn cases(routes: &[Route], bursts: &[usize]) -> Vec<Case> {
    let wanted = |one: &Configuration| NAMES.contains(&one.graph.name.as_str());
    let configurations = suites::routers(routes).into_iter().filter(wanted);
    configurations
        .flat_map(|configuration| {
            let case = move |&burst| Case { configuration: configuration.clone(), burst };
            bursts.iter().map(case)
        })
        .collect()
}

/// A series for each configuration.
fn series(cases: &[Case], values: &[f64]) -> Vec<Series> {
    let series = NAMES.map(|name| {
        let points =
            cases.iter().zip(values).filter(|(case, _)| case.configuration.graph.name == name);
        Series::new(name, points.map(|(case, value)| (case.burst as f64, *value)).collect())
    });
    series.into()
}

/// The program that callgrind runs.
///
/// # Errors
/// A configuration is wrong or loses packets.
pub(super) fn work(core: usize) -> anyhow::Result<()> {
    const LENGTH: Length = Length { warm_up: 1024, slice: 2048, slices: 1, keep: false };
    // Counts do not depend on the number of routes, and filling a table under callgrind takes long.
    let routes = traffic::routes(500);
    let trace: Trace = traffic::trace(&routes)?.into();
    for Case { configuration, burst } in cases(&routes, &BURSTS) {
        let run = configuration.run(burst, core, &trace, LENGTH)?;
        let packets = run.slices.iter().map(|slice| slice.packets).sum();
        callgrind::tell(&format!("{}, {burst}", configuration.graph.name), packets);
    }
    Ok(())
}

//! The effect of batching: DoubleClick's figure 2. First only I/O batching: devices handle bursts, and each packet
//! passes the graph alone, as in Click. Then computation batching, too: the graph handles batches.

use anyhow::{Context, ensure};

use super::bench::Bench;
use super::figure::{Axis, Figure, Panel, Scale, Series};
use crate::cycles::{Configuration, Run, suites};
use crate::report::median;

/// Lengths of bursts.
const BURSTS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Makes the figure.
///
/// # Errors
/// A configuration is wrong or loses packets.
pub(super) fn figure(bench: &Bench) -> anyhow::Result<Figure> {
    let routers = suites::routers(&bench.routes);
    let whole = routers.into_iter().find(|one| one.graph.name == "full-router");
    let whole = whole.context("there is no full router")?;
    let single = one_at_a_time(&whole)?;
    let kinds = [("I/O batching", &single), ("I/O and computation batching", &whole)];
    let bursts = bench.values(&BURSTS);
    let mut cycles = vec![Vec::new(); bursts.len() * kinds.len()];
    for (_, configuration) in kinds {
        for &burst in &bursts {
            configuration.gate(burst, bench.core, &bench.trace)?;
        }
    }
    for _ in 0..bench.rounds {
        let cases = kinds.iter().flat_map(|(_, one)| bursts.iter().map(move |&burst| (one, burst)));
        for ((configuration, burst), cycles) in cases.zip(&mut cycles) {
            let run = configuration.run(burst, bench.core, &bench.trace, bench.length)?;
            cycles.extend(work(&run));
        }
    }
    let mut medians = cycles.into_iter().map(|rounds| median(rounds).unwrap_or(f64::NAN));
    let series = kinds.map(|(label, _)| {
        let points = bursts.iter().zip(&mut medians);
        Series::new(
            label,
            points.map(|(&burst, cycles)| (burst as f64, bench.mpps(cycles))).collect(),
        )
    });
    Ok(Figure {
        name: "batching",
        title: "I/O batching, then computation batching (DoubleClick, figure 2)".to_owned(),
        panels: vec![Panel {
            title: "The full router".to_owned(),
            x: Axis::new("burst, packets", Scale::Log2),
            y: Axis::new("Mpps, one core", Scale::Linear),
            series: series.into(),
        }],
        targets: Vec::new(),
        notes: vec![
            "Devices in memory: a burst saves them calls, but none of the system calls and doorbells that make \
             I/O batching pay on interfaces. The cycles of the element that takes bursts apart are left out."
                .to_owned(),
        ],
    })
}

/// The configuration with bursts split after the devices on which they arrive.
///
/// # Errors
/// It has no such place.
pub(super) fn one_at_a_time(whole: &Configuration) -> anyhow::Result<Configuration> {
    let mut single = whole.clone();
    let text = &mut single.graph.text;
    let after = text.find("FromDevice(").and_then(|at| Some(at + text.get(at..)?.find("->")?));
    let after = after.with_context(|| format!("{}: no FromDevice", whole.graph.name))?;
    text.insert_str(after, "-> singles :: BenchSingles;\n  singles[1] -> [1] singles;\n  singles ");
    ensure!(text.contains("-> singles"), "{}: bursts stay together", whole.graph.name);
    Ok(single)
}

/// Cycles per packet without those for splitting bursts: the median of the slices, minus the mean cost of splitting
/// (the engine counts elements' cycles only in some of its rounds).
pub(super) fn work(run: &Run) -> Option<f64> {
    let is_apart = |id: &usize| run.classes.get(*id).is_some_and(|class| *class == "BenchSingles");
    let apart: Vec<usize> = (0..run.classes.len()).filter(is_apart).collect();
    let spent = |ids: &[usize]| -> u64 {
        let slices = run.slices.iter();
        slices.flat_map(|slice| ids.iter().filter_map(|&id| slice.elements.get(id))).sum()
    };
    let packets: u64 = run.slices.iter().map(|slice| slice.packets).sum();
    let apart = spent(&apart) as f64 / packets.max(1) as f64;
    Some((run.cycles()? - apart).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::{Length, Trace};
    use crate::traffic;

    #[test]
    fn packets_go_one_at_a_time_and_come_out_in_order() {
        let routes = traffic::routes(100);
        let trace: Trace = traffic::trace(&routes).unwrap().into();
        let core = crate::machine::last_core().unwrap();
        let length = Length { warm_up: 0, slice: 640, slices: 1, keep: true };
        for whole in suites::routers(&routes) {
            let single = one_at_a_time(&whole).unwrap();
            let run = single.run(64, core, &trace, length).unwrap();
            let at = |class: &str| run.classes.iter().position(|found| *found == class).unwrap();
            if whole.graph.name == "minimal-router" {
                assert_eq!(run.batches[at("Classifier")], 1.0);
                assert_eq!(run.batches[at("DecIPTTL")], 1.0);
            }
            let whole = whole.run(64, core, &trace, length).unwrap();
            assert_eq!(whole.transmitted, run.transmitted, "{}", single.graph.name);
        }
    }
}

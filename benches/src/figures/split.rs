//! The size of batches after a classifier: DoubleClick's open question.
//!
//! A classifier splits packets four ways. Each path has an element, and the paths join again. First in the engine's
//! own order, in which the join runs after all four paths have delivered their packets to it; then packet by packet,
//! as in Click, where the join runs once for each packet.

use anyhow::Context;

use super::bench::Bench;
use super::figure::{Axis, Figure, Panel, Scale, Series};
use crate::cycles::{Configuration, Run};
use crate::graph::Graph;
use crate::report::median;

/// Lengths of bursts.
const BURSTS: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];

/// Makes the figure.
///
/// # Errors
/// A configuration is wrong or loses packets.
pub(super) fn figure(bench: &Bench) -> anyhow::Result<Figure> {
    let (mut batches, mut speeds) = (Vec::new(), Vec::new());
    for (label, configuration) in
        [("merged, as the engine does", merged()), ("packet by packet, as in Click", singly())]
    {
        let (mut mean, mut speed) = (Vec::new(), Vec::new());
        for burst in bench.values(&BURSTS) {
            configuration.gate(burst, bench.core, &bench.trace)?;
            let mut cycles = Vec::new();
            for _ in 0..bench.rounds {
                let run = configuration.run(burst, bench.core, &bench.trace, bench.length)?;
                cycles.extend(run.cycles());
                if cycles.len() == 1 {
                    mean.push((burst as f64, 100.0 * at_join(&run)? / burst as f64));
                }
            }
            let cycles = median(cycles).context("no rounds")?;
            speed.push((burst as f64, bench.mpps(cycles)));
        }
        batches.push(Series::new(label, mean));
        speeds.push(Series::new(label, speed));
    }
    let panel = |title: &str, label: &str, series| Panel {
        title: title.to_owned(),
        x: Axis::new("burst at the source, packets", Scale::Log2),
        y: Axis::new(label, Scale::Linear),
        series,
    };
    Ok(Figure {
        name: "split",
        title: "Split four ways and joined".to_owned(),
        panels: vec![
            panel("The mean batch at the join", "percent of the source's", batches),
            panel("Speed", "Mpps, one core", speeds),
        ],
        targets: Vec::new(),
        notes: vec!["Each way keeps its order.".to_owned()],
    })
}

/// Divides by the lowest bits of the destination's address, and joins.
const GRAPH: &str = "\
FromDevice(eth0, BURST $burst) -> split :: Classifier(33/00%03, 33/01%03, 33/02%03, -);
join :: BenchBatchwise -> ToDevice(eth1);
split[0] -> BenchPass -> join;
split[1] -> BenchPass -> join;
split[2] -> BenchPass -> join;
split[3] -> BenchPass -> join;
";

/// In the engine's order.
fn merged() -> Configuration {
    let graph = Graph::new("split", GRAPH);
    Configuration { graph, class: None }
}

/// The same, plus an element that no packet reaches, but which makes each packet go its whole way before the next
/// one.
fn singly() -> Configuration {
    let mut configuration = merged();
    configuration.graph.name = "split, packet by packet".to_owned();
    configuration
        .graph
        .text
        .push_str("Idle -> singles :: BenchSingles -> Discard;\nsingles[1] -> [1] singles;\n");
    configuration
}

fn at_join(run: &Run) -> anyhow::Result<f64> {
    batch(run, "BenchBatchwise")
}

/// The mean size of batches at the element of a class.
fn batch(run: &Run, class: &str) -> anyhow::Result<f64> {
    let at = run.classes.iter().position(|found| *found == class);
    at.and_then(|at| run.batches.get(at)).copied().with_context(|| format!("there is no {class}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::{Length, Trace};
    use crate::traffic::{self, FRAME_LEN};

    const LENGTH: Length = Length { warm_up: 0, slice: 4096, slices: 1, keep: true };

    fn run(configuration: &Configuration, burst: usize) -> (Trace, Run) {
        let trace: Trace = traffic::trace(&traffic::routes(100)).unwrap().into();
        let core = crate::machine::last_core().unwrap();
        let run = configuration.run(burst, core, &trace, LENGTH).unwrap();
        (trace, run)
    }

    #[test]
    fn the_join_gets_batches_like_the_source() {
        for burst in BURSTS {
            let (_, run) = run(&merged(), burst);
            let (source, join) = (batch(&run, "Classifier").unwrap(), at_join(&run).unwrap());
            assert!(source > burst as f64 * 0.99, "{burst}: {source}");
            assert!(join >= 0.9 * source, "{burst}: {join} of {source}");
        }
        // The measurement can distinguish: packet by packet, it is one packet.
        let (_, run) = run(&singly(), 256);
        assert!(at_join(&run).unwrap() < 1.01);
    }

    #[test]
    fn each_way_keeps_its_order() {
        for configuration in [merged(), singly()] {
            let (trace, run) = run(&configuration, 64);
            let sent = run.transmitted.get("eth1").unwrap();
            let arrived: Vec<[u8; FRAME_LEN]> =
                trace.iter().cycle().take(sent.len()).copied().collect();
            for way in 0..4 {
                let takes = |frame: &[u8]| frame[33] & 3 == way;
                let sent = sent.iter().filter(|frame| takes(frame)).map(Vec::as_slice);
                let arrived =
                    arrived.iter().filter(|frame| takes(&frame[..])).map(|frame| &frame[..]);
                assert!(arrived.clone().count() > 100);
                assert!(sent.eq(arrived), "{}, way {way}", configuration.graph.name);
            }
        }
    }
}

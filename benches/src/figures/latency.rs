//! The time that packets take through the full router at low, high and very high load. Packets are not collected for
//! a batch: at low load a packet does not wait for others.

use anyhow::Context;

use super::bench::Bench;
use super::figure::{Axis, Figure, Panel, Scale, Series};
use crate::cycles::{Trace, suites};
use crate::feed::{Arrivals, Frames, Run, Schedule};
use crate::graph::Graph;
use crate::report::median;

/// Loads in percent of the capacity. The targets are for 10, 50 and 90.
const LOADS: [u32; 5] = [10, 25, 50, 75, 90];

/// Most packets at a time.
const BURSTS: [usize; 3] = [8, 32, 256];

/// Makes the figure.
///
/// # Errors
/// The router is wrong or loses packets.
pub(super) fn figure(bench: &Bench) -> anyhow::Result<Figure> {
    let routers = suites::routers(&bench.routes);
    let router = routers.into_iter().find(|one| one.graph.name == "full-router");
    let router = router.context("there is no full router")?;
    let frames = frames(&bench.trace);
    let mut middle = Vec::new();
    let mut late = Vec::new();
    let loads = bench.values(&LOADS);
    for burst in bench.values(&BURSTS) {
        router.gate(burst, bench.core, &bench.trace)?;
        let gap = gap_at_capacity(bench, &router.graph, burst)?;
        let mut found = vec![(Vec::new(), Vec::new()); loads.len()];
        for round in 0..bench.rounds {
            for (load, (p50, p99)) in loads.iter().zip(&mut found) {
                let gap = gap * 100.0 / f64::from(*load);
                let schedule = poisson(packets(bench), gap, u64::from(round * 100 + load));
                let arrivals = Arrivals::At(schedule);
                let cores = [bench.core];
                let run =
                    Run { graph: &router.graph, burst, cores: &cores, frames: &frames, arrivals };
                let (middle, late) = percentiles(run.run()?.latencies);
                p50.push(middle / bench.machine.hertz * 1e6);
                p99.push(late / bench.machine.hertz * 1e6);
            }
        }
        let (p50, p99): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let points = |rounds: Vec<Vec<f64>>| {
            let points = loads.iter().zip(rounds);
            points.filter_map(|(load, rounds)| Some((f64::from(*load), median(rounds)?))).collect()
        };
        middle.push(Series::new(format!("bursts of {burst} at most"), points(p50)));
        late.push(Series::new(format!("bursts of {burst} at most"), points(p99)));
    }
    let panel = |title: &str, series| Panel {
        title: title.to_owned(),
        x: Axis::new("load, percent of capacity", Scale::Linear),
        y: Axis::new("\u{b5}s from due to transmitted", Scale::Log10),
        series,
    };
    Ok(Figure {
        name: "latency",
        title: "Through the full router, packets arriving at random".to_owned(),
        panels: vec![panel("The median", middle), panel("The 99th percentile", late)],
        targets: Vec::new(),
        notes: vec![
            "Poisson arrivals that wait for nobody, on devices in memory; capacity is that with the same bursts. \
             A neighbour on the machine shows in the 99th percentile."
                .to_owned(),
        ],
    })
}

fn frames(trace: &Trace) -> Frames {
    trace.iter().map(|frame| Box::from(frame.as_slice())).collect()
}

/// Packets of a run.
fn packets(bench: &Bench) -> usize {
    // As many as in a timed run of configurations, a third of them for each load.
    let packets = bench.length.slice * bench.length.slices / 3;
    usize::try_from(packets).unwrap_or(usize::MAX).max(300)
}

/// Cycles between packets at the maximum rate.
fn gap_at_capacity(bench: &Bench, graph: &Graph, burst: usize) -> anyhow::Result<f64> {
    let count = packets(bench);
    let mut gaps = Vec::new();
    for _ in 0..bench.rounds {
        let (arrivals, cores) = (Arrivals::at_once(count), [bench.core]);
        let frames = frames(&bench.trace);
        gaps.push(Run { graph, burst, cores: &cores, frames: &frames, arrivals }.run()?.gap());
    }
    median(gaps).context("no rounds")
}

/// The due times of packets that arrive independently, with this mean distance in cycles.
pub(crate) fn poisson(count: usize, gap: f64, seed: u64) -> Schedule {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut at = 0.0;
    let next = |_| {
        at -= gap * (1.0 - random.f64()).ln();
        at as u64
    };
    (0..count).map(next).collect()
}

/// The median and the 99th percentile, in cycles.
pub(crate) fn percentiles(mut latencies: Vec<u64>) -> (f64, f64) {
    latencies.sort_unstable();
    let at = |part: usize| {
        let place = latencies.len().saturating_sub(1) * part / 100;
        latencies.get(place).copied().unwrap_or(0) as f64
    };
    (at(50), at(99))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::Trace;
    use crate::traffic;

    #[test]
    fn arrivals_are_in_order_and_as_far_apart_as_asked() {
        let schedule = poisson(10_000, 500.0, 1);
        assert!(schedule.is_sorted());
        let mean = *schedule.last().unwrap() as f64 / 10_000.0;
        assert!((480.0..520.0).contains(&mean), "{mean}");
        assert_eq!(schedule, poisson(10_000, 500.0, 1));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        assert_eq!(percentiles((1..=200).rev().collect()), (100.0, 198.0));
        assert_eq!(percentiles(Vec::new()), (0.0, 0.0));
    }

    #[test]
    fn a_packet_is_late_from_its_due_time_on() {
        let trace: Trace = traffic::trace(&traffic::routes(10)).unwrap().into();
        let text = "FromDevice(eth0, BURST $burst) -> ToDevice(eth1);".to_owned();
        let graph = Graph::new("forward", text);
        let cores = [crate::machine::last_core().unwrap()];
        // Ten packets a million cycles apart, so that none can come out sooner.
        let schedule: Schedule = (0..10).map(|n| n * 1_000_000).collect();
        let (frames, arrivals) = (frames(&trace), Arrivals::At(schedule));
        let run = Run { graph: &graph, burst: 32, cores: &cores, frames: &frames, arrivals };
        let passage = run.run().unwrap();
        assert_eq!(passage.latencies.len(), 10);
        assert!(passage.took >= 9_000_000, "{}", passage.took);
    }
}

//! Mixed traffic, a third each of frames that are only rewritten, IPv4 and IPv6, compared with IPv4 alone.
//!
//! The mixed router splits each burst by type and then by route, so its elements get few packets at a time. The
//! figure is its rate relative to that of the IPv4 router.

use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;

use crate::cycles::{self, Configuration, Length, Trace};
use crate::graph::Graph;
use crate::machine::{self, Machine};
use crate::report::{self, median, rounded};
use crate::{traffic, traffic6};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each router is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Most packets at a time, 1 to 256; may be given several times.
    #[arg(long, value_name = "N", default_values_t = [32, 256], value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: Vec<u16>,

    /// Routes in the IPv4 tables.
    #[arg(long, value_name = "N", default_value_t = 130_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    routes: u32,

    /// The core to run on; the last one unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The floor and the aim of the mixed router's rate, relative to the IPv4 router's.
const TARGETS: (f64, f64) = (0.6, 0.8);

/// A router and what it gets.
struct Router {
    configuration: Configuration,
    trace: Trace,
}

/// The IPv4 router and the mixed one.
fn routers(routes: usize) -> anyhow::Result<[Router; 2]> {
    let (routes4, routes6) = (traffic::routes(routes), traffic6::routes(traffic6::ROUTES));
    let trace4 = traffic::trace(&routes4)?;
    let trace = traffic6::mixed(trace4.clone(), &routes6)?;
    let table = ("route.ctrl".to_owned(), traffic::commands(&routes4));
    let table6 = ("route6.ctrl".to_owned(), traffic::commands(&routes6));
    let router = |name: &str, text: &str, writes, trace: Vec<_>| {
        let graph = Graph { writes, ..Graph::new(name, text) };
        Router { configuration: Configuration { graph, class: None }, trace: trace.into() }
    };
    let minimal = include_str!("../configs/minimal-router.click");
    let mixed = include_str!("../configs/mixed-router.click");
    Ok([
        router("minimal-router", minimal, vec![table.clone()], trace4),
        router("mixed-router", mixed, vec![table, table6], trace),
    ])
}

/// Cycles per packet of both routers with bursts of one length, by round. The routers take turns.
fn cycles(
    routers: &[Router; 2],
    burst: usize,
    rounds: u32,
    core: usize,
    length: Length,
) -> anyhow::Result<Vec<[f64; 2]>> {
    for Router { configuration, trace } in routers {
        configuration.gate(burst, core, trace)?;
    }
    let cycles = |Router { configuration, trace }: &Router| {
        let run = configuration.run(burst, core, trace, length)?;
        run.cycles().context("no slice was timed")
    };
    let [alone, mixed] = routers;
    (0..rounds).map(|_| Ok([cycles(alone)?, cycles(mixed)?])).collect()
}

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// A router loses packets, or its results depend on the length of bursts.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let core = self.core.map_or_else(machine::last_core, Ok)?;
        let machine = Machine::look();
        let routers = routers(self.routes as usize)?;
        println!(
            "{:>6}{:>10}{:>10}{:>11}{:>7}{:>6}",
            "burst", "IPv4", "mixed", "fraction", "floor", "aim"
        );
        let mut rows = Vec::new();
        for &burst in &self.burst {
            let rounds = cycles(&routers, burst.into(), self.rounds, core, cycles::LENGTH)?;
            let middle = |of: fn(&[f64; 2]) -> f64| median(rounds.iter().map(of).collect());
            let (alone, mixed) = (middle(|round| round[0]), middle(|round| round[1]));
            let fraction = middle(|[alone, mixed]| alone / mixed);
            let (alone, mixed) = alone.zip(mixed).context("no rounds")?;
            let fraction = fraction.context("no rounds")?;
            let (floor, aim) = TARGETS;
            println!("{burst:>6}{alone:>10.1}{mixed:>10.1}{fraction:>11.2}{floor:>7}{aim:>6}");
            rows.push(json!({
                "workload": "mixed L2, IPv4, IPv6, of IPv4 alone",
                "burst": burst,
                "ipv4_cycles": rounded(alone),
                "mixed_cycles": rounded(mixed),
                "figure": rounded(fraction),
                "floor": floor,
                "aim": aim,
            }));
        }
        println!("cycles a packet; the fraction is of packets a second");
        let options = json!({
            "suite": "mixed", "rounds": self.rounds, "routes": self.routes, "core": core,
            "routes6": traffic6::ROUTES, "frame": traffic::FRAME_LEN,
        });
        report::write(self.json.as_deref(), &machine, options, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_routers_do_with_bursts_what_they_do_without() {
        let core = machine::last_core().unwrap();
        let length = Length { warm_up: 256, slice: 512, slices: 2, keep: false };
        let cycles = cycles(&routers(500).unwrap(), 32, 1, core, length).unwrap();
        assert!(cycles[0].iter().all(|cycles| *cycles > 0.0));
    }
}

//! The cost of more routes in the table, more rules in a filter, and more elements in a chain.

use std::net::Ipv4Addr;

use anyhow::Context;

use super::bench::Bench;
use super::figure::{Axis, Figure, Panel, Scale, Series};
use crate::cycles::{Case, Configuration, Trace, Turns, suites};
use crate::graph::Graph;
use crate::overhead::chain;
use crate::report::median;
use crate::traffic;

/// Most packets at a time.
const BURST: usize = 32;

const ROUTES: [u32; 8] = [1, 10, 100, 1000, 10_000, 100_000, 512_000, 1_000_000];

const RULES: [u32; 5] = [1, 10, 100, 1000, 10_000];

const ELEMENTS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Makes the figure.
///
/// # Errors
/// A configuration is wrong or loses packets.
pub(super) fn figure(bench: &Bench) -> anyhow::Result<Figure> {
    let panel = |title: &str, label: &str, scale, series| Panel {
        title: title.to_owned(),
        x: Axis::new(label, scale),
        y: Axis::new("cycles a packet", Scale::Linear),
        series,
    };
    Ok(Figure {
        name: "growth",
        title: "More routes, more rules, more elements".to_owned(),
        panels: vec![
            panel("Routes, in the minimal router", "routes", Scale::Log10, routes(bench)?),
            panel("Rules, in one element", "rules", Scale::Log10, rules(bench)?),
            panel("Elements that do nothing, in a chain", "elements", Scale::Log2, elements(bench)?),
        ],
        targets: Vec::new(),
        notes: vec![
            format!("Bursts of {BURST}, where nothing else is said; cycles of the whole configuration."),
            "Each rule denies UDP from a network to a network and port; no packet matches one but the last, which \
             allows all. Destinations are 1,024 addresses in random routes. What more flows cost is shown with the \
             element that keeps them."
                .to_owned(),
        ],
    })
}

fn routes(bench: &Bench) -> anyhow::Result<Vec<Series>> {
    let mut points = Vec::new();
    for count in bench.values(&ROUTES) {
        let routes = traffic::routes(count as usize);
        let trace: Trace = traffic::trace(&routes)?.into();
        let router =
            suites::routers(&routes).into_iter().find(|one| one.graph.name == "minimal-router");
        let case = Case { configuration: router.context("no minimal router")?, burst: BURST };
        // A large table takes longer to fill than to measure.
        let rounds = if count > 100_000 { 1 } else { bench.rounds };
        let turns = Turns { rounds, trace, ..bench.turns() };
        points.push((f64::from(count), cost(&turns, case)?));
    }
    Ok(vec![Series::new("DirectIPLookup", points)])
}

fn rules(bench: &Bench) -> anyhow::Result<Vec<Series>> {
    let mut series = Vec::new();
    for class in ["IPFilter", "IPClassifier"] {
        let mut points = Vec::new();
        for count in bench.values(&RULES) {
            let case = Case { configuration: filter(class, count), burst: BURST };
            points.push((f64::from(count), cost(&few(bench, count), case)?));
        }
        series.push(Series::new(class, points));
    }
    Ok(series)
}

/// Turns with fewer packets if there are more rules, so that the largest sets do not take all the time.
fn few(bench: &Bench, rules: u32) -> Turns {
    let mut turns = bench.turns();
    let length = &mut turns.length;
    length.slices = (length.slices * 32 / u64::from(rules.max(32))).max(1);
    length.warm_up = length.warm_up.min(length.slice);
    if rules > 1000 {
        turns.rounds = 1;
    }
    turns
}

fn elements(bench: &Bench) -> anyhow::Result<Vec<Series>> {
    let mut series = Vec::new();
    for burst in [BURST, 256] {
        let mut points = Vec::new();
        for count in bench.values(&ELEMENTS) {
            let case = Case { configuration: chain("BenchPass", count as usize), burst };
            points.push((f64::from(count), cost(&bench.turns(), case)?));
        }
        series.push(Series::new(format!("bursts of {burst}"), points));
    }
    Ok(series)
}

/// Cycles a packet.
fn cost(turns: &Turns, case: Case) -> anyhow::Result<f64> {
    let found = turns.cycles(&[case])?.into_iter().next();
    found.and_then(median).context("no rounds")
}

/// A filter with this number of rules that deny, and a last rule that allows everything.
fn filter(class: &str, rules: u32) -> Configuration {
    let mut random = fastrand::Rng::with_seed(0x7275_6c65);
    let allow = if class == "IPFilter" { "allow all" } else { "-" };
    let deny = if class == "IPFilter" { "deny " } else { "" };
    let mut network = |first: u8| Ipv4Addr::new(first, random.u8(..), random.u8(..), 0);
    // Packets come from 10.0.0.0/8, which no rule covers. Networks and ports are mostly different.
    let rule = |n: u32| {
        let (from, to) = (network(172), network(203));
        format!("{deny}src net {from}/24 && dst net {to}/24 && dst udp port {},", 1 + n % 1000)
    };
    let rules: Vec<String> = (1..rules).map(rule).collect();
    let outputs = match class {
        "IPFilter" => "filter -> ToDevice(eth1);\n".to_owned(),
        _ => {
            let denied = (0..rules.len()).map(|n| format!("filter[{n}] -> denied;\n"));
            let denied: String = denied.collect();
            let idle = if rules.is_empty() { "Idle -> denied;\n" } else { "" };
            format!(
                "denied :: Discard;\n{idle}{denied}filter[{}] -> ToDevice(eth1);\n",
                rules.len()
            )
        }
    };
    let text = format!(
        "FromDevice(eth0, BURST $burst) -> MarkIPHeader(14) -> filter :: {class}({}\n{allow});\n{outputs}",
        rules.join("\n")
    );
    let graph = Graph::new(format!("{class}, {} rules", rules.len() + 1), text);
    Configuration { graph, class: None }
}

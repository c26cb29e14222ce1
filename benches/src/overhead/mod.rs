//! The cost of the framework: the rows of the table of targets without another program.
//!
//! - An element that does nothing, in a chain: the cost of the chain, minus that of an empty one, per element.
//! - An element written for single packets, between elements that process batches, compared with the same element
//!   written for batches.
//! - Counting: the routers, compared with the same program built without the engine's counters.

mod counting;

use std::path::Path;

use serde_json::{Value, json};

pub(crate) use self::counting::Worker;
use crate::cycles::{Case, Configuration, Turns};
use crate::graph::Graph;
use crate::machine::{self, Machine};
use crate::report::{self, median, rounded};
use crate::{cycles, traffic};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each case is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// The core to run on; the last one unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
}

impl Options {
    /// Measures and prints the rows.
    ///
    /// # Errors
    /// As [`rows`].
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let core = self.core.map_or_else(machine::last_core, Ok)?;
        let rows = rows(core, self.rounds, cycles::LENGTH)?;
        print!("{}", table(&rows));
        let options = json!({ "suite": "overhead", "rounds": self.rounds, "core": core });
        let rows = rows.iter().map(Row::json).collect();
        report::write(self.json.as_deref(), &Machine::look(), options, rows)
    }
}

/// A row of the table of targets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// What is measured.
    pub(crate) workload: String,
    /// Most packets at a time.
    pub(crate) burst: usize,
    /// The result; `None` if the program that it needs was not built.
    pub(crate) figure: Option<f64>,
    /// The figure's unit.
    pub(crate) unit: &'static str,
    /// The maximum permitted value.
    pub(crate) floor: f64,
    /// The intended value.
    pub(crate) aim: f64,
}

impl Row {
    /// The row of the report for programs.
    pub(crate) fn json(&self) -> Value {
        json!({
            "workload": self.workload,
            "burst": self.burst,
            "figure": self.figure.map(rounded),
            "unit": self.unit,
            "floor": self.floor,
            "aim": self.aim,
        })
    }
}

/// The table as text.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text =
        format!("{:<44}{:>6}{:>9}{:>7}{:>6}\n", "overhead", "burst", "figure", "floor", "aim");
    for row in rows {
        let figure = row.figure.map_or("-".to_owned(), |figure| format!("{figure:.2}"));
        let Row { workload, burst, floor, aim, unit, .. } = row;
        text.push_str(&format!("{workload:<44}{burst:>6}{figure:>9}{floor:>7}{aim:>6}  {unit}\n"));
    }
    text
}

/// The number of elements in the chains. It is so large that the cost of entering a chain does not matter.
const LINKS: usize = 32;

/// The lengths of bursts that have targets.
const BURSTS: [usize; 2] = [32, 256];

/// Measures the rows on `core`, each case `rounds` times.
///
/// # Errors
/// A configuration is wrong or loses packets, or a program without counters fails.
pub(crate) fn rows(core: usize, rounds: u32, length: cycles::Length) -> anyhow::Result<Vec<Row>> {
    let trace = traffic::trace(&traffic::routes(1000))?.into();
    let turns = Turns { rounds, length, core, trace };
    let mut rows = elements(&turns)?;
    rows.extend(counting::rows(core, rounds)?);
    Ok(rows)
}

/// The rows about elements.
fn elements(turns: &Turns) -> anyhow::Result<Vec<Row>> {
    const NOTHING: &str = "";
    const PASS: &str = "BenchPass";
    const BATCHWISE: &str = "BenchPass -> BenchBatchwise";
    const PACKETWISE: &str = "BenchPass -> BenchPacketwise";
    const ONE_BY_ONE: &str = "BenchPass -> BenchOneByOne";
    const LINK: [&str; 5] = [NOTHING, PASS, BATCHWISE, PACKETWISE, ONE_BY_ONE];

    let mut rows = Vec::new();
    for burst in BURSTS {
        let cases = LINK.map(|link| Case { configuration: chain(link, LINKS), burst });
        let cycles = turns.cycles(&cases)?;
        // The difference between the links of two chains, by round.
        let more = |link: &str, than: &str| {
            let of = |wanted: &str| {
                let at = LINK.iter().position(|link| *link == wanted);
                at.and_then(|at| cycles.get(at)).map_or(&[][..], Vec::as_slice)
            };
            let rounds = of(link).iter().zip(of(than));
            median(rounds.map(|(one, other)| (one - other) / LINKS as f64).collect())
        };
        let mut row = |workload: &str, figure, floor, aim| {
            let unit = "cycles a packet an element";
            rows.push(Row { workload: workload.to_owned(), burst, figure, unit, floor, aim });
        };
        row(
            "a batch element that does nothing",
            more(PASS, NOTHING),
            if burst < 256 { 2.0 } else { 1.0 },
            0.5,
        );
        row("one for packets, more than its batch twin", more(PACKETWISE, BATCHWISE), 12.0, 6.0);
        row("the same, sending each packet by itself", more(ONE_BY_ONE, BATCHWISE), 12.0, 6.0);
    }
    Ok(rows)
}

/// This number of links between two devices; none if the link is empty.
pub(crate) fn chain(link: &str, links: usize) -> Configuration {
    let mut text = "FromDevice(eth0, BURST $burst)".to_owned();
    for link in std::iter::repeat_n(link, links).filter(|link| !link.is_empty()) {
        text.push_str("\n  -> ");
        text.push_str(link);
    }
    text.push_str("\n  -> ToDevice(eth1);\n");
    let graph = Graph::new(format!("{links} of {link}"), text);
    Configuration { graph, class: None }
}

/// The variable that names the directory of the programs that `cargo xtask bench` has built with one feature left
/// out, each named after the feature.
const VARIANTS: &str = "MILLRACE_BENCH_VARIANTS";

/// The program that was built with a feature, if it was built.
pub(crate) fn variant(feature: &str) -> Option<std::path::PathBuf> {
    let program = Path::new(&std::env::var_os(VARIANTS)?).join(feature);
    program.is_file().then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::{Length, Trace};

    #[test]
    fn every_chain_of_the_rows_passes_all_packets() {
        let trace: Trace = traffic::trace(&traffic::routes(10)).unwrap().into();
        let length = Length { warm_up: 256, slice: 512, slices: 1, keep: false };
        let core = machine::last_core().unwrap();
        let turns = Turns { rounds: 1, length, core, trace };
        let rows = elements(&turns).unwrap();
        assert_eq!(rows.len(), 6);
        assert!(rows.iter().all(|row| row.figure.is_some()));
        assert_eq!(table(&rows).lines().count(), 7);
    }

    #[test]
    fn twins_do_the_same() {
        let trace: Trace = traffic::trace(&traffic::routes(10)).unwrap().into();
        let core = machine::last_core().unwrap();
        let painted = |link: &str| {
            // 60 bytes of data give the colour 60; another colour leaves by another device.
            let text = format!(
                "FromDevice(eth0, BURST $burst) -> {link} -> check :: CheckPaint(60) -> ToDevice(eth1);\n\
                 check[1] -> ToDevice(eth2);"
            );
            let graph = Graph::new(link, text);
            let length = Length { warm_up: 0, slice: 300, slices: 1, keep: true };
            Configuration { graph, class: None }.run(32, core, &trace, length).unwrap().transmitted
        };
        let batchwise = painted("BenchBatchwise");
        assert_eq!(batchwise.keys().collect::<Vec<_>>(), ["eth1"]);
        assert_eq!(painted("BenchPacketwise"), batchwise);
        assert_eq!(painted("BenchOneByOne"), batchwise);
        assert_ne!(painted("BenchPass"), batchwise);
    }
}

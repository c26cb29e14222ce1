//! The cost of classification and matching on a core, compared with other programs.
//!
//! The classifier is compared with DPDK's `rte_acl`, and the pattern matcher with Hyperscan, each with the same input
//! and in turns. Before the measurement, all must give the same results; for the classifier, those of a naive search.
//! The other programs are written in C ([`rival`]), and `cargo xtask bench` builds them. At last, the elements
//! themselves are measured, from device to device. Times are processor times, so that other programs on the machine
//! do not matter.

mod bench;
mod classifier;
mod graph;
mod patterns;
mod race;
mod rival;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use millrace_core::isa;
use millrace_testkit::data::{self, Data};
use millrace_testkit::generate::patterns as generated;
use millrace_testkit::generate::rules::{KINDS, Kind};
use serde_json::json;

use self::bench::Bench;
use crate::machine::{self, Machine};
use crate::report;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// The processor time of a turn in milliseconds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    window: u64,

    /// Measures only this part, `classifier`, `patterns` or `graph`; may be given several times.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,

    /// The number of rules; may be given several times
    #[arg(long, value_name = "N", default_values_t = [100, 1000, 10_000], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rules: Vec<u32>,

    /// Measures only this kind of rule sets, `acl1`, `fw1` or `ipc1`; may be given several times.
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,

    /// The number of phrases, or all if there are fewer; may be given several times
    #[arg(long, value_name = "N", default_values_t = [100, 1000, 3640], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    patterns: Vec<u32>,

    /// Bytes of payloads; may be given several times.
    #[arg(long, value_name = "N", default_values_t = [64, 256, 1500], value_parser = clap::value_parser!(u32).range(1..=65_535))]
    length: Vec<u32>,

    /// Measures without DPDK and Hyperscan.
    #[arg(long)]
    without_rivals: bool,

    /// The core to run on; the last one unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Classifier,
    Patterns,
    Graph,
}

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// Results differ.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let core = self.core.map_or_else(machine::last_core, Ok)?;
        machine::pin(core)?;
        let machine = Machine::look();
        println!(
            "{}, core {core}; commit {}; instruction set {}; {} rounds of {} ms of processor time\n",
            machine.cpu,
            machine.commit,
            isa::level().name(),
            self.rounds,
            self.window
        );
        let rival = |variable| {
            let program = std::env::var_os(variable).map(PathBuf::from);
            program.filter(|_| !self.without_rivals)
        };
        let bench = Bench {
            core,
            length: race::Length {
                rounds: self.rounds,
                window: Duration::from_millis(self.window),
            },
            folder: tempfile::tempdir().context("a folder for the rivals")?,
            acl: rival("MILLRACE_RIVAL_ACL"),
            hyperscan: rival("MILLRACE_RIVAL_HYPERSCAN"),
            corpus: Data::Texts.folder().and_then(|folder| data::texts(&folder).ok()),
        };
        let wants = |part| self.only.is_empty() || self.only.contains(&part);
        let mut rows = Vec::new();
        if wants(Part::Classifier) {
            println!("{}", classifier::HEADING);
            for &count in &self.rules {
                for kind in self.kinds()? {
                    rows.push(classifier::measure(&bench, kind, count as usize)?);
                }
            }
            println!();
        }
        if wants(Part::Patterns) {
            println!("{}", patterns::HEADING);
            for &count in &self.patterns {
                let (name, found) = phrases(count as usize);
                let patterns = patterns::Patterns::compile(name, found)?;
                for input in patterns::Input::ALL {
                    for &length in &self.length {
                        rows.extend(patterns::measure(&bench, &patterns, input, length as usize)?);
                    }
                }
            }
        }
        if wants(Part::Graph) {
            let rules = self.rules.iter().max().copied().unwrap_or_default() as usize;
            let patterns = self.patterns.iter().max().copied().unwrap_or_default() as usize;
            let (name, found) = phrases(patterns);
            println!("\n{rules} rules of the kind acl1, {} {name}, payloads of HTTP", found.len());
            println!("{}", graph::HEADING);
            for length in [60, 250, 1514] {
                rows.extend(graph::measure(&bench, rules, &found, length)?);
            }
        }
        let options = json!({
            "suite": "match",
            "rounds": self.rounds,
            "window_milliseconds": self.window,
            "core": core,
            "isa": isa::level().name(),
        });
        report::write(self.json.as_deref(), &machine, options, rows)
    }

    fn kinds(&self) -> anyhow::Result<Vec<&'static Kind>> {
        let wanted =
            |kind: &&Kind| self.kind.is_empty() || self.kind.iter().any(|name| name == kind.name);
        let kinds: Vec<&Kind> = KINDS.iter().filter(wanted).collect();
        ensure!(!kinds.is_empty(), "--kind: there is no such kind of rule sets");
        Ok(kinds)
    }
}

/// This number of phrases, from all parts of the list, if they were fetched; otherwise generated patterns.
fn phrases(count: usize) -> (&'static str, Vec<Vec<u8>>) {
    let read = Data::Phrases.folder().and_then(|folder| generated::phrases(&folder).ok());
    match read {
        Some(phrases) => {
            let step = (phrases.len() / count.max(1)).max(1);
            ("phrases", phrases.into_iter().step_by(step).take(count).collect())
        }
        None => {
            let fold = |pattern: Vec<u8>| pattern.to_ascii_lowercase();
            ("made up", generated::made_up(count, 0).into_iter().map(fold).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_inputs_are_measured_without_rivals() {
        let bench = Bench {
            core: machine::last_core().unwrap(),
            length: race::Length { rounds: 1, window: Duration::from_micros(1) },
            folder: tempfile::tempdir().unwrap(),
            acl: None,
            hyperscan: None,
            corpus: Some(b"Some text of no importance. ".to_vec()),
        };
        for kind in &KINDS {
            let row = classifier::measure(&bench, kind, 20).unwrap();
            assert!(row["nanoseconds"].as_f64().unwrap() > 0.0, "{row}");
        }
        let patterns = generated::made_up(20, 1);
        let patterns = patterns::Patterns::compile("made up", patterns).unwrap();
        for input in patterns::Input::ALL {
            let row = patterns::measure(&bench, &patterns, input, 1500).unwrap().unwrap();
            assert!(row["gigabits"].as_f64().unwrap() > 0.0, "{row}");
        }
        // Each run compares the elements' counts with naive searches.
        for length in [60, 400] {
            let rows = graph::measure(&bench, 20, &[b"html".to_vec(), b"host:".to_vec()], length);
            assert_eq!(rows.unwrap().len(), 4);
        }
        let bench = Bench { corpus: None, ..bench };
        let row = patterns::measure(&bench, &patterns, patterns::Input::Text, 64).unwrap();
        assert!(row.is_none());
    }
}

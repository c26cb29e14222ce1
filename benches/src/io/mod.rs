//! Packets per second through each method of devices, for lengths of bursts and of packets, compared with the
//! kernel's bridge and with loops without a graph. The parameters are those of FastClick's paper (Barbette et al.,
//! ANCS'15, figures 5 and 6).
//!
//! The devices are virtual Ethernet interfaces between network namespaces ([`rig`]). They cost the kernel about as
//! much per packet as the program needs, on the sender's core or on the forwarder's. So the rates show which method
//! is faster, not what a card would reach. The column with the processor time of the program shows the cost of a
//! packet, including system calls.

mod idle;
pub(crate) mod meter;
pub(crate) mod rig;
mod sandbox;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use self::rig::{Forwarder, Rig, SHORTEST, Sample, forwarder};
use crate::machine::{self, Machine};
use crate::report::{self, median, rounded};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each case is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// The duration of each measurement in milliseconds
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    window: u64,

    /// Measures only the groups of this name: methods, burst, length, ring, idle, sandbox
    #[arg(long, value_name = "GROUP")]
    only: Vec<String>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Something to measure, and what was measured.
struct Case {
    group: &'static str,
    name: String,
    /// The value of the parameter that the group varies, if it is a number.
    value: Option<usize>,
    forwarder: Forwarder,
    length: usize,
    samples: Vec<Sample>,
}

/// The methods that FromDevice and ToDevice have on interfaces of the kernel.
const METHODS: &[&str] = &["SOCKET", "LINUX", "XDP"];
const BURSTS: &[usize] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Packets that a ring of AF_XDP holds.
const RINGS: &[usize] = &[64, 128, 256, 512, 1024, 2048];
const LENGTHS: &[usize] = &[60, 128, 256, 512, 1024, 1514];

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// There are no privileges, fewer than two cores, or a case does not forward.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        ensure!(rustix::process::geteuid().is_root(), "network namespaces take the rights of root");
        let cores = machine::cores()?;
        let [first, .., last] = cores[..] else { anyhow::bail!("this takes two cores") };
        let machine = Machine::look();
        println!(
            "{}, sender on core {first}, forwarder on core {last}; commit {}\n{} rounds of {} ms\n",
            machine.cpu, machine.commit, self.rounds, self.window
        );
        let mut cases = cases();
        cases.retain(|case| self.only.is_empty() || self.only.iter().any(|o| o == case.group));
        let mut idle = idle::cases();
        idle.retain(|_| self.only.is_empty() || self.only.iter().any(|o| o == idle::GROUP));
        let mut sandbox = sandbox::cases();
        sandbox.retain(|_| self.only.is_empty() || self.only.iter().any(|o| o == sandbox::GROUP));
        let is_nothing = cases.is_empty() && idle.is_empty() && sandbox.is_empty();
        ensure!(!is_nothing, "--only: there is no group of this name");
        let rig = Rig::new([first, last]);
        for round in 0..self.rounds {
            for case in &mut cases {
                let window = Duration::from_millis(self.window);
                let sample = rig
                    .measure(&case.forwarder, case.length, window)
                    .with_context(|| format!("{}: {}", case.group, case.name))?;
                case.samples.push(sample);
            }
            for case in &mut idle {
                case.measure(&rig)?;
            }
            for case in &mut sandbox {
                case.measure(&rig, Duration::from_millis(self.window), round)?;
            }
        }
        print!("{}{}{}", tell(&cases), idle::tell(&idle), sandbox::tell(&sandbox));
        let options = json!({
            "suite": "io", "rounds": self.rounds, "window_ms": self.window, "cores": [first, last],
        });
        let rows = cases.iter().map(|case| case.json(&cases));
        let rows = rows.chain(idle.iter().map(idle::Case::json));
        let rows = rows.chain(sandbox.iter().flat_map(sandbox::Case::json)).collect();
        report::write(self.json.as_deref(), &machine, options, rows)
    }
}

fn cases() -> Vec<Case> {
    let case = |group, name: String, value, forwarder, length| Case {
        group,
        name,
        value,
        forwarder,
        length,
        samples: Vec::new(),
    };
    let mut cases = vec![case("methods", "bridge".to_owned(), None, Forwarder::Bridge, SHORTEST)];
    for method in METHODS {
        let graph = forwarder(method, 64);
        cases.push(case("methods", (*method).to_owned(), None, graph, SHORTEST));
    }
    let bare = Forwarder::BareXdp;
    cases.push(case("methods", "bare XDP rings".to_owned(), None, bare, SHORTEST));
    for method in METHODS {
        for &burst in BURSTS {
            let graph = forwarder(method, burst);
            cases.push(case("burst", (*method).to_owned(), Some(burst), graph, SHORTEST));
        }
    }
    for method in METHODS {
        for &length in LENGTHS {
            let graph = forwarder(method, 64);
            cases.push(case("length", (*method).to_owned(), Some(length), graph, length));
        }
    }
    for &ring in RINGS {
        let graph = Forwarder::Millrace(format!(
            "FromXDPDevice(eth0, NDESC {ring}) -> ToXDPDevice(eth1, NDESC {ring})"
        ));
        cases.push(case("ring", "XDP".to_owned(), Some(ring), graph, SHORTEST));
    }
    cases
}

impl Case {
    fn figure(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        median(self.samples.iter().filter_map(of).collect())
    }

    /// The rate relative to the group's first case with the same value: the median of the rounds' ratios.
    fn ratio(&self, cases: &[Case]) -> Option<f64> {
        let base = cases.iter().find(|c| c.group == self.group && c.value == self.value)?;
        let pairs = self.samples.iter().zip(&base.samples);
        median(pairs.map(|(own, base)| own.rate / base.rate).collect())
    }

    fn json(&self, cases: &[Case]) -> Value {
        json!({
            "group": self.group,
            "name": self.name,
            "value": self.value,
            "mpps": self.figure(|sample| Some(sample.rate)).map(|rate| rounded(rate / 1e6)),
            "offered_mpps": self.figure(|sample| Some(sample.offered)).map(|r| rounded(r / 1e6)),
            "ns": self.figure(|sample| sample.cost).map(rounded),
            "ratio": self.ratio(cases).map(rounded),
        })
    }
}

/// The tables as text, one per group.
fn tell(cases: &[Case]) -> String {
    let mut text = String::new();
    let mut group = "";
    for case in cases {
        if case.group != group {
            group = case.group;
            text.push_str(&format!(
                "\n{group:<10}{:<18}{:>8}{:>8}{:>12}{:>12}\n",
                "", "Mpps", "ratio", "ns/packet", "offered"
            ));
        }
        let value = case.value.map_or(String::new(), |value| value.to_string());
        let number = |value: Option<f64>, scale: f64| match value {
            Some(value) => format!("{:.2}", value / scale),
            None => "-".to_owned(),
        };
        text.push_str(&format!(
            "{value:<10}{:<18}{:>8}{:>8}{:>12}{:>12}\n",
            case.name,
            number(case.figure(|sample| Some(sample.rate)), 1e6),
            number(case.ratio(cases), 1.0),
            number(case.figure(|sample| sample.cost), 1.0),
            number(case.figure(|sample| Some(sample.offered)), 1e6),
        ));
    }
    text
}

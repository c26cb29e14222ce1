//! The cost of the sandbox: forwarding and starting with it and without it, in turns.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::rig::{Forwarder, Rig, SHORTEST, Sample, forwarder, millrace};
use crate::report::{median, rounded};

pub(super) const GROUP: &str = "sandbox";

/// The methods of devices that make system calls while they forward.
const METHODS: [&str; 2] = ["LINUX", "XDP"];

/// Starts of the program in each round.
const STARTS: usize = 20;

/// A router that ends at once.
const SHORT_RUN: &str = "InfiniteSource(LIMIT 1, STOP true) -> Discard";

/// What is measured twice: inside the sandbox, and outside.
pub(super) enum Case {
    Forwarding {
        method: &'static str,
        inside: Vec<Sample>,
        outside: Vec<Sample>,
    },
    /// The time from the start to the end of a short run, in milliseconds.
    Starting {
        inside: Vec<f64>,
        outside: Vec<f64>,
    },
}

pub(super) fn cases() -> Vec<Case> {
    let forwarding = |method| Case::Forwarding { method, inside: Vec::new(), outside: Vec::new() };
    let starting = Case::Starting { inside: Vec::new(), outside: Vec::new() };
    METHODS.into_iter().map(forwarding).chain([starting]).collect()
}

impl Case {
    /// Measures both, in turns, and which comes first in turns.
    pub(super) fn measure(
        &mut self,
        rig: &Rig,
        window: Duration,
        round: u32,
    ) -> anyhow::Result<()> {
        let mut turns = [true, false];
        if round % 2 == 1 {
            turns.reverse();
        }
        match self {
            Self::Forwarding { method, inside, outside } => {
                for is_inside in turns {
                    let Forwarder::Millrace(graph) = forwarder(method, 64) else { continue };
                    let (graph, samples) = match is_inside {
                        true => (Forwarder::Millrace(graph), &mut *inside),
                        false => (Forwarder::Unconfined(graph), &mut *outside),
                    };
                    let sample = rig.measure(&graph, SHORTEST, window);
                    samples.push(sample.with_context(|| format!("{GROUP}: {method}"))?);
                }
            }
            Self::Starting { inside, outside } => {
                for _ in 0..STARTS {
                    for is_inside in turns {
                        let times = if is_inside { &mut *inside } else { &mut *outside };
                        times.push(short_run(is_inside)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Name, unit, and the medians inside and outside, of all that was measured.
    fn figures(&self) -> Vec<(String, &'static str, Option<f64>, Option<f64>)> {
        match self {
            Self::Starting { inside, outside } => {
                let figures = (median(inside.clone()), median(outside.clone()));
                vec![("start to end".to_owned(), "ms", figures.0, figures.1)]
            }
            Self::Forwarding { method, inside, outside } => {
                let of = |unit, figure: fn(&Sample) -> Option<f64>| {
                    let of =
                        |samples: &[Sample]| median(samples.iter().filter_map(figure).collect());
                    ((*method).to_owned(), unit, of(inside), of(outside))
                };
                vec![
                    of("Mpps", |sample| Some(sample.rate / 1e6)),
                    of("ns/packet", |sample| sample.cost),
                    of("instructions/packet", |sample| sample.instructions),
                    of("cycles/packet", |sample| sample.cycles),
                ]
            }
        }
    }

    pub(super) fn json(&self) -> Vec<Value> {
        let row = |(name, unit, inside, outside): (String, &str, Option<f64>, Option<f64>)| {
            json!({
                "group": GROUP,
                "name": name,
                "unit": unit,
                "inside": inside.map(rounded),
                "outside": outside.map(rounded),
            })
        };
        self.figures().into_iter().map(row).collect()
    }
}

/// The time that a short run takes, in milliseconds.
fn short_run(inside: bool) -> anyhow::Result<f64> {
    let mut command = Command::new(millrace()?);
    command.args(["run", "--no-table", "-e", SHORT_RUN]);
    if !inside {
        command.arg("--no-sandbox");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// The table for people.
pub(super) fn tell(cases: &[Case]) -> String {
    let mut text = String::new();
    for (at, (name, unit, inside, outside)) in cases.iter().flat_map(Case::figures).enumerate() {
        if at == 0 {
            text.push_str(&format!(
                "\n{GROUP:<10}{:<14}{:<20}{:>10}{:>10}\n",
                "", "", "inside", "outside"
            ));
        }
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        let (inside, outside) = (number(inside), number(outside));
        text.push_str(&format!("{:<10}{name:<14}{unit:<20}{inside:>10}{outside:>10}\n", ""));
    }
    text
}

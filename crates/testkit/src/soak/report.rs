//! What a soak found, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use super::Fault;
use super::memory::Growth;
use super::streams::Streams;
use super::swaps::Outcome;
use super::traffic::Tally;
use super::windows::Event;

/// What a soak found.
#[derive(Clone, Debug)]
pub struct Report {
    pub(super) method: String,
    pub(super) seed: u64,
    pub(super) seconds: f64,
    /// How often a router was started.
    pub(super) lives: u64,
    pub(super) injected: BTreeMap<Fault, u64>,
    /// Faults that could not be injected, and why.
    pub(super) impossible: BTreeMap<Fault, String>,
    /// How memory is withheld.
    pub(super) group: Option<&'static str>,
    pub(super) swaps: Outcome,
    pub(super) tally: Tally,
    pub(super) streams: Streams,
    /// What `ping` said in the end.
    pub(super) ping: Option<String>,
    pub(super) growth: Growth,
    pub(super) problems: Vec<String>,
    pub(super) events: Vec<Event>,
    /// What the routers said.
    pub(super) said: Vec<String>,
}

/// Files that may be open more at one time than at another.
const FILES: usize = 16;

impl Report {
    /// What was found to be wrong.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// How often a fault was injected, swaps that were done among them.
    #[must_use]
    pub fn injected(&self, fault: Fault) -> u64 {
        match fault {
            Fault::Swap => self.swaps.done,
            _ => self.injected.get(&fault).copied().unwrap_or_default(),
        }
    }

    /// Datagrams that were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.tally.sent
    }

    /// Adds what the figures say to the problems.
    pub(super) fn judge(&mut self) {
        let mut found = Vec::new();
        for (flow, number, at, arrived) in &self.tally.unexplained {
            let way = if *arrived { "on the way back" } else { "on the way there" };
            found.push(format!(
                "packet {number} of host {flow}, sent at {at:.3} s, was lost {way}{}",
                self.near(*at)
            ));
        }
        if self.tally.unexplained_more > 0 {
            found.push(format!("{} more packets were lost", self.tally.unexplained_more));
        }
        if self.tally.twice > 0 {
            found.push(format!("{} packets came twice", self.tally.twice));
        }
        if self.tally.returned == 0 {
            found.push("no packet came back".to_owned());
        }
        let duplicates = self.ping.as_ref().is_some_and(|text| text.contains("duplicates"));
        if duplicates {
            found.push("ping got answers twice".to_owned());
        }
        found.extend(self.swaps.problems.iter().take(20).cloned());
        found.extend(self.streams.problems.iter().take(20).cloned());
        let Growth { files: (first, last), .. } = self.growth;
        if let Some(Err(growth)) = self.growth.verdict() {
            found.push(format!("resident memory grows by {growth}"));
        }
        if last > first + FILES {
            found.push(format!("open files grew from {first} to {last}"));
        }
        self.problems.extend(found);
    }

    /// What was done around a time.
    fn near(&self, at: f64) -> String {
        const BEFORE: f64 = 1.0;
        const AFTER: f64 = 0.2;
        let near =
            self.events.iter().filter(|(_, from, to)| from - AFTER <= at && at <= to + BEFORE);
        let near: Vec<String> =
            near.map(|(what, from, to)| format!("{what} from {from:.3} to {to:.3}")).collect();
        if near.is_empty() { String::new() } else { format!(" ({})", near.join(", ")) }
    }

    /// All figures.
    #[must_use]
    pub fn json(&self) -> Value {
        let Self { tally, growth, swaps, streams, .. } = self;
        let names = |faults: &BTreeMap<Fault, u64>| -> BTreeMap<&str, u64> {
            faults.iter().map(|(fault, count)| (fault.name(), *count)).collect()
        };
        let impossible: BTreeMap<&str, &String> =
            self.impossible.iter().map(|(fault, why)| (fault.name(), why)).collect();
        let lost: BTreeMap<&str, u64> =
            tally.lost.iter().map(|(fault, count)| (fault.name(), *count)).collect();
        json!({
            "method": self.method,
            "seed": self.seed,
            "seconds": self.seconds,
            "lives": self.lives,
            "injected": names(&self.injected),
            "impossible": impossible,
            "memory_control": self.group,
            "swaps": {
                "done": swaps.done,
                "refused_in_windows": swaps.excused,
                "refused": swaps.problems.len(),
                "longest_seconds": swaps.longest.as_secs_f64(),
                "pauses": swaps.pauses.len(),
                "pause_p50_seconds": swaps.pause(0.5).as_secs_f64(),
                "pause_p99_seconds": swaps.pause(0.99).as_secs_f64(),
                "pause_max_seconds": swaps.pause(1.0).as_secs_f64(),
            },
            "packets": {
                "sent": tally.sent,
                "arrived": tally.arrived,
                "returned": tally.returned,
                "twice": tally.twice,
                "lost_in_windows": lost,
                "lost": tally.unexplained(),
            },
            "tcp": {
                "complete": streams.complete,
                "broken_in_windows": streams.broken,
                "broken": streams.problems.len(),
            },
            "ping": self.ping,
            "memory": {
                "seconds": growth.seconds,
                "samples": growth.samples,
                "first_mb": growth.first,
                "last_mb": growth.last,
                "most_mb": growth.most,
                "swaps": growth.swaps,
                "slope_mb_per_hour": growth.by_time.value,
                "slope_mb_per_hour_error": growth.by_time.error,
                "slope_kb_per_swap": growth.by_swap.value * 1e3,
                "slope_kb_per_swap_error": growth.by_swap.error * 1e3,
                "judged": growth.verdict().is_some(),
                "files_first": growth.files.0,
                "files_last": growth.files.1,
            },
            "problems": self.problems,
            "events": self.events,
            "said": self.said,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tally, growth, swaps, streams, .. } = self;
        let mut row = |name: &str, value: String| writeln!(f, "{name:<18}{value}");
        row("soak", format!("{}, seed {}, {:.0} s", self.method, self.seed, self.seconds))?;
        row("routers started", self.lives.to_string())?;
        row(
            "hot swaps",
            format!(
                "{} done, {} refused in windows, {} refused; longest {:.0} ms",
                swaps.done,
                swaps.excused,
                swaps.problems.len(),
                swaps.longest.as_secs_f64() * 1e3
            ),
        )?;
        let pause = |share| swaps.pause(share).as_secs_f64() * 1e3;
        row(
            "  packets stood",
            format!(
                "{:.2} ms (half of the swaps at most), {:.2} (99 %), {:.2} (all)",
                pause(0.5),
                pause(0.99),
                pause(1.0)
            ),
        )?;
        let list = |pairs: Vec<String>| match pairs.is_empty() {
            true => "none".to_owned(),
            false => pairs.join(", "),
        };
        let injected = self.injected.iter().map(|(fault, count)| format!("{fault} {count}"));
        row("faults", list(injected.collect()))?;
        for (fault, why) in &self.impossible {
            row("  not possible", format!("{fault}: {why}"))?;
        }
        if let Some(group) = self.group {
            row("  memory by", group.to_owned())?;
        }
        row(
            "datagrams",
            format!("{} sent, {} arrived, {} came back", tally.sent, tally.arrived, tally.returned),
        )?;
        let lost = tally.lost.iter().map(|(fault, count)| format!("{fault} {count}"));
        row("  lost in windows", format!("{} ({})", tally.explained(), list(lost.collect())))?;
        row("  lost outside", tally.unexplained().to_string())?;
        row("  twice", tally.twice.to_string())?;
        row(
            "TCP",
            format!(
                "{} complete, {} broken in windows, {} broken outside",
                streams.complete,
                streams.broken,
                streams.problems.len()
            ),
        )?;
        row("ping", self.ping.clone().unwrap_or_else(|| "not installed".to_owned()))?;
        row(
            "resident memory",
            format!(
                "{:.1} to {:.1} MB in the longest life, at most {:.1}",
                growth.first, growth.last, growth.most
            ),
        )?;
        let verdict = match growth.verdict() {
            Some(Ok(())) => "flat",
            Some(Err(_)) => "grows",
            None => "too few swaps to judge",
        };
        row(
            "  growth",
            format!(
                "{:+.2} ± {:.2} kB a swap, {:+.2} ± {:.2} MB an hour, over {:.0} swaps in {:.0} s: {verdict}",
                growth.by_swap.value * 1e3,
                growth.by_swap.error * 1e3,
                growth.by_time.value,
                growth.by_time.error,
                growth.swaps,
                growth.seconds,
            ),
        )?;
        row("open files", format!("{} to {} in the longest life", growth.files.0, growth.files.1))?;
        match self.problems.is_empty() {
            true => row("found", "nothing wrong".to_owned())?,
            false => {
                row("found", format!("{} problems", self.problems.len()))?;
                for problem in &self.problems {
                    writeln!(f, "  - {problem}")?;
                }
            }
        }
        Ok(())
    }
}

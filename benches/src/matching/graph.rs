//! The elements SDNClassifier and IDSMatcher from device to device, compared with a graph without them.

use anyhow::{Context, ensure};
use millrace_testkit::generate::frame::{self, Frame};
use millrace_testkit::generate::rules::{ACL1, Header, Rule, RuleSet, first_match, text};
use millrace_testkit::generate::trace::Trace;
use millrace_testkit::generate::{patterns, payload};
use serde_json::{Value, json};

use super::bench::Bench;
use crate::feed::{Arrivals, Frames, Run};
use crate::graph::Graph;
use crate::report::{median, rounded};

/// Packets of which a trace is made.
const PACKETS: usize = 2048;

/// How often the trace is run in a measurement.
const TIMES: usize = 16;

/// A name, the elements between the devices, and whether they have rules, and patterns.
const CHAINS: [(&str, &str, bool, bool); 4] = [
    ("forward", "", false, false),
    ("SDNClassifier", "-> sdn :: SDNClassifier($rules, DEFAULT 0)", true, false),
    ("IDSMatcher", "-> ids :: IDSMatcher($patterns, FORMAT PLAIN, NOCASE true)", false, true),
    (
        "both",
        "-> ids :: IDSMatcher($patterns, FORMAT PLAIN, NOCASE true)
         -> sdn :: SDNClassifier($rules, DEFAULT 0)",
        true,
        true,
    ),
];

/// The input of the graphs, and the expected results.
struct Traffic {
    frames: Frames,
    /// The number of packets of the trace by the action of their rule.
    actions: [u64; 4],
    /// The number of packets of the trace that contain a pattern.
    alerts: u64,
}

impl Traffic {
    fn new(length: usize, rules: &[Rule], found: &[Vec<u8>]) -> Self {
        let mut random = fastrand::Rng::with_seed(length as u64);
        let headers = Trace::new(PACKETS).make(rules);
        let mut frame = |header: &Header| {
            let room = length.saturating_sub(Frame::new(*header, &[]).headers());
            Frame::new(*header, &payload::http(&mut random, room)).bytes()
        };
        let frames: Vec<Vec<u8>> = headers.iter().map(&mut frame).collect();
        let mut actions = [0; 4];
        for header in &headers {
            let rule = first_match(rules, header).and_then(|at| rules.get(at));
            if let Some(count) = actions.get_mut(usize::from(rule.map_or(0, |rule| rule.action))) {
                *count += 1;
            }
        }
        let contains = |frame: &&Vec<u8>| {
            let payload = frame::payload(frame).unwrap_or_default().to_ascii_lowercase();
            found.iter().any(|pattern| memchr::memmem::find(&payload, pattern).is_some())
        };
        let alerts = frames.iter().filter(contains).count() as u64;
        Self { frames: frames.into_iter().map(Box::from).collect(), actions, alerts }
    }
}

/// Measures all chains on frames of one length and prints their lines.
pub(super) fn measure(
    bench: &Bench,
    count: usize,
    found: &[Vec<u8>],
    length: usize,
) -> anyhow::Result<Vec<Value>> {
    let rules = RuleSet::new(&ACL1, count).make();
    let traffic = Traffic::new(length, &rules, found);
    let folder = bench.folder();
    std::fs::write(folder.join("rules.txt"), text(&rules))?;
    std::fs::write(folder.join("patterns.txt"), patterns::plain(found))?;
    let mut rows = Vec::new();
    let mut nanoseconds = vec![Vec::new(); CHAINS.len()];
    for _ in 0..bench.length.rounds {
        for ((name, chain, has_rules, has_patterns), times) in CHAINS.iter().zip(&mut nanoseconds) {
            let sdn = if *has_rules { "sdn[1] -> out; sdn[2] -> out; sdn[3] -> out;" } else { "" };
            let text = format!(
                "out :: ToDevice(eth1); FromDevice(eth0, BURST $burst) {chain} -> out; {sdn}"
            );
            let mut graph = Graph::new(*name, text);
            let file = |name: &str| format!("\"{}\"", folder.join(name).display());
            graph.set("rules", file("rules.txt"));
            graph.set("patterns", file("patterns.txt"));
            times.push(run(bench, &graph, &traffic, *has_rules, *has_patterns)?);
        }
    }
    let matches = traffic.alerts as f64 * 100.0 / PACKETS as f64;
    for ((name, ..), times) in CHAINS.iter().zip(nanoseconds) {
        let time = median(times).context("no rounds")?;
        let (packets, gigabits) = (1e3 / time, length as f64 * 8.0 / time);
        println!(
            "{name:<15}{length:>6}{matches:>8.1} %{time:>13.1}{packets:>10.2}{gigabits:>10.2}"
        );
        rows.push(json!({
            "part": "graph",
            "chain": name,
            "rules": count,
            "patterns": found.len(),
            "length": length,
            "packets_with_a_match": traffic.alerts,
            "packets": PACKETS,
            "nanoseconds": rounded(time),
            "gigabits": rounded(gigabits),
        }));
    }
    Ok(rows)
}

/// The head of the table.
pub(super) const HEADING: &str = "elements        bytes   matches  ns a packet      Mpps      Gb/s";

/// A run. Returns nanoseconds per packet.
fn run(
    bench: &Bench,
    graph: &Graph,
    traffic: &Traffic,
    has_rules: bool,
    has_patterns: bool,
) -> anyhow::Result<f64> {
    let once = traffic.frames.len();
    let arrivals = Arrivals::AtOnce { warm_up: once, packets: once * TIMES };
    let cores = [bench.core];
    let run = Run { graph, burst: 256, cores: &cores, frames: &traffic.frames, arrivals };
    let passage = run.run()?;
    let rounds = TIMES as u64 + 1;
    let read = |handler: &str| -> anyhow::Result<String> {
        let text = passage.router.read(handler, b"").map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    if has_rules {
        let counts = read("sdn.counts")?;
        let count = |output: usize| {
            let mut lines = counts.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(name, _)| *name == output.to_string());
            found.and_then(|(_, count)| count.trim().parse::<u64>().ok()).unwrap_or_default()
        };
        let found = [0, 1, 2, 3].map(count);
        let wanted = traffic.actions.map(|count| count * rounds);
        ensure!(found == wanted, "SDNClassifier: {found:?} packets by output, not {wanted:?}");
    }
    if has_patterns {
        let (found, wanted) = (read("ids.alerts")?, traffic.alerts * rounds);
        ensure!(found.trim() == wanted.to_string(), "IDSMatcher: {found} alerts, not {wanted}");
    }
    Ok(passage.processor.as_nanos() as f64 / passage.packets as f64)
}

//! The classifier of SDNClassifier compared with DPDK's `rte_acl`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use millrace_core::isa;
use millrace_match::rules::{Classifier, Key, NONE, RuleSet};
use millrace_testkit::generate::frame::Frame;
use millrace_testkit::generate::rules::{self, Header, Kind, Rule, first_match};
use millrace_testkit::generate::trace::Trace;
use serde_json::{Value, json};

use super::bench::{Bench, ratio};
use super::race::{Subject, race, timed};
use super::rival::Rival;
use crate::report::rounded;

/// Packets that are classified in turn.
const PACKETS: usize = 16_384;

/// The number of packets at a time, for both.
const BURST: usize = 256;

/// The name in reports, the algorithm, and the width of vectors that DPDK must be allowed for it.
const RIVALS: [(&str, &str, u32); 2] =
    [("rte_acl", "default", 256), ("rte_acl AVX-512", "avx512x32", 512)];

/// Our classifier on the keys of packets.
struct Ours {
    classifier: Classifier,
    keys: Vec<Key>,
    found: Vec<u32>,
}

impl Ours {
    fn classify(&mut self) {
        let Self { classifier, keys, found } = self;
        isa::run(
            #[inline(always)]
            || {
                for (keys, found) in keys.chunks(BURST).zip(found.chunks_mut(BURST)) {
                    classifier.classify(keys, found);
                }
            },
        );
    }
}

impl Subject for Ours {
    fn results(&mut self) -> anyhow::Result<Vec<u32>> {
        self.classify();
        // Numbers of rules from 1 on; 0 means none.
        Ok(self.found.iter().map(|found| found.wrapping_sub(NONE)).collect())
    }

    fn run(&mut self, times: u64) -> anyhow::Result<Duration> {
        Ok(timed(times, || {
            self.classify();
            std::hint::black_box(&self.found);
        }))
    }
}

/// The naive search, whose results count.
struct Oracle<'a> {
    rules: &'a [Rule],
    headers: &'a [Header],
}

impl Subject for Oracle<'_> {
    fn results(&mut self) -> anyhow::Result<Vec<u32>> {
        let first = |header| first_match(self.rules, header).map_or(0, |at| at as u32 + 1);
        Ok(self.headers.iter().map(first).collect())
    }

    fn run(&mut self, times: u64) -> anyhow::Result<Duration> {
        // It is not timed, so a sample of the packets is enough.
        let sample = self.headers.get(..64).unwrap_or(self.headers);
        let scale = self.headers.len() as u32 / sample.len().max(1) as u32;
        Ok(timed(times.min(1), || {
            for header in sample {
                std::hint::black_box(first_match(self.rules, header));
            }
        }) * scale
            * times as u32)
    }
}

/// Measures one rule set and prints its line.
pub(super) fn measure(bench: &Bench, kind: &'static Kind, count: usize) -> anyhow::Result<Value> {
    let made = rules::RuleSet::new(kind, count).make();
    let headers = Trace::new(PACKETS).make(&made);
    let frames = headers.iter().map(|header| Frame::new(*header, &[]).bytes());
    let keys: Vec<Key> = frames.map(|frame| Key::of_frame(&frame)).collect();

    let Ok(read) = RuleSet::parse(&rules::text(&made)) else {
        anyhow::bail!("the rules that were made cannot be read")
    };
    let start = Instant::now();
    let classifier = Classifier::new(&read);
    let build_seconds = start.elapsed().as_secs_f64();
    let bytes = classifier.bytes();
    let mut ours = Ours { classifier, found: vec![0; keys.len()], keys };
    let mut oracle = Oracle { rules: &made, headers: &headers };

    let mut rivals = Vec::new();
    if let Some(program) = &bench.acl {
        write_input(bench.folder(), &made, &headers)?;
        for (name, algorithm, width) in RIVALS {
            match start_rival(bench, program, algorithm, width) {
                Ok(rival) => rivals.push((name, rival)),
                Err(error) => println!("{} {count}: {name}: {error:#}", kind.name),
            }
        }
    }
    let mut subjects: Vec<(&str, &mut dyn Subject)> =
        vec![("the naive search", &mut oracle), ("millrace", &mut ours)];
    subjects.extend(rivals.iter_mut().map(|(name, rival)| (*name, rival as &mut dyn Subject)));
    let times = race(&mut subjects, bench.length)?;

    let each = |nanoseconds: f64| nanoseconds / PACKETS as f64;
    let (ours, others) = times.get(1..).and_then(<[f64]>::split_first).context("no times")?;
    println!(
        "{:<6}{count:>8}{:>14.1}{:>10.2}{:>11.2}{:>10.2}  {}",
        kind.name,
        each(*ours),
        1e3 / each(*ours),
        bytes as f64 / 1e6,
        build_seconds,
        rivals
            .iter()
            .zip(others)
            .map(|((name, rival), time)| format!(
                "{name} {:.1} ns ({:.2}x), {:.1} MB, {:.2} s",
                each(*time),
                time / ours,
                rival.bytes as f64 / 1e6,
                rival.build_seconds
            ))
            .collect::<Vec<_>>()
            .join("; "),
    );
    let rivals = rivals.iter().zip(others).map(|((name, rival), time)| {
        json!({
            "name": name,
            "nanoseconds": rounded(each(*time)),
            "bytes": rival.bytes,
            "build_seconds": rival.build_seconds,
            "ratio": ratio(*time, *ours),
        })
    });
    Ok(json!({
        "part": "classifier",
        "kind": kind.name,
        "rules": count,
        "packets": PACKETS,
        "burst": BURST,
        "nanoseconds": rounded(each(*ours)),
        "bytes": bytes,
        "build_seconds": build_seconds,
        "rivals": rivals.collect::<Vec<_>>(),
    }))
}

/// The head of the table.
pub(super) const HEADING: &str =
    "kind     rules   ns a packet   Mpps  MB of tables  s to build  rivals (their time over ours)";

/// The files that `benches/rivals/acl.c` reads.
fn write_input(folder: &Path, rules: &[Rule], headers: &[Header]) -> anyhow::Result<()> {
    let words = rules.iter().flat_map(|rule| {
        let [source, destination] = rule.nets;
        let [from, to] = rule.ports;
        [
            source.address,
            source.length.into(),
            destination.address,
            destination.length.into(),
            from.0.into(),
            from.1.into(),
            to.0.into(),
            to.1.into(),
            rule.protocol.unwrap_or_default().into(),
            if rule.protocol.is_some() { 0xff } else { 0 },
        ]
    });
    let bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
    std::fs::write(folder.join("rules"), bytes)?;
    let mut keys = Vec::new();
    for Header { addresses, protocol, ports, .. } in headers {
        keys.extend([*protocol, 0, 0, 0]);
        keys.extend(addresses.iter().flat_map(|address| address.to_be_bytes()));
        keys.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    }
    std::fs::write(folder.join("keys"), keys)?;
    Ok(())
}

fn start_rival(
    bench: &Bench,
    program: &Path,
    algorithm: &str,
    width: u32,
) -> anyhow::Result<Rival> {
    let folder = bench.folder();
    let mut command = Command::new(program);
    command.arg(folder.join("rules")).arg(folder.join("keys"));
    command.args([&BURST.to_string(), algorithm, "--lcores"]).arg(format!("0@{}", bench.core));
    command.args(["--no-huge", "-m", "4096", "--no-pci", "--no-telemetry", "--no-shconf"]);
    command.arg(format!("--force-max-simd-bitwidth={width}"));
    Rival::start(&mut command, folder, algorithm)
}

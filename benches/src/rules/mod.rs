//! What classification costs as rules become more, in IPFilter and IPClassifier.
//!
//! The elements' compiled rules are run on batches of packets as the elements run them, without a
//! graph around. For each number of rules there are the decision program and the index beside it,
//! whichever of them the elements would choose. Before anything is timed, every packet's output is
//! compared with that of a naive search through the rules.

pub(crate) mod drawn;
pub(crate) mod set;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};
use millrace_core::args::Scope;
use millrace_core::memory::Ports;
use millrace_core::{Batch, Packet, cycles, isa};
use millrace_elements::classify::program::{Engine, FilterProgram, IpSections, Otherwise};
use serde_json::{Value, json};

use self::set::{Header, Kind, Rule};
use crate::machine::{self, Machine};
use crate::report::{self, median, rounded};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// The number of rules; may be given several times
    #[arg(long, value_name = "N", default_values_t = [1, 10, 100, 1000, 10_000], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rules: Vec<u32>,

    /// Omits the decision program if there are more rules than this, because compiling it takes long
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    program: u32,

    /// Measures only this kind of rule sets, `acl1`, `fw1` or `ipc1`; may be given several times.
    #[arg(long, value_name = "KIND")]
    only: Vec<String>,

    /// The core to run on; the last one unless given.
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The number of packets that are classified: few enough for the second-level cache.
const PACKETS: usize = 2048;

/// Lengths of batches.
const BURSTS: [usize; 2] = [32, 256];

/// How often all packets are classified in a round.
const PASSES: usize = 8;

/// An element, an engine, a rule set, and the results.
struct Row {
    element: &'static str,
    kind: &'static str,
    rules: usize,
    engine: Engine,
    chosen: bool,
    compile_seconds: f64,
    bytes: usize,
    program: FilterProgram,
    /// For each burst the cycles a packet of each round.
    cycles: [Vec<f64>; BURSTS.len()],
}

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// A classifier gives another result than the rules.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let core = self.core.map_or_else(machine::last_core, Ok)?;
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        rustix::thread::sched_setaffinity(None, &cores).context("core")?;
        let machine = Machine::look();
        println!(
            "{}, time stamp counter {:.2} GHz, core {core}; commit {}; instruction set {}\n\
             {PACKETS} packets, {} rounds; cycles a packet\n",
            machine.cpu,
            machine.hertz / 1e9,
            machine.commit,
            isa::level().name(),
            self.rounds,
        );
        let kinds: Vec<&'static Kind> = set::KINDS
            .iter()
            .filter(|kind| self.only.is_empty() || self.only.iter().any(|it| it == kind.name))
            .collect();
        ensure!(!kinds.is_empty(), "--only: there is no such kind of rule sets");
        println!("{}", Row::HEADING);
        let mut rows = Vec::new();
        for &count in &self.rules {
            for &kind in &kinds {
                let made = self.measure(kind, count as usize)?;
                made.iter().for_each(|row| println!("{row}"));
                rows.extend(made.iter().map(Row::json));
            }
        }
        let options = json!({
            "suite": "rules",
            "rounds": self.rounds,
            "rules": self.rules,
            "core": core,
            "isa": isa::level().name(),
        });
        report::write(self.json.as_deref(), &machine, options, rows)
    }

    /// Both elements with both engines, on rules of a kind.
    fn measure(&self, kind: &'static Kind, count: usize) -> anyhow::Result<Vec<Row>> {
        let rules = set::rules(kind, count);
        let headers = set::headers(&rules, PACKETS);
        let first: Vec<Option<usize>> =
            headers.iter().map(|header| rules.iter().position(|rule| rule.holds(header))).collect();
        let mut packets = batches(&headers)?;
        let mut rows = Vec::new();
        for element in ["IPFilter", "IPClassifier"] {
            for engine in [Engine::Program, Engine::Index] {
                if engine == Engine::Index || count <= self.program as usize {
                    let row = Row::compile(element, kind, engine, &rules)?;
                    row.check(&packets, &rules, &first)?;
                    rows.push(row);
                }
            }
        }
        for _ in 0..self.rounds {
            for row in &mut rows {
                row.time(&mut packets);
            }
        }
        Ok(rows)
    }
}

/// The packets as batches of the greatest length, with their headers marked.
fn batches(headers: &[Header]) -> anyhow::Result<Vec<Batch>> {
    let mut batches = Vec::new();
    for chunk in headers.chunks(Batch::CAPACITY) {
        let mut batch = Batch::new();
        for header in chunk {
            let frame = set::frame(header);
            let datagram = frame.get(14..).unwrap_or_default();
            let mut packet = Packet::from_bytes(datagram).context("no memory")?;
            packet.set_network_header(0, 20);
            if batch.push(packet).is_err() {
                bail!("a batch has no room");
            }
        }
        batches.push(batch);
    }
    Ok(batches)
}

/// Classifies packets as the elements do.
fn classify(program: &FilterProgram, packets: &[Packet], ports: &mut [u16]) {
    let otherwise = Otherwise { dropped: DROPPED, no_sections: NO_HEADER };
    isa::run(
        #[inline(always)]
        || {
            program.classify_all(
                packets,
                #[inline(always)]
                |packet: &Packet| {
                    Some(IpSections {
                        network: packet.network_data()?,
                        transport: packet.transport_data().unwrap_or_default(),
                        ..IpSections::default()
                    })
                },
                otherwise,
                ports,
            );
        },
    );
}

const DROPPED: u16 = 0xfffe;
const NO_HEADER: u16 = 0xffff;

impl Row {
    const HEADING: &str = "element       rules kind engine   chosen   compile ms       bytes  \
                           burst 32  burst 256";

    fn compile(
        element: &'static str,
        kind: &'static Kind,
        engine: Engine,
        rules: &[Rule],
    ) -> anyhow::Result<Self> {
        let scope = Scope::builtin();
        let is_filter = element == "IPFilter";
        let text = |rule: &Rule| match (is_filter, set::allows(rule)) {
            (true, true) => format!("allow {}", rule.expression()),
            (true, false) => format!("drop {}", rule.expression()),
            (false, _) => rule.expression(),
        };
        let texts: Vec<String> = rules.iter().map(text).collect();
        let compile = |engine| match is_filter {
            true => FilterProgram::compile_rules_for(engine, &texts, 1, &scope),
            false => FilterProgram::compile_patterns_for(engine, &texts, &scope),
        };
        let start = Instant::now();
        let compiled = compile(engine);
        let compile_seconds = start.elapsed().as_secs_f64();
        let (Ok((program, _)), Ok((fitting, _))) = (compiled, compile(Engine::Fitting)) else {
            bail!("{element}: the rules do not compile")
        };
        Ok(Self {
            element,
            kind: kind.name,
            rules: rules.len(),
            engine,
            chosen: fitting.engine() == engine,
            compile_seconds,
            bytes: program.bytes(),
            program,
            cycles: Default::default(),
        })
    }

    /// Compares the output of each packet with that of the first matching rule.
    fn check(
        &self,
        batches: &[Batch],
        rules: &[Rule],
        first: &[Option<usize>],
    ) -> anyhow::Result<()> {
        let mut wanted = first.iter().map(|rule| match rule {
            None => DROPPED,
            Some(rule) if self.element == "IPClassifier" => *rule as u16,
            Some(rule) => match rules.get(*rule).is_some_and(set::allows) {
                true => 0,
                false => DROPPED,
            },
        });
        for batch in batches {
            let mut ports: Ports = [0; Batch::CAPACITY];
            classify(&self.program, batch, &mut ports);
            for (packet, port) in batch.iter().zip(ports) {
                ensure!(
                    wanted.next() == Some(port),
                    "{} with {} rules ({}), {:?}: output {port} for {:02x?}",
                    self.element,
                    self.rules,
                    self.kind,
                    self.engine,
                    packet.data(),
                );
            }
        }
        Ok(())
    }

    fn time(&mut self, batches: &mut [Batch]) {
        for (burst, rounds) in BURSTS.into_iter().zip(&mut self.cycles) {
            let mut passes = Vec::with_capacity(PASSES);
            for pass in 0..=PASSES {
                let start = cycles::now();
                for batch in &*batches {
                    for packets in batch.chunks(burst) {
                        let mut ports: Ports = [0; Batch::CAPACITY];
                        classify(&self.program, packets, &mut ports);
                        std::hint::black_box(&ports);
                    }
                }
                let spent = cycles::now().wrapping_sub(start);
                // The first pass loads the caches.
                if pass > 0 {
                    passes.push(spent as f64 / PACKETS as f64);
                }
            }
            rounds.extend(median(passes));
        }
    }

    fn engine_name(&self) -> &'static str {
        if self.engine == Engine::Index { "index" } else { "program" }
    }

    fn json(&self) -> Value {
        let cycles = |at: usize| self.cycles.get(at).and_then(|it| median(it.clone())).map(rounded);
        json!({
            "element": self.element,
            "kind": self.kind,
            "rules": self.rules,
            "engine": self.engine_name(),
            "chosen": self.chosen,
            "compile_seconds": self.compile_seconds,
            "bytes": self.bytes,
            "cycles": { "32": cycles(0), "256": cycles(1) },
        })
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cycles = self.cycles.each_ref().map(|it| median(it.clone()).unwrap_or(f64::NAN));
        write!(
            out,
            "{:<13}{:>6} {:<4} {:<8} {:<6} {:>12.2} {:>11} {:>10.1} {:>10.1}",
            self.element,
            self.rules,
            self.kind,
            self.engine_name(),
            if self.chosen { "yes" } else { "" },
            self.compile_seconds * 1e3,
            self.bytes,
            cycles[0],
            cycles[1],
        )
    }
}

//! The matcher of IDSMatcher compared with Hyperscan.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use millrace_match::patterns::{Content, Dfa, Kind, PatternSet, Rule, Scratch, Text};
use millrace_testkit::generate::payload::{self, NearMiss, Part};
use serde_json::{Value, json};

use super::bench::{Bench, ratio};
use super::race::{Subject, race, timed};
use super::rival::Rival;
use crate::report::rounded;

/// The number of bytes of all texts: they are in the second-level cache, as packets that have just arrived are.
const BYTES: usize = 1 << 18;

/// Texts at a time, of ours: a batch.
const BURST: usize = 256;

/// The texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Requests and answers of HTTP.
    Http,
    /// Text and web pages.
    Text,
    /// Bytes of every value.
    Noise,
    /// Beginnings of patterns.
    Heads,
    /// Ends of patterns.
    Tails,
}

impl Input {
    pub(super) const ALL: [Self; 5] =
        [Self::Http, Self::Text, Self::Noise, Self::Heads, Self::Tails];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Text => "text",
            Self::Noise => "noise",
            Self::Heads => "near miss, heads",
            Self::Tails => "near miss, tails",
        }
    }
}

/// A pattern set compiled by both, ignoring case, as its authors intend.
pub(super) struct Patterns {
    /// Its name in reports.
    name: &'static str,
    bytes: Vec<Vec<u8>>,
    engine: Dfa,
    build_seconds: f64,
    heads: NearMiss,
    tails: NearMiss,
}

impl Patterns {
    pub(super) fn compile(name: &'static str, bytes: Vec<Vec<u8>>) -> anyhow::Result<Self> {
        let mut set = PatternSet::new();
        for pattern in &bytes {
            set.push(Rule::of(Content { nocase: true, ..Content::of(pattern.clone()) }))?;
        }
        let start = Instant::now();
        let engine = Dfa::new(&set)?;
        let build_seconds = start.elapsed().as_secs_f64();
        let heads = NearMiss::new(&bytes, Part::Head);
        let tails = NearMiss::new(&bytes, Part::Tail);
        Ok(Self { name, engine, build_seconds, heads, tails, bytes })
    }

    /// Texts of one length; `None` if the data is missing.
    fn texts(&self, bench: &Bench, input: Input, length: usize) -> Option<Vec<Vec<u8>>> {
        let mut random = fastrand::Rng::with_seed(length as u64);
        let corpus = bench.corpus.as_deref();
        if input == Input::Text && corpus.is_none() {
            return None;
        }
        let mut text = || match input {
            Input::Http => payload::http(&mut random, length),
            Input::Text => payload::text(corpus.unwrap_or_default(), &mut random, length),
            Input::Noise => payload::noise(&mut random, length),
            Input::Heads => self.heads.make(&mut random, length),
            Input::Tails => self.tails.make(&mut random, length),
        };
        Some((0..BYTES.div_ceil(length)).map(|_| text()).collect())
    }
}

struct Ours<'a> {
    engine: &'a Dfa,
    texts: Vec<Text<'a>>,
    results: Vec<u32>,
    scratch: Scratch,
}

impl Ours<'_> {
    fn search(&mut self) {
        for (texts, results) in self.texts.chunks(BURST).zip(self.results.chunks_mut(BURST)) {
            self.engine.firsts(texts, results, &mut self.scratch);
        }
    }
}

impl Subject for Ours<'_> {
    fn results(&mut self) -> anyhow::Result<Vec<u32>> {
        self.search();
        Ok(self.results.clone())
    }

    fn run(&mut self, times: u64) -> anyhow::Result<Duration> {
        Ok(timed(times, || {
            self.search();
            std::hint::black_box(&self.results);
        }))
    }
}

/// Measures one set with texts of one length and prints the line; `None` if there are no such texts.
pub(super) fn measure(
    bench: &Bench,
    patterns: &Patterns,
    input: Input,
    length: usize,
) -> anyhow::Result<Option<Value>> {
    let Some(texts) = patterns.texts(bench, input, length) else { return Ok(None) };
    let bytes: usize = texts.iter().map(Vec::len).sum();
    let mut ours = Ours {
        engine: &patterns.engine,
        texts: texts.iter().map(|bytes| Text { bytes, kind: Kind::Tcp }).collect(),
        results: vec![0; texts.len()],
        scratch: Scratch::default(),
    };
    let mut rival = match &bench.hyperscan {
        None => None,
        Some(program) => {
            let folder = bench.folder();
            let (set, input) = (folder.join("patterns"), folder.join("texts"));
            std::fs::write(&set, items(&patterns.bytes))?;
            std::fs::write(&input, items(&texts))?;
            let mut command = Command::new(program);
            command.arg(set).arg(input).arg("1");
            Some(Rival::start(&mut command, folder, "hyperscan")?)
        }
    };
    let found = ours.results()?.iter().filter(|result| **result > 0).count();
    let mut subjects: Vec<(&str, &mut dyn Subject)> = vec![("millrace", &mut ours)];
    subjects.extend(rival.as_mut().map(|rival| ("Hyperscan", rival as &mut dyn Subject)));
    let times = race(&mut subjects, bench.length)?;

    let rate = |nanoseconds: f64| bytes as f64 * 8.0 / nanoseconds;
    let (ours, others) = times.split_first().context("no times")?;
    let memory = patterns.engine.memory();
    let (count, part) = (patterns.bytes.len(), found as f64 * 100.0 / texts.len() as f64);
    let versus = rival.as_ref().zip(others.first()).map(|(rival, time)| {
        json!({
            "name": "Hyperscan",
            "gigabits": rounded(rate(*time)),
            "bytes": rival.bytes,
            "build_seconds": rival.build_seconds,
            "ratio": ratio(*time, *ours),
        })
    });
    println!(
        "{:<9}{count:>6} {:<17}{length:>6}{part:>7.1} %{:>10.2}{}",
        patterns.name,
        input.name(),
        rate(*ours),
        others.first().map_or(String::new(), |time| format!(
            "{:>12.2}{:>8.2}x",
            rate(*time),
            time / ours
        )),
    );
    Ok(Some(json!({
        "part": "patterns",
        "set": patterns.name,
        "patterns": count,
        "input": input.name(),
        "length": length,
        "texts_with_a_match": found,
        "texts": texts.len(),
        "gigabits": rounded(rate(*ours)),
        "bytes": memory,
        "build_seconds": patterns.build_seconds,
        "rivals": versus.into_iter().collect::<Vec<_>>(),
    })))
}

/// The head of the table.
pub(super) const HEADING: &str =
    "set      count input            length  matches   Gb/s, we   Hyperscan   ratio";

/// Items as `benches/rivals/hyperscan.c` reads them.
fn items(items: &[Vec<u8>]) -> Vec<u8> {
    let item = |item: &Vec<u8>| [&(item.len() as u32).to_ne_bytes()[..], item].concat();
    items.iter().flat_map(item).collect()
}

//! How fast payloads are searched, by number of patterns, kind of payload and engine, on one core.
//!
//! ```sh
//! cargo run --profile dist -p millrace-match --example pattern_speed -- PHRASES [TEXTS [BYTES]]
//! ```
//! PHRASES is the folder with the `*.data` files of Debian's `modsecurity-crs`, TEXTS one with texts,
//! BYTES how long payloads are.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use millrace_match::patterns::{
    Content, EngineChoice, Kind, Matcher, PatternSet, Rule, Scratch, StreamMatcher, StreamState,
    Text,
};
use millrace_testkit::data;
use millrace_testkit::generate::{patterns, payload};

const PACKETS: usize = 2048;
const BATCH: usize = 256;
const RUNS: usize = 25;

fn main() -> std::io::Result<()> {
    let mut folders = std::env::args_os().skip(1).map(PathBuf::from);
    let mut all = match folders.next() {
        Some(folder) => patterns::phrases(&folder)?,
        None => patterns::made_up(3640, 1),
    };
    let corpus = folders.next().map(|folder| data::texts(&folder)).transpose()?;
    let bytes: usize = match std::env::args().nth(3) {
        Some(bytes) => bytes.parse().map_err(std::io::Error::other)?,
        None => 1400,
    };
    let mut random = fastrand::Rng::with_seed(1);
    random.shuffle(&mut all);
    println!("Gb/s on one core, {bytes} bytes a payload, best of {RUNS}");
    println!("patterns  payload    hits   single  lockstep  hyperscan  stream");
    for count in [10, 100, 1000, all.len()] {
        // Patterns of few bytes would be found everywhere.
        let chosen: Vec<&Vec<u8>> = all.iter().filter(|one| one.len() > 3).take(count).collect();
        let heads = payload::NearMiss::new(&chosen, payload::Part::Head);
        let tails = payload::NearMiss::new(&chosen, payload::Part::Tail);
        let mut set = PatternSet::new();
        for pattern in &chosen {
            let content = Content { nocase: true, ..Content::of(pattern.to_vec()) };
            set.push(Rule::of(content)).map_err(std::io::Error::other)?;
        }
        let began = Instant::now();
        let dfa = Matcher::new(&set, EngineChoice::Dfa).map_err(std::io::Error::other)?;
        let built = began.elapsed();
        let streams = StreamMatcher::new(&set).map_err(std::io::Error::other)?;
        let hyperscan = Matcher::new(&set, EngineChoice::Hyperscan);
        if let (Err(error), 10) = (&hyperscan, count) {
            println!("without Hyperscan: {error}");
        }
        let mut kinds = vec![
            ("http", many(|| payload::http(&mut random, bytes))),
            ("heads", many(|| heads.make(&mut random, bytes))),
            ("tails", many(|| tails.make(&mut random, bytes))),
            ("noise", many(|| payload::noise(&mut random, bytes))),
        ];
        if let Some(corpus) = &corpus {
            kinds.push(("text", many(|| payload::text(corpus, &mut random, bytes))));
        }
        for (name, payloads) in kinds {
            let (hits, single) = speed(&payloads, 1, &dfa);
            let (_, lockstep) = speed(&payloads, BATCH, &dfa);
            let other = hyperscan.as_ref().map(|engine| speed(&payloads, BATCH, engine).1);
            let other = other.map_or("-".into(), |speed| format!("{speed:.2}"));
            println!(
                "{:>8}  {name:<9} {hits:>5.1}%  {single:>6.2}  {lockstep:>8.2}  {other:>9}  {:>6.2}",
                set.len(),
                stream_speed(&payloads, &streams)
            );
        }
        let (megabytes, time) = (dfa.memory() as f64 / 1e6, built.as_secs_f64() * 1e3);
        let hyperscan = hyperscan.map_or(0.0, |engine| engine.memory() as f64 / 1e6);
        println!(
            "          dfa {megabytes:.2} MB built in {time:.1} ms; hyperscan {hyperscan:.2} MB"
        );
    }
    Ok(())
}

fn many(make: impl FnMut() -> Vec<u8>) -> Vec<Vec<u8>> {
    std::iter::repeat_with(make).take(PACKETS).collect()
}

/// The percentage of payloads that alert, and the speed of the search, with this batch size.
fn speed(payloads: &[Vec<u8>], batch: usize, matcher: &Matcher) -> (f64, f64) {
    let texts: Vec<Text<'_>> =
        payloads.iter().map(|bytes| Text { bytes, kind: Kind::Tcp }).collect();
    let mut results = vec![0; texts.len()];
    let mut scratch = Scratch::default();
    let speed = gigabits(payloads, || {
        for (texts, results) in texts.chunks(batch).zip(results.chunks_mut(batch)) {
            match texts {
                [text] => results[0] = matcher.first(*text, &mut scratch),
                _ => matcher.firsts(texts, results, &mut scratch),
            }
        }
    });
    let alerts = results.iter().filter(|&&result| result > 0).count();
    (100.0 * alerts as f64 / texts.len() as f64, speed)
}

/// The speed of searching the payloads as one stream.
fn stream_speed(payloads: &[Vec<u8>], matcher: &StreamMatcher) -> f64 {
    let mut state = StreamState::default();
    gigabits(payloads, || {
        for bytes in payloads {
            std::hint::black_box(matcher.first(&mut state, Text { bytes, kind: Kind::Tcp }));
        }
    })
}

/// The speed of `search` over all payloads, in Gb/s.
fn gigabits(payloads: &[Vec<u8>], mut search: impl FnMut()) -> f64 {
    let times = (0..RUNS).map(|_| {
        let began = Instant::now();
        search();
        began.elapsed()
    });
    // The least disturbed round.
    let best = times.min().unwrap_or(Duration::MAX);
    let bits = payloads.iter().map(Vec::len).sum::<usize>() * 8;
    bits as f64 / best.as_nanos() as f64
}

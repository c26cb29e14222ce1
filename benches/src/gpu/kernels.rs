//! Lookup, classifier and matcher on the device alone, beside the engines of one core.

use std::time::{Duration, Instant};

use anyhow::Context;
use millrace_elements::ip::lookup::{Dir24x8Writer, HopId, Order, RouteTable};
use millrace_gpu::kernel::NONE;
use millrace_gpu::table::Route;
use millrace_match::patterns::{Content, Dfa, Kind, Kinds, PatternSet, Rule, Scratch, Text};
use millrace_match::rules::{Key, LiveRules, RuleSet};
use millrace_testkit::generate::frame;

use super::Bench;
use super::device::{self, Bare};
use crate::figures::figure::{Axis, Figure, Panel, Scale, Series};
use crate::open_loop::Frames;
use crate::report::median;

/// Packets of a batch.
const BATCHES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];

/// Bytes of frames whose payload is searched.
const SEARCHED: usize = 1024;

/// Threads of the device for each payload.
const THREADS: u32 = 4;

/// Hops of the routes, by the numbers of their outputs.
const HOPS: usize = 8;

/// How long each rate is measured.
const TIME: Duration = Duration::from_millis(300);

/// What one thread of the device or of the CPU does with frames: results, and how long it takes.
type Engine<'a> = Box<dyn FnMut(&[Vec<u8>]) -> (Vec<u32>, Duration) + 'a>;

/// A job: its name, its stage, and the engine of the CPU.
struct Job<'a> {
    name: &'static str,
    frames: Frames,
    stage: Box<dyn Fn() -> anyhow::Result<Bare> + 'a>,
    cpu: Engine<'a>,
}

/// Makes the figure.
///
/// # Errors
/// The device fails, or gives other results than the CPU.
pub(super) fn figure(bench: &Bench) -> anyhow::Result<Figure> {
    let device = device::open(&bench.device)?;
    let mut panels = Vec::new();
    for mut job in jobs(bench)? {
        let (mut on_device, mut on_cpu) = (Vec::new(), Vec::new());
        for batch in BATCHES {
            let packets = device::packets(&job.frames, batch)?;
            let frames: Vec<Vec<u8>> =
                packets.iter().map(|packet| packet.data().to_vec()).collect();
            let (mut rates, mut cores) = (Vec::new(), Vec::new());
            for _ in 0..bench.rounds {
                let (expected, took) = (job.cpu)(&frames);
                cores.push(batch as f64 / took.as_secs_f64() / 1e6);
                rates.push(device::rate(&*device, (job.stage)()?, &packets, &expected, TIME)?);
            }
            on_device.push((batch as f64, median(rates).context("no rounds")?));
            on_cpu.push((batch as f64, median(cores).context("no rounds")?));
        }
        panels.push(Panel {
            title: job.name.to_owned(),
            x: Axis::new("packets of a batch", Scale::Log2),
            y: Axis::new("million packets a second", Scale::Linear),
            series: vec![
                Series::new("on the device", on_device),
                Series::new("on one core", on_cpu),
            ],
        });
    }
    let mut notes = bench
        .notes("From slices in pinned memory to results there, all copies among it, one lane.");
    notes.push(format!("Payloads are those of frames of {SEARCHED} bytes."));
    Ok(Figure {
        name: "kernels",
        title: "A device alone, by the size of batches".to_owned(),
        panels,
        notes,
    })
}

fn jobs(bench: &Bench) -> anyhow::Result<Vec<Job<'_>>> {
    Ok(vec![lookup(bench)?, classify(bench)?, search(bench)?])
}

fn lookup(bench: &Bench) -> anyhow::Result<Job<'_>> {
    let all = bench.fixture.routes();
    let routes: Vec<Route<u32>> = all
        .iter()
        .map(|route| Route {
            prefix: route.prefix.first(),
            length: route.prefix.length(),
            hop: route.hop.port,
        })
        .collect();
    let table = RouteTable::<Dir24x8Writer>::new(Order::Address)?;
    table.load(all)?;
    Ok(Job {
        name: "IPv4 lookup",
        frames: bench.fixture.frames(64),
        stage: Box::new(move || Bare::lookup(&routes, HOPS)),
        cpu: Box::new(move |frames| {
            let addresses: Vec<u32> = frames.iter().map(|frame| destination(frame)).collect();
            let mut hops = vec![HopId::default(); addresses.len()];
            let snapshot = table.snapshot();
            let start = Instant::now();
            snapshot.lookup_batch(&addresses, &mut hops);
            let took = start.elapsed();
            let port = |hop| snapshot.hop(hop).map_or(NONE, |hop| hop.port);
            (hops.into_iter().map(port).collect(), took)
        }),
    })
}

fn destination(frame: &[u8]) -> u32 {
    frame.get(30..34).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn classify(bench: &Bench) -> anyhow::Result<Job<'_>> {
    let text = bench.fixture.rules()?;
    let rules = RuleSet::parse(&text).map_err(|errors| anyhow::anyhow!("{errors:?}"))?;
    let live = LiveRules::new(rules);
    let table = live.table(NONE - 1);
    Ok(Job {
        name: "rules of seven fields",
        frames: bench.fixture.frames(64),
        stage: Box::new(move || Ok(Bare::classify(table.clone()))),
        cpu: Box::new(move |frames| {
            let part = |frame: &'_ [u8], from: usize, to: usize| {
                frame.get(from..to).unwrap_or_default().to_vec()
            };
            let keys: Vec<Key> = frames
                .iter()
                .map(|frame| {
                    Key::of_slices(
                        &part(frame, 0, 14),
                        &part(frame, 12, 14),
                        &part(frame, 14, 34),
                        &part(frame, 34, 38),
                    )
                })
                .collect();
            let mut found = vec![0; keys.len()];
            let start = Instant::now();
            live.classify(&keys, &mut found);
            (found, start.elapsed())
        }),
    })
}

fn search(bench: &Bench) -> anyhow::Result<Job<'_>> {
    let mut set = PatternSet::new();
    for pattern in bench.fixture.patterns() {
        set.push(Rule::of(Content::of(pattern.clone())))?;
    }
    let dfa = Dfa::new(&set)?;
    let image = dfa.image().words().to_vec();
    let mut scratch = Scratch::default();
    let udp = Kinds::only(Kind::Udp).bits();
    Ok(Job {
        name: "patterns in payloads",
        frames: bench.fixture.frames(SEARCHED),
        stage: Box::new(move || Ok(Bare::search(&image, THREADS, udp))),
        cpu: Box::new(move |frames| {
            let text = |frame: &'_ Vec<u8>| frame::payload(frame).unwrap_or_default().to_vec();
            let payloads: Vec<Vec<u8>> = frames.iter().map(text).collect();
            let texts: Vec<Text<'_>> =
                payloads.iter().map(|bytes| Text { bytes, kind: Kind::Udp }).collect();
            let mut found = vec![0; texts.len()];
            let start = Instant::now();
            dfa.firsts(&texts, &mut found, &mut scratch);
            let took = start.elapsed();
            // The kernel counts rules from 0, and has a word for none.
            (found.into_iter().map(|rule| rule.wrapping_sub(1)).collect(), took)
        }),
    })
}

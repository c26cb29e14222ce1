//! Lookups, classifier and matcher alone: the kernel alone (K), with all copies (C), from packets to packets (E), and
//! the CPU's engines.
//!
//! Before the measurement, the kernel, our engine and the one as in Snap must find the same for every packet, and the
//! section must send the same packets as the CPU's elements.

use anyhow::{Context, ensure};

use super::apps::{self, Form};
use super::bench::Bench;
use super::device::Loaded;
use super::jobs::{self, Job, PACKETS, Subject};
use crate::figures::figure::{Axis, Figure, Panel, Scale, Series};
use crate::figures::target::{Bound, Target};
use crate::report::median;

/// Packets of a batch.
const BATCHES: [usize; 6] = [256, 512, 1024, 2048, 4096, PACKETS];

/// The results of a job, in millions of packets per second.
struct Measured {
    subject: Subject,
    name: String,
    /// Bits of a packet that are searched.
    bits: f64,
    /// By the size of batches: the kernel alone, if that can be measured, and with all copies.
    kernel: Vec<(f64, f64)>,
    copied: Vec<(f64, f64)>,
    /// From packets to packets in the largest batches, and by the CPU's elements.
    section: f64,
    elements: f64,
    /// Our engine and the one as in Snap: the name, the rate on one core, and on all cores.
    engines: Vec<(&'static str, f64, f64)>,
}

/// Makes the figure.
///
/// # Errors
/// The device fails, or gives other results than the CPU.
pub(super) fn figure(bench: &Bench) -> anyhow::Result<Figure> {
    let mut all = Vec::new();
    jobs::each(bench, |job| {
        all.push(Measured::of(bench, job).with_context(|| job.name.clone())?);
        Ok(())
    })?;
    let names = Scale::Names(all.iter().map(|one| one.name.clone()).collect());
    let of_all = |label: String, value: &dyn Fn(&Measured) -> f64| {
        let points = all.iter().enumerate().map(|(at, one)| (at as f64, value(one)));
        Series::new(label, points.collect())
    };
    let rates = || Axis::new("million packets a second", Scale::Log10);
    let panel = |title: String, series| Panel {
        title,
        x: Axis::new("job", names.clone()),
        y: rates(),
        series,
    };
    let mut panels: Vec<Panel> = all.iter().map(Measured::panel).collect();
    let cores = bench.cores.len();
    let engine = |of: usize, on_all: bool| {
        move |one: &Measured| {
            let found = one.engines.get(of).map(|&(_, one, all)| if on_all { all } else { one });
            found.unwrap_or(f64::NAN)
        }
    };
    panels.push(panel(
        format!("E: from packets to packets, batches of {PACKETS}, one core"),
        vec![
            of_all("in a section".to_owned(), &|one| one.section),
            of_all("by the CPU's elements".to_owned(), &|one| one.elements),
        ],
    ));
    panels.push(panel(
        "Engines of the CPU".to_owned(),
        vec![
            of_all("as in Snap, 1 core".to_owned(), &engine(1, false)),
            of_all(format!("as in Snap, {cores} cores"), &engine(1, true)),
            of_all("ours, 1 core".to_owned(), &engine(0, false)),
            of_all(format!("ours, {cores} cores"), &engine(0, true)),
        ],
    ));
    let mut notes = bench.notes(
        "K: the kernel alone, on sixteen batches at a time. C: from slices in pinned memory to results there, one lane. \
         E: from receiving to transmitting, on devices in memory.",
    );
    notes.extend(bench.bus.map(|bus| {
        format!("Copies to the device go at {:.1} GB/s, measured in this run.", bus / 1e9)
    }));
    notes.extend(all.iter().map(|one| {
        let names: Vec<_> = one.engines.iter().map(|(name, ..)| *name).collect();
        format!("{}: ours is {}.", one.name, names.join(", as in Snap "))
    }));
    Ok(Figure {
        name: "kernels",
        title: "Kernels, copies, packets".to_owned(),
        panels,
        targets: all.iter().flat_map(|one| one.targets(bench)).collect(),
        notes,
    })
}

impl Measured {
    fn of(bench: &Bench, job: &Job) -> anyhow::Result<Self> {
        let [ours, snaps] = &job.engines;
        let expected = ours.results();
        ensure!(expected == snaps.results(), "{} and {} find other things", ours.name, snaps.name);
        let (mut kernel, mut copied) = (Vec::new(), Vec::new());
        for batch in bench.values(&BATCHES) {
            let packets = job.packets.get(..batch).unwrap_or(&job.packets);
            let mut loaded = Loaded::new(&bench.device, &job.stage, packets)?;
            let found = loaded.results()?;
            ensure!(expected.starts_with(&found), "the device finds other things than the CPU");
            let rounds = loaded.kernels(packets, bench.rounds, bench.window)?;
            kernel.extend(median(rounds).map(|rate| (batch as f64, rate)));
            let rounds: Result<_, _> =
                (0..bench.rounds).map(|_| loaded.copied(bench.window)).collect();
            copied.push((batch as f64, median(rounds?).context("no rounds")?));
        }
        let section = job.graph(bench, Form::section(PACKETS));
        let elements = job.graph(bench, Form::Cpu);
        apps::agree(&elements, &section, &job.frames, &[bench.core])?;
        let mut engines = Vec::new();
        for engine in &job.engines {
            let rate = |cores: &[usize]| {
                let rounds = (0..bench.rounds).map(|_| engine.rate(cores, bench.window));
                median(rounds.collect::<Result<_, _>>()?).context("no rounds")
            };
            engines.push((engine.name, rate(&[bench.core])?, rate(&bench.cores)?));
        }
        Ok(Self {
            subject: job.subject,
            name: job.name.clone(),
            bits: job.bits,
            kernel,
            copied,
            section: bench.rate_of(&section, &job.frames, &[bench.core])?,
            elements: bench.rate_of(&elements, &job.frames, &[bench.core])?,
            engines,
        })
    }

    /// By the size of batches, beside one core.
    fn panel(&self) -> Panel {
        let mut series = vec![
            Series::new("K: the kernel alone", self.kernel.clone()),
            Series::new("C: with all copies", self.copied.clone()),
        ];
        series.retain(|series| !series.points.is_empty());
        series.extend(self.engines.iter().map(|&(name, one, _)| {
            let line = self.copied.iter().map(|&(batch, _)| (batch, one));
            Series::new(format!("{name}, 1 core"), line.collect())
        }));
        Panel {
            title: self.name.clone(),
            x: Axis::new("packets of a batch", Scale::Log2),
            y: Axis::new("million packets a second", Scale::Log10),
            series,
        }
    }

    /// The design's targets, for the largest batches.
    fn targets(&self, bench: &Bench) -> Vec<Target> {
        let last = |points: &[(f64, f64)]| points.last().map(|(_, rate)| *rate);
        let (kernel, copied) = (last(&self.kernel), last(&self.copied).unwrap_or(f64::NAN));
        let gigabits = |rate: f64| rate * self.bits / 1e3;
        let mut targets = Vec::new();
        let mut ask = |what: &str, value: Option<f64>, floor: f64, aim: f64| {
            let bound = Bound::AtLeast(floor, aim);
            targets.extend(value.map(|value| Target {
                what: format!("{}: {what}", self.name),
                value,
                bound,
                judged: bench.is_gpu,
            }));
        };
        match self.subject {
            Subject::Lookup => {
                ask("K, G/s", kernel.map(|rate| rate / 1e3), 8.0, 20.0);
                ask("C, M/s from one lane", Some(copied), 500.0, 1200.0);
                if let Some(&(name, one, _)) = self.engines.last() {
                    ask(&format!("C over one core's {name}"), Some(copied / one), 16.0, 16.0);
                }
            }
            Subject::Lookup6 => {}
            Subject::Classify(kind) => {
                let (floor, aim) = match kind {
                    "acl1" => (250.0, 800.0),
                    "fw1" => (100.0, 300.0),
                    _ => (200.0, 600.0),
                };
                ask("C, M/s from one lane", Some(copied), floor, aim);
                let cores = bench.cores.len();
                for (name, one, all) in &self.engines {
                    ask(&format!("C over one core's {name}"), Some(copied / one), 20.0, 20.0);
                    let what = format!("C over {cores} cores' {name}");
                    ask(&what, Some(copied / all), 3.0, 3.0);
                }
            }
            Subject::Search => {
                ask("K, Gb/s", kernel.map(gigabits), 300.0, 800.0);
                let share = bench.bus.map(|bus| 100.0 * gigabits(copied) * 1e9 / 8.0 / bus);
                ask("C, % of the rate of copies to the device", share, 60.0, 80.0);
            }
            Subject::NearMiss => ask("K, Gb/s", kernel.map(gigabits), 60.0, 200.0),
        }
        targets
    }
}

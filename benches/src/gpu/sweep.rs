//! The figures: applications over sizes of batches and of packets.

use anyhow::Context;

use super::Bench;
use super::apps::{App, BURST, Form};
use crate::figures::figure::{Axis, Figure, Panel, Scale, Series};
use crate::figures::latency::{percentiles, poisson};
use crate::open_loop::{self, Frames, Schedule};
use crate::report::median;

/// Packets of a batch, where nothing else is said.
const BATCH: usize = 1024;

/// Packets of a batch, from one engine batch up.
const BATCHES: [usize; 6] = [256, 512, 1024, 2048, 4096, 8192];

/// Bytes of frames, with the check sequence.
const SIZES: [usize; 6] = [64, 128, 256, 512, 1024, 1518];

/// Bytes of frames where sizes are not what varies.
const MIDDLE: usize = 512;

/// What a frame takes of a link beside its bytes: preamble and gap.
const GAP: usize = 20;

impl Bench {
    /// Million packets a second through an application as fast as it goes, the median of the rounds.
    fn rate(&self, app: App, form: Form, frames: &Frames) -> anyhow::Result<f64> {
        let graph = self.fixture.graph(app, form);
        let mut rates = Vec::new();
        for _ in 0..self.rounds {
            // All are due at once.
            let schedule: Schedule = vec![0; self.packets].into();
            let passage = open_loop::run(&graph, BURST, self.core, frames, schedule)?;
            rates.push(self.packets as f64 / (passage.took as f64 / self.hertz) / 1e6);
        }
        median(rates).context("no rounds")
    }

    /// As [`rate`](Self::rate), after a check that the form does what the CPU's elements do.
    fn checked_rate(&self, app: App, form: Form, frames: &Frames) -> anyhow::Result<f64> {
        if form != Form::Cpu {
            self.fixture.gate(app, form, frames, self.core)?;
        }
        self.rate(app, form, frames)
    }

    /// What one must know to read a figure right.
    pub(super) fn notes(&self, more: &str) -> Vec<String> {
        vec![self.place.clone(), more.to_owned()]
    }
}

/// Figure 2.
pub(super) fn batch(bench: &Bench) -> anyhow::Result<Figure> {
    let mut panels = Vec::new();
    for (app, size) in [(App::ROUTER, 64), (App::SDN, 64), (App::IDS, MIDDLE)] {
        let frames = bench.fixture.frames(size);
        let cpu = bench.checked_rate(app, Form::Cpu, &frames)?;
        let mut points = Vec::new();
        for batch in BATCHES {
            points.push((batch as f64, bench.checked_rate(app, Form::section(batch), &frames)?));
        }
        let line = BATCHES.iter().map(|&batch| (batch as f64, cpu)).collect();
        panels.push(Panel {
            title: format!("{}, frames of {size} bytes", app.name),
            x: Axis::new("packets of a batch", Scale::Log2),
            y: Axis::new("million packets a second", Scale::Linear),
            series: vec![Series::new("in a section", points), Series::new("on the CPU", line)],
        });
    }
    Ok(Figure {
        name: "batch",
        title: "A device against the CPU, by the size of batches".to_owned(),
        panels,
        notes: bench.notes("From receiving to transmitting, on devices in memory."),
    })
}

/// Table 1.
pub(super) fn applications(bench: &Bench) -> anyhow::Result<Figure> {
    const APPS: [App; 5] = [App::FORWARDER, App::ROUTER, App::SDN, App::IDS, App::IDS_ROUTER];
    let names = APPS.iter().map(|app| app.name.to_owned()).collect::<Vec<_>>();
    let mut panels = Vec::new();
    for size in [64, MIDDLE, 1518] {
        let frames = bench.fixture.frames(size);
        let mut series = Vec::new();
        for (label, form) in [("on the CPU", Form::Cpu), ("in a section", Form::section(BATCH))] {
            let mut points = Vec::new();
            for (at, app) in APPS.into_iter().enumerate() {
                points.push((at as f64, gigabits(size, bench.checked_rate(app, form, &frames)?)));
            }
            series.push(Series::new(label, points));
        }
        panels.push(Panel {
            title: format!("Frames of {size} bytes"),
            x: Axis::new("application", Scale::Names(names.clone())),
            y: Axis::new("Gbit/s", Scale::Linear),
            series,
        });
    }
    Ok(Figure {
        name: "applications",
        title: "Forwarder, router, classifier, matcher, and all three in a row".to_owned(),
        panels,
        notes: bench.notes("Gaps between frames count as on Ethernet."),
    })
}

/// Figure 8.
pub(super) fn sizes(bench: &Bench) -> anyhow::Result<Figure> {
    let whole = Form::Section { batch: BATCH, whole: true };
    let forms = [
        ("on the CPU", Form::Cpu),
        ("in a section, by slices", Form::section(BATCH)),
        ("in a section, whole packets", whole),
    ];
    let apps = [App::SDN, App::DPI_ROUTER, App::IDS_ROUTER];
    by_size(bench, "sizes", "Three applications by packet size", &apps, &forms)
}

/// Figure 11.
pub(super) fn router(bench: &Bench) -> anyhow::Result<Figure> {
    let forms = [("on the CPU", Form::Cpu), ("in a section", Form::section(BATCH))];
    by_size(
        bench,
        "router",
        "The full router with an intrusion detection",
        &[App::FULL_ROUTER],
        &forms,
    )
}

fn by_size(
    bench: &Bench,
    name: &'static str,
    title: &str,
    apps: &[App],
    forms: &[(&str, Form)],
) -> anyhow::Result<Figure> {
    let mut panels = Vec::new();
    for &app in apps {
        let mut series: Vec<Series> =
            forms.iter().map(|(label, _)| Series::new(*label, Vec::new())).collect();
        for size in SIZES {
            let frames = bench.fixture.frames(size);
            for ((_, form), series) in forms.iter().zip(&mut series) {
                let rate = bench.checked_rate(app, *form, &frames)?;
                series.points.push((size as f64, gigabits(size, rate)));
            }
        }
        panels.push(Panel {
            title: app.name.to_owned(),
            x: Axis::new("bytes of a frame", Scale::Log2),
            y: Axis::new("Gbit/s", Scale::Linear),
            series,
        });
    }
    Ok(Figure {
        name,
        title: title.to_owned(),
        panels,
        notes: bench.notes("Gaps between frames count as on Ethernet."),
    })
}

/// Figure 9.
pub(super) fn divergence(bench: &Bench) -> anyhow::Result<Figure> {
    let forms = [("all to one matcher", App::STRAIGHT), ("to one of two matchers", App::DIVERGING)];
    let mut series: Vec<Series> =
        forms.iter().map(|(label, _)| Series::new(*label, Vec::new())).collect();
    for size in SIZES {
        let frames = bench.fixture.frames(size);
        for ((_, app), series) in forms.iter().zip(&mut series) {
            let rate = bench.checked_rate(*app, Form::section(BATCH), &frames)?;
            series.points.push((size as f64, gigabits(size, rate)));
        }
    }
    Ok(Figure {
        name: "divergence",
        title: "Packets of a batch that go different ways".to_owned(),
        panels: vec![Panel {
            title: "A classifier, then matchers".to_owned(),
            x: Axis::new("bytes of a frame", Scale::Log2),
            y: Axis::new("Gbit/s", Scale::Linear),
            series,
        }],
        notes: bench.notes("The classifier's four outputs lead to the two matchers in turn."),
    })
}

/// Latency by the size of batches.
pub(super) fn latency(bench: &Bench) -> anyhow::Result<Figure> {
    let frames = bench.fixture.frames(MIDDLE);
    let mut middle = Vec::new();
    let mut late = Vec::new();
    for batch in BATCHES {
        let form = Form::section(batch);
        let rate = bench.checked_rate(App::IDS_ROUTER, form, &frames)?;
        let gap = bench.hertz / (rate * 1e6);
        let (mut p50, mut p99) = (Vec::new(), Vec::new());
        for round in 0..bench.rounds {
            let schedule = poisson(bench.packets / 4, 2.0 * gap, u64::from(round));
            let graph = bench.fixture.graph(App::IDS_ROUTER, form);
            let passage = open_loop::run(&graph, BURST, bench.core, &frames, schedule)?;
            let (middle, late) = percentiles(passage);
            p50.push(middle / bench.hertz * 1e6);
            p99.push(late / bench.hertz * 1e6);
        }
        middle.push((batch as f64, median(p50).context("no rounds")?));
        late.push((batch as f64, median(p99).context("no rounds")?));
    }
    Ok(Figure {
        name: "latency",
        title: "Through the IDS router at half load, by the size of batches".to_owned(),
        panels: vec![Panel {
            title: format!("Frames of {MIDDLE} bytes"),
            x: Axis::new("packets of a batch", Scale::Log2),
            y: Axis::new("\u{b5}s from due to transmitted", Scale::Log10),
            series: vec![Series::new("the median", middle), Series::new("the 99th percentile", late)],
        }],
        notes: bench.notes("Poisson arrivals that wait for nobody; a batch that is not full ends after 50 \u{b5}s."),
    })
}

/// What a rate is on a link, for frames of so many bytes.
fn gigabits(bytes: usize, rate: f64) -> f64 {
    rate * 1e6 * ((bytes + GAP) * 8) as f64 / 1e9
}

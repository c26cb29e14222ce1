//! The figures: applications over sizes of batches and of packets.

use anyhow::Context;

use super::apps::{App, BURST, Form, agree};
use super::bench::Bench;
use crate::feed::{Arrivals, Frames, Passage, Run};
use crate::figures::figure::{Axis, Figure, Panel, Scale, Series};
use crate::figures::latency::{percentiles, poisson};
use crate::figures::target::{Bound, Target};
use crate::graph::Graph;
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
    /// Millions of packets per second through a configuration at the maximum rate, the median of the rounds. Without
    /// a GPU, by processor time, so that other programs on the machine do not matter.
    ///
    /// # Errors
    /// It is wrong, or loses packets.
    pub(super) fn rate_of(
        &self,
        graph: &Graph,
        frames: &Frames,
        cores: &[usize],
    ) -> anyhow::Result<f64> {
        self.measure(graph, frames, cores, |passage| {
            let seconds = match self.is_gpu {
                true => passage.took as f64 / self.hertz,
                false => passage.processor.as_secs_f64() / cores.len() as f64,
            };
            passage.packets as f64 / seconds / 1e6
        })
    }

    /// The median of what is seen of each round.
    fn measure(
        &self,
        graph: &Graph,
        frames: &Frames,
        cores: &[usize],
        see: impl Fn(&Passage) -> f64,
    ) -> anyhow::Result<f64> {
        let mut seen = Vec::new();
        for _ in 0..self.rounds {
            let arrivals = Arrivals::at_once(self.packets);
            seen.push(see(&Run { graph, burst: BURST, cores, frames, arrivals }.run()?));
        }
        median(seen).context("no rounds")
    }

    /// The same for an application, after checking that its results are those of the CPU's elements.
    fn checked_rate(
        &self,
        app: App,
        form: Form,
        frames: &Frames,
        cores: &[usize],
    ) -> anyhow::Result<f64> {
        if form != Form::Cpu {
            self.fixture.gate(app, form, frames, cores)?;
        }
        self.rate_of(&self.fixture.graph(app, form), frames, cores)
    }

    /// The same on one core.
    fn rate(&self, app: App, form: Form, frames: &Frames) -> anyhow::Result<f64> {
        self.checked_rate(app, form, frames, &[self.core])
    }

    /// A target of the design, for the GPU.
    fn target(&self, what: impl Into<String>, value: f64, bound: Bound) -> Target {
        Target { what: what.into(), value, bound, judged: self.is_gpu }
    }

    /// Notes that are needed to read a figure correctly.
    pub(super) fn notes(&self, more: &str) -> Vec<String> {
        vec![self.place.clone(), more.to_owned()]
    }
}

/// Figure 2.
pub(super) fn batch(bench: &Bench) -> anyhow::Result<Figure> {
    let mut panels = Vec::new();
    for (app, size) in [(App::ROUTER, 64), (App::SDN, 64), (App::IDS, MIDDLE)] {
        let frames = bench.fixture.frames(size);
        let cpu = bench.rate(app, Form::Cpu, &frames)?;
        let mut points = Vec::new();
        for batch in bench.values(&BATCHES) {
            points.push((batch as f64, bench.rate(app, Form::section(batch), &frames)?));
        }
        let line = points.iter().map(|&(batch, _)| (batch, cpu)).collect();
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
        targets: Vec::new(),
        notes: bench.notes("From receiving to transmitting, on devices in memory."),
    })
}

/// Table 1.
pub(super) fn applications(bench: &Bench) -> anyhow::Result<Figure> {
    const APPS: [App; 5] = [App::FORWARDER, App::ROUTER, App::SDN, App::IDS, App::IDS_ROUTER];
    let names = APPS.iter().map(|app| app.name.to_owned()).collect::<Vec<_>>();
    let mut panels = Vec::new();
    for size in bench.values(&[64, MIDDLE, 1518]) {
        let frames = bench.fixture.frames(size);
        let mut series = Vec::new();
        for (label, form) in [("on the CPU", Form::Cpu), ("in a section", Form::section(BATCH))] {
            let mut points = Vec::new();
            for (at, app) in APPS.into_iter().enumerate() {
                points.push((at as f64, gigabits(size, bench.rate(app, form, &frames)?)));
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
        targets: Vec::new(),
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
    let mut figure = by_size(bench, "sizes", "Three applications by packet size", &apps, &forms)?;
    let first = |series: &Series| series.points.first().map(|(_, rate)| *rate);
    let sdn = figure.panels.first().map(|panel| panel.series.as_slice()).unwrap_or_default();
    let sdn: Vec<f64> = sdn.iter().filter_map(first).collect();
    if let [_, slices, whole] = *sdn {
        let more = 100.0 * (slices / whole - 1.0);
        let what = "SDN forwarder at 64 bytes: slices over whole packets, % more";
        figure.targets.push(bench.target(what, more, Bound::AtLeast(13.7, 200.0)));
    }
    Ok(figure)
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
        for size in bench.values(&SIZES) {
            let frames = bench.fixture.frames(size);
            for ((_, form), series) in forms.iter().zip(&mut series) {
                let rate = bench.rate(app, *form, &frames)?;
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
        targets: Vec::new(),
        notes: bench.notes("Gaps between frames count as on Ethernet."),
    })
}

/// Figure 9.
pub(super) fn divergence(bench: &Bench) -> anyhow::Result<Figure> {
    let forms = [("all to one matcher", App::STRAIGHT), ("to one of two matchers", App::DIVERGING)];
    let mut series: Vec<Series> =
        forms.iter().map(|(label, _)| Series::new(*label, Vec::new())).collect();
    for size in bench.values(&SIZES) {
        let frames = bench.fixture.frames(size);
        for ((_, app), series) in forms.iter().zip(&mut series) {
            let rate = bench.rate(*app, Form::section(BATCH), &frames)?;
            series.points.push((size as f64, gigabits(size, rate)));
        }
    }
    let rates = |series: &Series| series.points.iter().map(|(_, rate)| *rate).collect::<Vec<_>>();
    let [straight, diverging] = [0, 1].map(|at| series.get(at).map(rates).unwrap_or_default());
    let lost = straight.iter().zip(diverging).map(|(one, two)| 100.0 * (1.0 - two / one));
    let most = lost.fold(f64::NEG_INFINITY, f64::max);
    let what = "packets to two matchers: % lost, at the size where it is most";
    let targets = vec![bench.target(what, most, Bound::AtMost(4.3, 2.0))];
    Ok(Figure {
        name: "divergence",
        title: "Packets of a batch that go different ways".to_owned(),
        panels: vec![Panel {
            title: "A classifier, then matchers".to_owned(),
            x: Axis::new("bytes of a frame", Scale::Log2),
            y: Axis::new("Gbit/s", Scale::Linear),
            series,
        }],
        targets,
        notes: bench.notes("The classifier's four outputs lead to the two matchers in turn."),
    })
}

/// Latency by the size of batches.
pub(super) fn latency(bench: &Bench) -> anyhow::Result<Figure> {
    let frames = bench.fixture.frames(MIDDLE);
    let (mut middle, mut late) = (Vec::new(), Vec::new());
    let mut targets = Vec::new();
    let cores = [bench.core];
    for batch in bench.values(&BATCHES) {
        let form = Form::section(batch);
        let graph = bench.fixture.graph(App::IDS_ROUTER, form);
        bench.fixture.gate(App::IDS_ROUTER, form, &frames, &cores)?;
        let gap = bench.measure(&graph, &frames, &cores, Passage::gap)?;
        let mut found = (Vec::new(), Vec::new());
        for round in 0..bench.rounds {
            let schedule = poisson(bench.packets / 4, 2.0 * gap, u64::from(round));
            let arrivals = Arrivals::At(schedule);
            let run = Run { graph: &graph, burst: BURST, cores: &cores, frames: &frames, arrivals };
            let (p50, p99) = percentiles(run.run()?.latencies);
            found.0.push(p50 / bench.hertz * 1e6);
            found.1.push(p99 / bench.hertz * 1e6);
        }
        let p50 = median(found.0).context("no rounds")?;
        let p99 = median(found.1).context("no rounds")?;
        middle.push((batch as f64, p50));
        late.push((batch as f64, p99));
        if batch == BATCH || bench.brief {
            let what = |which| format!("{which} of latency, batches of {batch}, \u{b5}s");
            targets.push(bench.target(what("median"), p50, Bound::AtMost(60.0, 30.0)));
            targets.push(bench.target(what("99th percentile"), p99, Bound::AtMost(200.0, 100.0)));
        }
    }
    Ok(Figure {
        name: "latency",
        title: "Through the IDS router at half load, by the size of batches".to_owned(),
        panels: vec![Panel {
            title: format!("Frames of {MIDDLE} bytes"),
            x: Axis::new("packets of a batch", Scale::Log2),
            y: Axis::new("\u{b5}s from due to transmitted", Scale::Log10),
            series: vec![
                Series::new("the median", middle),
                Series::new("the 99th percentile", late),
            ],
        }],
        targets,
        notes: bench.notes(
            "Poisson arrivals that wait for nobody; a batch that is not full ends after 50 \u{b5}s.",
        ),
    })
}

/// The number of cores of the design's target.
const CORES: usize = 4;

/// The IDS router on several cores, beside its bound.
pub(super) fn cores(bench: &Bench) -> anyhow::Result<Figure> {
    const SIZE: usize = 64;
    let frames = bench.fixture.frames(SIZE);
    let forms = [
        ("nothing but forwarding", App::FORWARDER, Form::Cpu),
        ("on the CPU", App::IDS_ROUTER, Form::Cpu),
        ("in a section", App::IDS_ROUTER, Form::section(BATCH)),
    ];
    let mut series = forms.map(|(label, ..)| Series::new(label, Vec::new()));
    let counts: Vec<usize> =
        [1, 2, CORES].into_iter().filter(|count| *count <= bench.cores.len()).collect();
    for &count in &counts {
        let used = bench.cores.get(bench.cores.len() - count..).unwrap_or_default();
        for ((_, app, form), series) in forms.iter().zip(&mut series) {
            let rate = bench.checked_rate(*app, *form, &frames, used)?;
            series.points.push((count as f64, gigabits(SIZE, rate)));
        }
    }
    let most = counts.last().copied().unwrap_or(1);
    let last = series.each_ref().map(|one| one.points.last().map_or(f64::NAN, |(_, rate)| *rate));
    let [forwarder, cpu, section] = last;
    // With fewer cores the target does not apply.
    let ask = |what: &str, value, bound| Target {
        judged: bench.is_gpu && most == CORES,
        ..bench.target(format!("IDS router at {SIZE} bytes on {most} cores: {what}"), value, bound)
    };
    let targets = vec![
        ask("section over the CPU's elements", section / cpu, Bound::AtLeast(1.9, 4.0)),
        ask("section, % of forwarding", 100.0 * section / forwarder, Bound::AtLeast(90.0, 90.0)),
    ];
    Ok(Figure {
        name: "cores",
        title: "The IDS router on several cores, and what devices in memory allow".to_owned(),
        panels: vec![Panel {
            title: format!("Frames of {SIZE} bytes"),
            x: Axis::new("cores", Scale::Log2),
            y: Axis::new("Gbit/s", Scale::Linear),
            series: series.into(),
        }],
        targets,
        notes: bench.notes("Gaps between frames count as on Ethernet."),
    })
}

/// Order and loss on a device that fails: always the simulator.
pub(super) fn faults(bench: &Bench) -> anyhow::Result<Figure> {
    let seeds = bench.values(&[1, 2, 3]);
    let numbered = bench.packets as u64 / 10;
    let frames = bench.fixture.frames(MIDDLE);
    let cores = [bench.core];
    let elements = bench.fixture.graph(App::IDS_ROUTER, Form::Cpu);
    let mut points = Vec::new();
    for seed in seeds {
        let mut graph = bench.fixture.graph(App::IDS_ROUTER, Form::section(256));
        graph.set("gpu", format!("simulator, FAULTS 1%, SEED {seed}, PATIENCE 20ms"));
        // The output must be that of the CPU's elements; a lost packet is an error.
        agree(&elements, &graph, &frames, &cores)?;
        // Due times one cycle apart, so that the time serves as a number.
        let arrivals = Arrivals::At((0..numbered).collect());
        let run = Run { graph: &graph, burst: BURST, cores: &cores, frames: &frames, arrivals };
        let passage = run.run()?;
        let lost = numbered - passage.packets.min(numbered);
        points.push((f64::from(seed), lost as f64, passage.reordered as f64));
    }
    let lost: Vec<_> = points.iter().map(|&(seed, lost, _)| (seed, lost)).collect();
    let reordered: Vec<_> = points.iter().map(|&(seed, _, count)| (seed, count)).collect();
    let sum = |points: &[(f64, f64)]| points.iter().map(|(_, count)| count).sum();
    let none = |what: &str, value| Target {
        what: format!("{what}, a step in a hundred failing"),
        value,
        bound: Bound::AtMost(0.0, 0.0),
        judged: true,
    };
    Ok(Figure {
        name: "faults",
        title: "Order and loss while the device fails".to_owned(),
        targets: vec![
            none("packets lost", sum(&lost)),
            none("packets out of order", sum(&reordered)),
        ],
        panels: vec![Panel {
            title: format!(
                "The IDS router, {numbered} packets, one step of a batch in a hundred fails"
            ),
            x: Axis::new("seed", Scale::Linear),
            y: Axis::new("packets", Scale::Linear),
            series: vec![Series::new("lost", lost), Series::new("out of order", reordered)],
        }],
        notes: vec![
            "On the simulator. What is sent is the same as by the CPU's elements.".to_owned(),
        ],
    })
}

/// The rate on a link for frames of this length.
fn gigabits(bytes: usize, rate: f64) -> f64 {
    rate * 1e6 * ((bytes + GAP) * 8) as f64 / 1e9
}

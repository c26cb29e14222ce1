//! The targets: this project's workloads beside hand-written C that does the same, in one run.
//!
//! DPDK's l3fwd and testpmd and `millrace run` forward on one core, between ports of the driver `net_pcap`:
//! port 0 replays a capture from memory, at about the cost of a card's receive path, and what is
//! transmitted is dropped. All programs are started once. Then they take turns, round after round, while
//! the others are paused. A rate is packets in a second of the forwarding thread's processor time: who
//! shares the machine slows all alike, not the rate. Ratios are those of one round.
//!
//! Before it is timed, each program treats the trace once, and every frame that it transmits is held
//! against a plain reference; while it is timed, each port must have its part of the packets.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use millrace_testkit::find_program;
use serde_json::{Value, json};

use super::plain;
use super::program::{Program, on_huge_pages};
use super::subject::{Bench, Configuration, Destinations, Input, Shapes, Size, Subject, length};
use super::testpmd::{self, Mode};
use crate::cycles::{self, Subject as Measured};
use crate::machine::{self, Machine};
use crate::overhead;
use crate::report::{self, median, rounded};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each workload is measured; the report has medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// The duration of each measurement in milliseconds
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    window: u64,

    /// The maximum number of packets at a time, 1 to 256, for millrace and testpmd; by default each program's own
    /// choice; may be given several times; l3fwd's bursts are always 32
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: Vec<u16>,

    /// Measures only the workloads whose names contain this; `overhead` means those without another program; may be
    /// given several times
    #[arg(long, value_name = "WORDS")]
    only: Vec<String>,

    /// The core that forwards; by default the last one
    #[arg(long, value_name = "N")]
    core: Option<usize>,

    /// Runs without DPDK and without fetching anything: measures the same routers with devices in memory, and lists
    /// the missing rows
    #[arg(long)]
    without_peers: bool,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) name: Cow<'static, str>,
    /// For ours and testpmd; by default each program's own choice.
    pub(super) burst: Option<u16>,
    pub(super) measure: Measure,
}

/// What is compared.
#[derive(Clone, Debug)]
pub(super) enum Measure {
    /// The ratio of our rate to the other's, with a floor and an aim.
    Ratio { ours: Subject, peer: Subject, floor: f64, aim: f64 },
    /// The fraction of its rate that a program loses between two workloads. Ours must lose no more than the other.
    Loss { ours: [Subject; 2], peer: [Subject; 2] },
}

/// The minimum, the median and the maximum of the rounds.
#[derive(Clone, Copy, Debug)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

/// The results of a row.
#[derive(Clone, Debug)]
struct Row {
    target: Target,
    /// For each round, the rate of each subject, in the order of [`Target::subjects`].
    rounds: Vec<Vec<f64>>,
}

/// Rates of other programs that do not run here, relative to l3fwd: 64 bytes, 1,024 random destinations, 130,000
/// routes, one core of a machine like this one.
const GIVEN: &[(&str, f64, Configuration)] = &[
    ("FastClick, forwarder without processing", 0.89, Configuration::Forward),
    ("FastClick, minimal router", 0.42, Configuration::MinimalRouter),
    ("FastClick, full standard router", 0.35, Configuration::FullRouter),
    ("VPP 26.06, cross-connect", 0.66, Configuration::CrossConnect),
    ("VPP 26.06, IPv4 forwarding", 0.27, Configuration::MinimalRouter),
];

/// 130,000 routes, 1,024 destinations.
pub(super) const USUAL: Input = Input { size: Size::Some, destinations: Destinations::Few };

/// The rows for bursts of a length.
fn targets(burst: Option<u16>) -> Vec<Target> {
    use Configuration::{CrossConnect, Filter, Forward, FullRouter, MinimalRouter, Mixed, Nat};

    let ours = |configuration, input| Subject::Ours(configuration, input, burst);
    let all = Input { size: Size::All, ..USUAL };
    let many = Input { destinations: Destinations::Many, ..USUAL };
    let ratio = |name: &'static str, ours, peer, floor, aim| Target {
        name: name.into(),
        burst,
        measure: Measure::Ratio { ours, peer, floor, aim },
    };
    let nat = |name, flows, floor, aim| {
        let input = Input { destinations: Destinations::Flows(flows), ..USUAL };
        ratio(name, ours(Nat, input), Subject::L3fwd(USUAL), floor, aim)
    };
    let filter = |name, shapes, rules, floor, aim| {
        let input = Input { destinations: Destinations::Rules(shapes, rules), ..USUAL };
        ratio(name, ours(Filter, input), Subject::L3fwd(USUAL), floor, aim)
    };
    let few = Shapes::Few;
    let kind = Shapes::Kind;
    vec![
        ratio(
            "forward, no processing",
            ours(Forward, USUAL),
            Subject::Testpmd(Mode::Io, burst),
            0.95,
            1.0,
        ),
        ratio(
            "L2 cross-connect with MAC rewrite",
            ours(CrossConnect, USUAL),
            Subject::Testpmd(Mode::MacSwap, burst),
            0.90,
            1.0,
        ),
        ratio(
            "minimal IPv4 router, 130K routes",
            ours(MinimalRouter, USUAL),
            Subject::L3fwd(USUAL),
            0.85,
            1.0,
        ),
        ratio(
            "minimal IPv4 router, 512K routes",
            ours(MinimalRouter, all),
            Subject::L3fwd(all),
            0.85,
            1.0,
        ),
        ratio(
            "full standard IP router, 130K routes",
            ours(FullRouter, USUAL),
            Subject::L3fwd(USUAL),
            0.70,
            0.90,
        ),
        Target {
            name: "the same, 16,384 destinations: loss".into(),
            burst,
            measure: Measure::Loss {
                ours: [ours(FullRouter, USUAL), ours(FullRouter, many)],
                peer: [Subject::L3fwd(USUAL), Subject::L3fwd(many)],
            },
        },
        ratio(
            "mixed L2/IPv4/IPv6, of IPv4 alone",
            ours(Mixed, Input { destinations: Destinations::Mixed, ..USUAL }),
            ours(MinimalRouter, USUAL),
            0.6,
            0.8,
        ),
        nat("NAT, 1 flow", 1, 0.50, 0.60),
        nat("NAT, 4,096 flows", 4096, 0.45, 0.55),
        nat("NAT, 65,536 flows", 65_536, 0.30, 0.40),
        filter("IPFilter, 10 rules of few shapes", few, 10, 0.45, 0.60),
        filter("IPFilter, 100 rules of few shapes", few, 100, 0.40, 0.55),
        filter("IPFilter, 1,000 rules of few shapes", few, 1000, 0.35, 0.50),
        filter("IPFilter, 10,000 rules of few shapes", few, 10_000, 0.30, 0.45),
        filter("IPFilter, 10,000 rules like ClassBench acl", kind(0), 10_000, 0.15, 0.30),
        filter("IPFilter, 10,000 rules like ClassBench fw", kind(1), 10_000, 0.15, 0.30),
        filter("IPFilter, 10,000 rules like ClassBench ipc", kind(2), 10_000, 0.15, 0.30),
    ]
}

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// A program or the routes are missing, there are fewer than two cores, or a program does not run or gives wrong
    /// results.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let bursts = match &self.burst[..] {
            [] => vec![None],
            bursts => bursts.iter().copied().map(Some).collect(),
        };
        let mut targets: Vec<Target> = bursts.into_iter().flat_map(targets).collect();
        targets.extend(plain::targets(&self.burst));
        if !self.only.is_empty() {
            targets.retain(|target| self.only.iter().any(|words| target.name.contains(words)));
        }
        let overhead = self.only.is_empty() || self.only.iter().any(|words| words == "overhead");
        ensure!(overhead || !targets.is_empty(), "--only: there is no such workload");
        if self.without_peers {
            return self.run_without(&targets);
        }

        let machine = Machine::look();
        let folder = std::env::temp_dir().join(format!("millrace-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let measured = self.bench(folder.clone()).and_then(|mut bench| {
            for subject in targets.iter().flat_map(Target::subjects) {
                bench.prepare(subject.input().destinations)?;
            }
            let core = bench.cores[1];
            println!(
                "{}, core {}; commit {}\n{} rounds of {} ms; 64-byte frames, {} and {} routes",
                machine.cpu,
                core,
                machine.commit,
                self.rounds,
                self.window,
                bench.count(Size::Some),
                bench.count(Size::All)
            );
            let rows = self.measure(&bench, targets)?;
            let overhead = match overhead {
                true => overhead::rows(core, self.rounds, cycles::LENGTH)?,
                false => Vec::new(),
            };
            anyhow::Ok((rows, overhead))
        });
        // Another run of the benchmark makes a folder of its own.
        let _ = std::fs::remove_dir_all(&folder);
        let (rows, overhead) = measured?;

        print!("\n{}", table(&rows));
        if !overhead.is_empty() {
            print!("\n{}", overhead::table(&overhead));
        }
        print!("\n{}\n{}", given(&rows), notes());
        let json = rows.iter().map(Row::json).chain(given_json(&rows));
        let json = json.chain(overhead.iter().map(overhead::Row::json)).collect();
        let options = json!({
            "suite": "router",
            "rounds": self.rounds,
            "window_ms": self.window,
            "burst": self.burst,
        });
        report::write(self.json.as_deref(), &machine, options, json)
    }

    fn run_without(&self, targets: &[Target]) -> anyhow::Result<()> {
        println!("Left out, because these rows stand beside programs of DPDK's:");
        for target in targets {
            println!("  {} (burst {})", target.name, length(target.burst));
        }
        println!("In their place the same graphs on devices in memory:\n");
        let bursts = if self.burst.is_empty() { &[32, 256][..] } else { &self.burst };
        let options = cycles::Options::routers(self.rounds, bursts, self.core, &self.json);
        options.run(Measured::Routers)?;
        let core = self.core.map_or_else(machine::last_core, Ok)?;
        let rows = overhead::rows(core, self.rounds, cycles::LENGTH)?;
        print!("\n{}", overhead::table(&rows));
        Ok(())
    }

    /// Finds all programs and data.
    fn bench(&self, folder: PathBuf) -> anyhow::Result<Bench> {
        let from_task = |name: &str| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.with_context(|| {
                format!("{name} is not set: run this by `cargo xtask bench router`")
            })
        };
        let l3fwd = from_task("MILLRACE_L3FWD")?;
        let routes = from_task("MILLRACE_ROUTES")?;
        let testpmd = find_program("dpdk-testpmd")
            .context("there is no dpdk-testpmd: apt-get install dpdk-dev libdpdk-dev pkg-config")?;
        let cores = machine::cores()?;
        let [first, .., last] = cores[..] else { bail!("this takes two cores") };
        let core = self.core.unwrap_or(last);
        let first = if core == first { last } else { first };
        Bench::new([testpmd::build()?, l3fwd, testpmd], &routes, folder, [first, core])
    }

    fn measure(&self, bench: &Bench, targets: Vec<Target>) -> anyhow::Result<Vec<Row>> {
        let mut programs: Vec<(Subject, Program)> = Vec::new();
        for subject in targets.iter().flat_map(Target::subjects) {
            if programs.iter().any(|(other, _)| *other == subject) {
                continue;
            }
            eprintln!("checking {}", subject.name());
            subject.gate(bench)?;
            programs.push((subject, subject.start(bench)?));
        }
        let row = |target| Row { target, rounds: Vec::new() };
        let mut rows: Vec<Row> = targets.into_iter().map(row).collect();
        for round in 0..self.rounds {
            eprintln!("round {} of {}", round + 1, self.rounds);
            for row in &mut rows {
                row.measure(round, bench, &mut programs, Duration::from_millis(self.window))?;
            }
        }
        Ok(rows)
    }
}

impl Target {
    pub(super) fn subjects(&self) -> Vec<Subject> {
        match self.measure {
            Measure::Ratio { ours, peer, .. } => vec![ours, peer],
            Measure::Loss { ours: [ours, ours_more], peer: [peer, peer_more] } => {
                vec![ours, peer, ours_more, peer_more]
            }
        }
    }
}

impl Row {
    fn measure(
        &mut self,
        round: u32,
        bench: &Bench,
        programs: &mut [(Subject, Program)],
        window: Duration,
    ) -> anyhow::Result<()> {
        let subjects = self.target.subjects();
        let mut order: Vec<usize> = (0..subjects.len()).collect();
        // So a change of the machine's speed affects all of them.
        if round % 2 == 1 {
            order.reverse();
        }
        let mut rates = vec![f64::NAN; subjects.len()];
        for n in order {
            let (Some(subject), Some(rate)) = (subjects.get(n), rates.get_mut(n)) else { continue };
            let program = programs.iter_mut().find(|(other, _)| other == subject);
            let (_, program) = program.with_context(|| subject.name())?;
            *rate = subject.rate(bench, program, window)?;
        }
        self.rounds.push(rates);
        Ok(())
    }

    /// The figures that a function makes of the rounds' rates.
    fn spread(&self, figure: impl Fn(&[f64]) -> Option<f64>) -> Spread {
        let figures: Vec<f64> = self.rounds.iter().filter_map(|rates| figure(rates)).collect();
        Spread {
            least: figures.iter().copied().fold(f64::INFINITY, f64::min),
            most: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            median: median(figures).unwrap_or(f64::NAN),
        }
    }

    /// The rate of the subject of that number.
    fn rate(&self, subject: usize) -> f64 {
        self.spread(|rates| rates.get(subject).copied()).median
    }

    /// The ratio of our rate to the other's; or the losses of both, in percent.
    fn figures(&self) -> Vec<Spread> {
        let lost = |few: f64, many: f64| (1.0 - many / few) * 100.0;
        match self.target.measure {
            Measure::Ratio { .. } => vec![self.spread(|rates| match rates {
                [ours, peer] => Some(ours / peer),
                _ => None,
            })],
            Measure::Loss { .. } => {
                let ours = self.spread(|rates| match rates {
                    [ours, _, many, _] => Some(lost(*ours, *many)),
                    _ => None,
                });
                let peer = self.spread(|rates| match rates {
                    [_, peer, _, many] => Some(lost(*peer, *many)),
                    _ => None,
                });
                vec![ours, peer]
            }
        }
    }

    fn verdict(&self) -> &'static str {
        match (&self.target.measure, self.figures()[..].as_ref()) {
            (Measure::Ratio { aim, .. }, [ratio]) if ratio.median >= *aim => "aim met",
            (Measure::Ratio { floor, .. }, [ratio]) if ratio.median >= *floor => "floor met",
            (Measure::Loss { .. }, [ours, peer]) if ours.median <= peer.median => "met",
            _ => "not met",
        }
    }

    /// The index of the workload among the subjects, without those that it is compared with.
    fn shown(&self) -> [(usize, Option<Subject>); 2] {
        let subjects = self.target.subjects();
        let first = match self.target.measure {
            Measure::Ratio { .. } => 0,
            Measure::Loss { .. } => 2,
        };
        [first, first + 1].map(|n| (n, subjects.get(n).copied()))
    }

    /// A line of the table as text.
    fn line(&self) -> String {
        let [(ours, _), (peer, program)] = self.shown();
        let program = program.map(Subject::program).unwrap_or_default();
        let (figures, floor, aim) = match (&self.target.measure, self.figures()[..].as_ref()) {
            (Measure::Ratio { floor, aim, .. }, [ratio]) => (
                format!("{:.2} [{:.2}-{:.2}]", ratio.median, ratio.least, ratio.most),
                format!("{floor:.2}"),
                format!("{aim:.2}"),
            ),
            (Measure::Loss { .. }, [ours, peer]) => (
                format!("-{:.1} %, -{:.1} %", ours.median, peer.median),
                "no more".to_owned(),
                String::new(),
            ),
            _ => Default::default(),
        };
        format!(
            "{:<42}{:>6}{:>8.2}{:>8.2}  {:<16}{:>19}{:>9}{:>6}  {}\n",
            self.target.name,
            length(self.target.burst),
            self.rate(ours) / 1e6,
            self.rate(peer) / 1e6,
            program,
            figures,
            floor,
            aim,
            self.verdict()
        )
    }

    /// The row of a report for programs.
    fn json(&self) -> Value {
        let [(ours, _), (peer, program)] = self.shown();
        let mpps = |subject| rounded(self.rate(subject) / 1e6);
        let spread = |Spread { least, median, most }: &Spread| json!({"median": precise(*median), "least": precise(*least), "most": precise(*most)});
        let mut row = json!({
            "group": "targets",
            "name": self.target.name,
            "burst": self.target.burst,
            "mpps": mpps(ours),
            "peer": program.map(Subject::program),
            "peer_mpps": mpps(peer),
            "verdict": self.verdict(),
        });
        match (&self.target.measure, self.figures()[..].as_ref()) {
            (Measure::Ratio { floor, aim, .. }, [ratio]) => {
                row["ratio"] = spread(ratio);
                row["floor"] = json!(floor);
                row["aim"] = json!(aim);
            }
            (Measure::Loss { .. }, [ours, peer]) => {
                row["loss_percent"] = spread(ours);
                row["peer_loss_percent"] = spread(peer);
            }
            _ => {}
        }
        row
    }
}

/// With three decimal places.
fn precise(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// The table as text.
fn table(rows: &[Row]) -> String {
    let head = format!(
        "{:<42}{:>6}{:>8}{:>8}  {:<16}{:>19}{:>9}{:>6}  {}\n",
        "workload", "burst", "Mpps", "peer", "", "ratio [rounds]", "floor", "aim", "verdict"
    );
    std::iter::once(head).chain(rows.iter().map(Row::line)).collect()
}

/// Our rates with a configuration, relative to l3fwd's, both with 130,000 routes: medians of the run, and the lengths
/// of bursts.
fn of_l3fwd(rows: &[Row], wanted: Configuration) -> Vec<(Option<u16>, f64)> {
    let rate = |wanted: Subject| {
        rows.iter().find_map(|row| {
            let at = row.target.subjects().iter().position(|subject| *subject == wanted)?;
            Some(row.rate(at))
        })
    };
    let Some(l3fwd) = rate(Subject::L3fwd(USUAL)) else { return Vec::new() };
    let mut bursts: Vec<Option<u16>> = rows.iter().map(|row| row.target.burst).collect();
    bursts.dedup();
    let ours = |burst| Some((burst, rate(Subject::Ours(wanted, USUAL, burst))? / l3fwd));
    bursts.into_iter().filter_map(ours).collect()
}

/// The known rates of programs that do not run here.
fn given(rows: &[Row]) -> String {
    let mut text = "Fractions of l3fwd's rate: others' as they were given, not measured in this run; ours of this run\n".to_owned();
    for (name, fraction, configuration) in GIVEN {
        let ours: Vec<String> = of_l3fwd(rows, *configuration)
            .into_iter()
            .map(|(burst, ours)| {
                format!("{ours:.2} ({}, burst {})", configuration.name(), length(burst))
            })
            .collect();
        text.push_str(&format!("{name:<42}{fraction:>6.2}   ours {}\n", ours.join(", ")));
    }
    text
}

fn given_json(rows: &[Row]) -> Vec<Value> {
    let row = |(name, fraction, configuration): &(&str, f64, Configuration)| {
        let ours = of_l3fwd(rows, *configuration);
        let ours: Vec<Value> = ours
            .into_iter()
            .map(|(burst, ours)| json!({"burst": burst, "of_l3fwd": precise(ours)}))
            .collect();
        json!({
            "group": "given",
            "name": name,
            "of_l3fwd": fraction,
            "measured": false,
            "ours": {"name": configuration.name(), "measured": ours},
        })
    };
    GIVEN.iter().map(row).collect()
}

/// How the other programs were built and run.
fn notes() -> String {
    let said = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        Some(text.lines().next()?.trim().to_owned())
    };
    let version = said("pkg-config", &["--modversion", "libdpdk"]).unwrap_or_default();
    let flags = said("pkg-config", &["--cflags-only-other", "libdpdk"]).unwrap_or_default();
    let compiler = said("cc", &["--version"]).unwrap_or_default();
    let l3fwd = std::env::var("MILLRACE_L3FWD").unwrap_or_default();
    let l3fwd = Path::new(&l3fwd).file_name().unwrap_or_default().display().to_string();
    let pages = match on_huge_pages() {
        true => "on huge pages",
        false => {
            "--no-huge: on ordinary pages our mbufs lie behind one\n  another, while those of the others share a \
             set of the first cache, so the ratios are higher than on huge pages\n  \
             (`sysctl -w vm.nr_hugepages=2048` and a mounted hugetlbfs show those)"
        }
    };
    format!(
        "DPDK {version}, net_pcap with infinite_rx=1, {pages}; 4 ports, of which port 0 receives (testpmd: one).\n\
         {l3fwd}: its own Makefile, -O3 {flags}, {compiler}; receive checksum offload off, room for \
         more routes;\n  -P --parse-ptype --lookup=lpm, bursts of 32 (its source), a pool of mbufs as \
         large as ours.\n\
         Rates are packets in a second of the forwarding thread's processor time.\n"
    )
}

//! What threads bring: the same work on one thread and on two, arranged in the ways that FastClick's
//! paper compares (Barbette et al., ANCS'15, figures 8 and 11).
//!
//! The devices are in memory and have several queues ([`devices`]), so what is measured is how the
//! work is divided, and the locks and rings that it takes. Arrangements take turns, round after
//! round; every run must account for each packet.

mod devices;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use millrace_core::Phase;
use millrace_core::run::Options as RouterOptions;
use millrace_core::services::Services;
use millrace_io::Devices;
use serde_json::{Value, json};

use self::devices::Rig;
use crate::cycles::Trace;
use crate::graph::{Graph, drops};
use crate::machine::{self, Machine};
use crate::report::{self, median, rounded};
use crate::traffic;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each arrangement is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Most packets at a time, 1 to 256.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: u16,

    /// The duration of each measurement in milliseconds
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    window: u64,

    /// Measures only the arrangement of this name; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Routes in the router's table.
    #[arg(long, value_name = "N", default_value_t = 130_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    routes: u32,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A way to distribute work over threads.
struct Arrangement {
    name: &'static str,
    threads: usize,
    /// The maximum number of transmit queues of a device.
    tx_queues: usize,
    /// The configuration around the work, which is an element of class `Work`.
    text: &'static str,
    /// The arrangement that it is compared with.
    base: &'static str,
}

/// The arrangements. The first base is one thread that does everything.
const ARRANGEMENTS: &[Arrangement] = &[
    Arrangement {
        name: "full push, 1 thread",
        threads: 1,
        tx_queues: 1,
        text: "FromDevice(eth0, BURST $burst) -> Work -> ToDevice(eth1);",
        base: "full push, 1 thread",
    },
    Arrangement {
        name: "full push, 2 threads",
        threads: 2,
        tx_queues: 2,
        text: "FromDevice(eth0, BURST $burst) -> Work -> ToDevice(eth1);",
        base: "full push, 1 thread",
    },
    Arrangement {
        name: "disjoint devices, 2 threads",
        threads: 2,
        tx_queues: 1,
        text: "FromDevice(eth0, BURST $burst) -> Work -> ToDevice(eth1);
               FromDevice(eth2, BURST $burst) -> Work -> ToDevice(eth3);",
        base: "full push, 1 thread",
    },
    Arrangement {
        name: "push to pull, 1 thread",
        threads: 1,
        tx_queues: 1,
        text: "FromDevice(eth0, BURST $burst) -> Work -> Queue(1024)
               -> ToDevice(eth1, BURST $burst);",
        base: "full push, 1 thread",
    },
    Arrangement {
        name: "push to pull, 2 threads",
        threads: 2,
        tx_queues: 1,
        text: "FromDevice(eth0, BURST $burst, MAXTHREADS 1) -> Work -> Queue(1024)
               -> out :: ToDevice(eth1, BURST $burst);
               StaticThreadSched(out 1);",
        base: "full push, 1 thread",
    },
    Arrangement {
        name: "pipelined, 2 threads",
        threads: 2,
        tx_queues: 1,
        text: "FromDevice(eth0, BURST $burst, MAXTHREADS 1) -> Work -> pipe :: Pipeliner
               -> ToDevice(eth1);
               StaticThreadSched(pipe 1);",
        base: "full push, 1 thread",
    },
    Arrangement {
        name: "one locked transmit queue, 2 threads",
        threads: 2,
        tx_queues: 1,
        text: "FromDevice(eth0, BURST $burst) -> Work -> ToDevice(eth1);",
        base: "full push, 2 threads",
    },
    Arrangement {
        name: "one locked receive queue, 2 threads",
        threads: 2,
        tx_queues: 2,
        text: "FromDevice(eth0, BURST $burst, N_QUEUES 1, MAXTHREADS 2) -> Work -> ToDevice(eth1);",
        base: "full push, 2 threads",
    },
];

/// The work on each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Nothing.
    Forward,
    /// The work of `configs/minimal-router.click`, to one device.
    Route,
}

impl Work {
    /// An element class `Work` for it.
    fn class(self) -> &'static str {
        match self {
            Self::Forward => "elementclass Work { input -> Null -> output }\n",
            Self::Route => {
                "elementclass Work {
                   input -> Classifier(12/0800) -> Strip(14) -> CheckIPHeader
                     -> route :: DirectIPLookup;
                   route[0] -> Discard;
                   hop :: DecIPTTL -> EtherEncap(0x0800, 2:0:a:0:1:1, 2:0:a:0:1:2) -> output;
                   route[1] -> hop; route[2] -> hop; route[3] -> hop;
                 }\n"
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Route => "minimal-router",
        }
    }
}

/// An arrangement with a kind of work, and the results of each round.
struct Row {
    work: Work,
    arrangement: &'static Arrangement,
    rounds: Vec<Round>,
}

/// The results of a round.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Packets per second that came out.
    rate: f64,
    /// Packets that came out per second of the program's processor time, times the number of threads: the rate on a
    /// machine where no other program uses the cores. Time in which threads sleep while they wait for each other does
    /// not count.
    undisturbed: f64,
}

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// There are fewer than two cores, or a packet is lost without being counted.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let cores = machine::cores()?;
        let [.., second, first] = cores[..] else {
            anyhow::bail!("two threads need two cores, and this program may run on one only");
        };
        let machine = Machine::look();
        println!(
            "{}, cores {first} and {second}; commit {}\n{} routes, frames of {} bytes, bursts of {}, \
             {} rounds of {} ms\n",
            machine.cpu,
            machine.commit,
            self.routes,
            traffic::FRAME_LEN,
            self.burst,
            self.rounds,
            self.window
        );
        let routes = traffic::routes(self.routes as usize);
        let trace: Trace = traffic::trace(&routes)?.into();
        let table = traffic::commands(&routes);
        let mut rows = self.rows()?;
        for _ in 0..self.rounds {
            for row in &mut rows {
                row.rounds.push(self.round(row, [first, second], &trace, &table)?);
            }
        }
        print!("{}", tell(&rows));
        let options = json!({
            "suite": "threads", "rounds": self.rounds, "burst": self.burst,
            "window_ms": self.window, "routes": self.routes, "cores": [first, second],
            "frame": traffic::FRAME_LEN,
        });
        let values = rows.iter().map(|row| row.json(&rows)).collect();
        report::write(self.json.as_deref(), &machine, options, values)
    }

    fn rows(&self) -> anyhow::Result<Vec<Row>> {
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|o| o == name);
        let mut rows = Vec::new();
        for work in [Work::Forward, Work::Route] {
            let chosen = ARRANGEMENTS.iter().filter(|arrangement| wanted(arrangement.name));
            rows.extend(chosen.map(|arrangement| Row { work, arrangement, rounds: Vec::new() }));
        }
        ensure!(!rows.is_empty(), "--only: there is nothing of this name");
        Ok(rows)
    }

    /// Measures an arrangement, with one thread on each of the cores in turn, because they may differ.
    fn round(
        &self,
        row: &Row,
        [first, second]: [usize; 2],
        trace: &Trace,
        table: &str,
    ) -> anyhow::Result<Round> {
        if row.arrangement.threads > 1 {
            return self.measure(row, &[first, second], trace, table);
        }
        let one = self.measure(row, &[first], trace, table)?;
        let other = self.measure(row, &[second], trace, table)?;
        Ok(Round {
            rate: (one.rate + other.rate) / 2.0,
            undisturbed: (one.undisturbed + other.undisturbed) / 2.0,
        })
    }

    fn measure(
        &self,
        row: &Row,
        cores: &[usize],
        trace: &Trace,
        table: &str,
    ) -> anyhow::Result<Round> {
        const WARM_UP: Duration = Duration::from_millis(50);
        let Arrangement { name, threads, tx_queues, text, .. } = *row.arrangement;
        let rig = Rig::new(trace.clone(), tx_queues);
        let mut services = Services::default();
        services.insert(Devices(Box::new(rig.clone())));
        let options =
            RouterOptions { threads, cores: cores.to_vec(), services, ..RouterOptions::default() };
        let graph = Graph::new(name, format!("{}{text}", row.work.class()));
        let engine = graph.engine(&[("burst", self.burst.to_string())], options)?;
        let router = engine.router().clone();
        if row.work == Work::Route {
            for id in 0..router.len() {
                let element = router.name_of(id);
                if element.ends_with("/route")
                    && let Err(error) = router.write(&format!("{element}.ctrl"), table.as_bytes())
                {
                    anyhow::bail!("{name}: {error}");
                }
            }
        }

        let round = std::thread::scope(|scope| {
            let timing = scope.spawn(|| {
                std::thread::sleep(WARM_UP);
                let (start, used, (_, before)) = (Instant::now(), processor_time(), rig.counts());
                std::thread::sleep(Duration::from_millis(self.window));
                let (time, spent) = (start.elapsed(), processor_time() - used);
                let packets = (rig.counts().1 - before) as f64;
                rig.finish();
                wait_for_rest(&rig);
                router.enter(Phase::Halted);
                Round {
                    rate: packets / time.as_secs_f64(),
                    undisturbed: packets * threads as f64 / spent.as_secs_f64(),
                }
            });
            engine.run();
            timing.join()
        });
        let Ok(round) = round else { anyhow::bail!("{name}: the measurement failed") };
        let (received, transmitted) = rig.counts();
        let drops = drops(&router);
        let dropped: u64 = drops.values().sum();
        ensure!(
            received == transmitted + dropped,
            "{name}: of {received} packets {transmitted} came out; dropped: {drops:?}"
        );
        Ok(round)
    }
}

/// Processor time of all threads of this program so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Waits until no packet comes out any more.
fn wait_for_rest(rig: &Rig) {
    let mut before = None;
    while before != Some(rig.counts()) {
        before = Some(rig.counts());
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Row {
    fn median(&self, of: fn(&Round) -> f64) -> Option<f64> {
        median(self.rounds.iter().map(of).collect())
    }

    /// The ratio of the undisturbed rate to the base's: the median of the rounds' ratios.
    fn ratio(&self, rows: &[Row]) -> Option<f64> {
        let base = rows
            .iter()
            .find(|row| row.work == self.work && row.arrangement.name == self.arrangement.base)?;
        let pairs = self.rounds.iter().zip(&base.rounds);
        median(pairs.map(|(own, base)| own.undisturbed / base.undisturbed).collect())
    }

    fn json(&self, rows: &[Row]) -> Value {
        let mpps = |of| self.median(of).map(|rate| rounded(rate / 1e6));
        json!({
            "work": self.work.name(),
            "arrangement": self.arrangement.name,
            "threads": self.arrangement.threads,
            "mpps": mpps(|round| round.rate),
            "undisturbed_mpps": mpps(|round| round.undisturbed),
            "base": self.arrangement.base,
            "ratio": self.ratio(rows).map(rounded),
        })
    }
}

/// The table as text.
fn tell(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<16}{:<38}{:>8}{:>13}{:>8}  of\n",
        "work", "arrangement", "Mpps", "undisturbed", "ratio"
    );
    for row in rows {
        let mpps = |of| row.median(of).unwrap_or(f64::NAN) / 1e6;
        let (rate, undisturbed) = (mpps(|round| round.rate), mpps(|round| round.undisturbed));
        let ratio = row.ratio(rows).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let Arrangement { name, base, .. } = row.arrangement;
        text.push_str(&format!(
            "{:<16}{name:<38}{rate:>8.2}{undisturbed:>13.2}{ratio:>8}  {base}\n",
            row.work.name()
        ));
    }
    text
}

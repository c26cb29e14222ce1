//! Random configurations, which nobody has tuned. Each is checked with and without the optimiser, and compared with
//! the sum of the costs of its elements.
//!
//! An element's cost is that of the smallest file with it, minus that of the same file without it; bursts have 256
//! packets. For a file, the costs of its elements are multiplied by the fractions of packets that reach them, and
//! added to the cost of forwarding with bursts of the measured length: receiving for all packets, transmitting for
//! those that leave. What a file costs more than this sum is caused by the engine: batches that are split and merged,
//! and checks that are repeated.

mod classes;
mod draw;
mod measure;
mod same;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use self::draw::{Drawing, SIZES};
use self::measure::{Shares, Subject, Work};
use crate::machine::Machine;
use crate::report::{self, median, rounded};

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    files: Files,

    /// How often each file is timed; the report has medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Prints the files and their elements, and measures nothing
    #[arg(long)]
    show: bool,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Which files, for the worker as for the program that starts it.
#[derive(clap::Args)]
struct Files {
    /// The number of files
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// The seed of the first file
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,

    /// The maximum number of elements of a file
    #[arg(long, value_name = "N", default_value_t = *SIZES.end())]
    elements: usize,

    /// Most packets at a time, 1 to 256; may be given several times.
    #[arg(long, value_name = "N", default_values_t = [32, 128], value_parser = clap::value_parser!(u16).range(1..=256))]
    burst: Vec<u16>,

    /// The number of packets that are counted and timed at a time; rounded to whole bursts
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(256..=1_000_000))]
    packets: u64,
}

/// The maximum ratio of a file to the sum: the median, and the worst.
const MIDDLE: f64 = 1.25;
const WORST: f64 = 1.6;

/// The cost of a file with bursts of one length, and the sum of its elements.
struct Row {
    name: String,
    elements: usize,
    burst: u16,
    instructions: Pair,
    cycles: Pair,
}

/// The measured cost, and the sum.
struct Pair {
    measured: f64,
    sum: f64,
}

impl Pair {
    fn ratio(&self) -> f64 {
        self.measured / self.sum
    }

    fn json(&self) -> Value {
        json!({"measured": rounded(self.measured), "sum": rounded(self.sum), "ratio": rounded(self.ratio())})
    }
}

impl Options {
    /// Draws, checks, measures and reports.
    ///
    /// # Errors
    /// The results of a file depend on the optimiser, or there is no Valgrind.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let drawings = self.files.draw();
        if self.show {
            for drawing in &drawings {
                println!("// {}, {} elements\n{}", drawing.name, drawing.parts.len(), drawing.text);
            }
            return Ok(());
        }
        let mut silent = 0;
        for (drawing, seed) in drawings.iter().zip(self.files.first..) {
            silent += usize::from(same::check(drawing, seed)? == 0);
        }
        println!("{} files do with the optimiser what they do without", drawings.len());
        ensure!(silent * 4 < drawings.len(), "nothing leaves {silent} of the files");
        let work = self.files.work(&drawings);
        let (cycles, shares) = work.cycles(self.rounds)?;
        let instructions = work.instructions(&self.files.words())?;
        let mut rows = Vec::new();
        for &burst in &self.files.burst {
            for (file, (drawing, shares)) in drawings.iter().zip(&shares).enumerate() {
                let pair = |costs| pair(costs, file, drawing, shares, burst);
                rows.push(Row {
                    name: drawing.name.clone(),
                    elements: drawing.parts.len(),
                    burst,
                    instructions: pair(&instructions)?,
                    cycles: pair(&cycles)?,
                });
            }
        }
        print!("{}", table(&rows));
        let verdicts: Vec<Value> =
            self.files.burst.iter().flat_map(|burst| verdicts(&rows, *burst)).collect();
        let options = json!({
            "suite": "anyfile", "seeds": self.files.seeds, "first": self.files.first,
            "elements": self.files.elements, "burst": self.files.burst, "packets": self.files.packets, "rounds": self.rounds,
        });
        let rows = rows.iter().map(Row::json).chain(verdicts).collect();
        report::write(self.json.as_deref(), &Machine::look(), options, rows)
    }
}

/// What a file takes, and the sum of its elements.
fn pair(
    costs: &BTreeMap<Subject, f64>,
    file: usize,
    drawing: &Drawing,
    shares: &Shares,
    burst: u16,
) -> anyhow::Result<Pair> {
    let cost = |subject: Subject| {
        costs.get(&subject).copied().with_context(|| format!("{subject:?} was not measured"))
    };
    let (forward, nowhere) = (cost(Subject::Forward(burst))?, cost(Subject::Nowhere(burst))?);
    let mut sum = nowhere + (forward - nowhere).max(0.0) * shares.sent;
    for part in &drawing.parts {
        let alone = cost(Subject::Alone(part.kind.clone()))?;
        let without = cost(Subject::Without(part.kind.stage))?;
        sum += shares.at(&part.name) * (alone - without).max(0.0);
    }
    ensure!(sum > 0.0, "{}: the sum is nothing", drawing.name);
    Ok(Pair { measured: cost(Subject::File(file, burst))?, sum })
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<12}{:>9}{:>7}{:>14}{:>8}{:>7}{:>9}{:>8}{:>7}\n",
        "file", "elements", "burst", "instructions", "sum", "ratio", "cycles", "sum", "ratio"
    );
    for Row { name, elements, burst, instructions, cycles } in rows {
        text += &format!(
            "{name:<12}{elements:>9}{burst:>7}{:>14.0}{:>8.0}{:>7.2}{:>9.0}{:>8.0}{:>7.2}\n",
            instructions.measured,
            instructions.sum,
            instructions.ratio(),
            cycles.measured,
            cycles.sum,
            cycles.ratio()
        );
    }
    text
}

/// Prints how the files with bursts of one length compare with their sums.
fn verdicts(rows: &[Row], burst: u16) -> Vec<Value> {
    let of = |name: &str, pair: fn(&Row) -> &Pair| {
        let ratios: Vec<f64> =
            rows.iter().filter(|row| row.burst == burst).map(|row| pair(row).ratio()).collect();
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        let middle = median(ratios).unwrap_or(f64::NAN);
        let verdict = |value: f64, bound| if value <= bound { "met" } else { "not met" };
        println!(
            "burst {burst}, {name}: median {middle:.2} (at most {MIDDLE}: {}), worst {worst:.2} (at most {WORST}: {})",
            verdict(middle, MIDDLE),
            verdict(worst, WORST)
        );
        json!({
            "group": "verdict", "name": name, "burst": burst,
            "median": rounded(middle), "median_floor": MIDDLE, "median_verdict": verdict(middle, MIDDLE),
            "worst": rounded(worst), "worst_floor": WORST, "worst_verdict": verdict(worst, WORST),
        })
    };
    vec![of("instructions", |row| &row.instructions), of("cycles", |row| &row.cycles)]
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "group": "files",
            "name": self.name,
            "elements": self.elements,
            "burst": self.burst,
            "instructions": self.instructions.json(),
            "cycles": self.cycles.json(),
        })
    }
}

impl Files {
    fn draw(&self) -> Vec<Drawing> {
        let seeds = self.first..self.first + self.seeds;
        seeds.map(|seed| Drawing::draw(seed, self.elements)).collect()
    }

    /// What is to be measured of them.
    fn work<'a>(&'a self, drawings: &'a [Drawing]) -> Work<'a> {
        Work { drawings, bursts: &self.burst, packets: self.packets }
    }

    /// The arguments with which a worker draws the same files.
    fn words(&self) -> Vec<String> {
        let Self { seeds, first, elements, burst, packets } = self;
        let words = [
            "anyfile-worker".to_owned(),
            format!("--seeds={seeds}"),
            format!("--first={first}"),
            format!("--elements={elements}"),
            format!("--packets={packets}"),
        ];
        words.into_iter().chain(burst.iter().map(|burst| format!("--burst={burst}"))).collect()
    }
}

/// The program that runs under callgrind
#[derive(clap::Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    files: Files,
}

impl Worker {
    /// Runs files and elements between marks.
    ///
    /// # Errors
    /// A file is wrong.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let drawings = self.files.draw();
        self.files.work(&drawings).tell()
    }
}

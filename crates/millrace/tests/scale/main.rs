//! What a configuration of many parts costs: every command takes time and memory in proportion to the number of parts.
//!
//! Each case writes configurations of one kind, one of them four times as large as the other, has the program treat
//! both, and compares processor time and memory. Four times as many parts may take [`RATIO`] times as much: enough for
//! a sort and for memory that the caches no longer hold, far below the 16 times of what is quadratic. Limits end what
//! does not end by itself. The environment variable `MILLRACE_SCALE_PARTS` sets another number of parts for the larger
//! one:
//!
//! ```sh
//! MILLRACE_SCALE_PARTS=20000 cargo test --release -p millrace --test scale
//! ```
//!
//! With `MILLRACE_SCALE_TABLE` it appends a line for each case to the named file: the time and memory of both sizes.

mod cost;
mod shapes;

use std::fs;
use std::io::Write;
use std::process::ExitCode;

use cost::{Cost, Done, Limits};
use libtest_mimic::{Arguments, Failed, Trial};
use shapes::{SHAPES, Shape};

const PARTS_VARIABLE: &str = "MILLRACE_SCALE_PARTS";
const TABLE_VARIABLE: &str = "MILLRACE_SCALE_TABLE";
/// The parts of the larger configuration.
const PARTS: usize = 4_000;
/// How many times as many parts it has as the smaller one.
const FACTOR: usize = 4;
/// How many times as much it may take. By n log n it is 4.8 times, by the square 16; when others use the same core's caches,
/// it was 7.1 times for what takes 4.9 times alone.
const RATIO: f64 = 8.0;
/// What differences below are noise: processor time in microseconds, and memory in KiB.
const NOISE: Cost = Cost { time: 100_000, memory: 32 << 10 };
/// How often a case that takes too long is measured; the shortest times count.
const ATTEMPTS: usize = 6;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if let [_, first, rest @ ..] = &words[..]
        && first == cost::MEASURE
    {
        return cost::measure(rest);
    }
    let arguments = Arguments::from_args();
    let parts = std::env::var(PARTS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let parts = parts.unwrap_or(PARTS);
    let trials = SHAPES.iter().flat_map(|shapes| shapes.iter()).flat_map(|shape| {
        shape.commands.iter().map(move |command| {
            let name = format!("{}: {command} of {parts}", shape.name);
            Trial::test(name, move || compare(shape, command, parts))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Has the program treat both sizes of a shape.
fn compare(shape: &Shape, command: &str, parts: usize) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let sizes = [0, parts / FACTOR, parts];
    let mut least = [Cost { time: i64::MAX, memory: i64::MAX }; 3];
    let mut said = Ok(());
    for _ in 0..ATTEMPTS {
        for (&parts, least) in sizes.iter().zip(&mut least) {
            let text = match parts {
                0 => "Idle -> Discard;".to_owned(),
                _ => (shape.write)(parts),
            };
            fs::write(folder.path().join("scale.click"), &text)?;
            let arguments: Vec<String> =
                command.split(' ').map(str::to_owned).chain(["scale.click".to_owned()]).collect();
            let done = cost::run(&arguments, folder.path(), limits(parts, text.len()))?;
            if parts > 0 {
                check(shape, parts, &done)?;
            }
            least.time = least.time.min(done.cost.time);
            least.memory = least.memory.min(done.cost.memory);
        }
        said = judge(least);
        if said.is_ok() {
            break;
        }
    }
    record(shape, command, parts, least)?;
    said
}

/// Compares the costs of no parts, of some, and of [`FACTOR`] times as many.
fn judge([none, some, many]: [Cost; 3]) -> Result<(), Failed> {
    let figures = [
        ("µs of processor time", none.time, some.time, many.time, NOISE.time),
        ("KiB of memory", none.memory, some.memory, many.memory, NOISE.memory),
    ];
    for (unit, none, some, many, noise) in figures {
        let (some, many) = ((some - none).max(0), (many - none).max(0));
        if many as f64 > RATIO * some as f64 + noise as f64 {
            let ratio = many as f64 / some.max(1) as f64;
            return Err(format!(
                "{FACTOR} times as many parts take {ratio:.1} times as much: {some} and {many} {unit}"
            )
            .into());
        }
    }
    Ok(())
}

/// Checks what the program said of a configuration.
fn check(shape: &Shape, parts: usize, done: &Done) -> Result<(), Failed> {
    let Done { status, messages, .. } = done;
    let (first, last) = (messages.lines().next(), messages.lines().last());
    // A file with mistakes gets an answer, not a signal.
    let Some(status) = status else {
        return Err(format!("over the limits: {first:?} ... {last:?}").into());
    };
    let refusal = shape.limit.as_ref().filter(|(most, _)| parts > *most).map(|(_, says)| *says);
    let is_valid = shape.is_valid && refusal.is_none();
    if (*status == 0) != is_valid {
        return Err(format!("status {status}: {first:?} ... {last:?}").into());
    }
    match refusal {
        Some(says) if !messages.contains(says) => {
            Err(format!("it does not say ‘{says}’: {first:?} ... {last:?}").into())
        }
        _ => Ok(()),
    }
}

/// Processor time of 5 s and 400 MB of private memory for 10,000 parts, in an unoptimised build; in a release build a
/// fifth of the time.
fn limits(parts: usize, bytes: usize) -> Limits {
    let seconds = if cfg!(debug_assertions) { 5 } else { 1 };
    let time = (seconds * parts).div_ceil(10_000).max(5);
    Limits { time, memory: (256 << 20) + 4_000 * parts + 100 * bytes }
}

/// Appends a line to the table, if one is wanted.
fn record(
    shape: &Shape,
    command: &str,
    parts: usize,
    [none, some, many]: [Cost; 3],
) -> Result<(), Failed> {
    let Some(path) = std::env::var_os(TABLE_VARIABLE) else { return Ok(()) };
    let mut table = fs::File::options().create(true).append(true).open(path)?;
    let line = format!(
        "| {} | `{command}` | {parts} | {:.2} | {:.2} | {:.0} | {:.0} |\n",
        shape.name,
        (some.time - none.time) as f64 / 1e6,
        (many.time - none.time) as f64 / 1e6,
        (some.memory - none.memory) as f64 / 1024.0,
        (many.memory - none.memory) as f64 / 1024.0,
    );
    Ok(table.write_all(line.as_bytes())?)
}

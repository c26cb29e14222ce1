//! Counts instructions with Valgrind's callgrind. The counts are the same on a busy and on a quiet machine, and on
//! machines with and without hardware counters.
//!
//! The program runs itself under callgrind as a *worker*. The worker calls [`mark`] before and after each stretch
//! that is to be counted, and then prints the stretch's name and number of packets ([`tell`]). At every mark,
//! callgrind writes what it has counted (`--dump-before`). So work before and after a stretch, such as filling a
//! table, is not counted.
//!
//! Valgrind presents the same processor on every machine, also to libraries that choose their code by the processor:
//! one without AVX-512, and with AVX2 if the machine has it. The level of our own loops can be chosen ([`isa`]). If
//! caches are requested, they are simulated: 32 KiB with 8 ways each for instructions and for data, 2 MiB with 16
//! ways at the second level, no prefetcher.

use std::ffi::OsStr;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use millrace_core::isa::{self, Level};
use millrace_testkit::find_program;
use serde_json::{Value, json};

use crate::machine;

/// What callgrind has counted in a stretch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// Its name.
    pub(crate) name: String,
    /// The number of packets, or of calls.
    pub(crate) packets: u64,
    /// Instructions.
    pub(crate) instructions: u64,
    /// Simulated misses of the first-level instruction cache, if caches were requested.
    pub(crate) i1_misses: Option<u64>,
    /// Simulated read and write misses of the first-level data cache.
    pub(crate) d1_misses: Option<u64>,
}

impl Stretch {
    /// A count for each packet.
    pub(crate) fn per_packet(&self, count: u64) -> f64 {
        count as f64 / self.packets.max(1) as f64
    }
}

/// Begins or ends a stretch.
#[inline(never)]
pub(crate) fn mark() {
    // Not empty, because the compiler could merge it with another function.
    black_box("a stretch of counted instructions begins or ends");
}

/// The name by which callgrind finds [`mark`].
pub(crate) const MARK: &str = "*callgrind::mark*";

/// Prints, in the worker, the name and the number of packets of the last stretch.
pub(crate) fn tell(name: &str, packets: u64) {
    println!("{}", json!({ "name": name, "packets": packets }));
}

/// Runs this program with `words` as a worker, on a processor of this `level`, and returns what was counted for each
/// stretch.
///
/// # Errors
/// There is no Valgrind, the worker fails, or its output does not match what was counted.
pub(crate) fn count<S: AsRef<OsStr>>(
    words: &[S],
    level: Level,
    caches: bool,
) -> anyhow::Result<Vec<Stretch>> {
    count_with(words, level, caches, |_, _| ())
}

/// As [`count`]; `look` sees each stretch and callgrind's record of it (`own::profile::Profile`).
///
/// # Errors
/// As `count`.
pub(crate) fn count_with<S: AsRef<OsStr>>(
    words: &[S],
    level: Level,
    caches: bool,
    look: impl FnMut(&Stretch, &str),
) -> anyhow::Result<Vec<Stretch>> {
    let valgrind = find_program("valgrind").context(
        "valgrind counts the instructions and is not installed (Debian's package valgrind)",
    )?;
    let place = tempfile::tempdir().context("a directory for counts")?;
    let mut command = Command::new(valgrind);
    command.args(["--quiet", "--tool=callgrind", "--dump-line=no"]);
    command.arg(format!("--dump-before={MARK}"));
    command.arg(format!("--callgrind-out-file={}", place.path().join("out").display()));
    if caches {
        command.args(["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64"]);
        command.arg("--LL=2097152,16,64");
    }
    command.env(isa::VARIABLE, level.name());
    command.arg(std::env::current_exe().context("where this program is")?).args(words);
    let told = machine::told(&mut command)?;
    stretches(&told, place.path(), look)
}

/// Combines the worker's output with what was counted at its marks.
fn stretches(
    told: &str,
    place: &Path,
    mut look: impl FnMut(&Stretch, &str),
) -> anyhow::Result<Vec<Stretch>> {
    let mut stretches = Vec::new();
    for line in told.lines() {
        let told: Value = serde_json::from_str(line).with_context(|| format!("told: {line}"))?;
        let (Some(name), Some(packets)) = (told["name"].as_str(), told["packets"].as_u64()) else {
            bail!("told: {line}");
        };
        // The first record is of the time before the first mark, and the third one of the time between two stretches.
        let record = place.join(format!("out.{}", 2 * (stretches.len() + 1)));
        let record = fs::read_to_string(&record).with_context(|| record.display().to_string())?;
        let counts = Counts::parse(&record).context("a record of callgrind without its counts")?;
        let stretch = Stretch {
            name: name.to_owned(),
            packets,
            instructions: counts.of("Ir").context("a record of callgrind without instructions")?,
            i1_misses: counts.of("I1mr"),
            d1_misses: counts
                .of("D1mr")
                .zip(counts.of("D1mw"))
                .map(|(read, written)| read + written),
        };
        look(&stretch, &record);
        stretches.push(stretch);
    }
    let marks = fs::read_dir(place)?.filter_map(Result::ok);
    let marks =
        marks.filter(|entry| entry.file_name().to_string_lossy().starts_with("out.")).count();
    // The last record, of what was after the last mark, may have a number or none.
    let marks =
        marks - usize::from(place.join(format!("out.{}", 2 * stretches.len() + 1)).exists());
    ensure!(
        marks == 2 * stretches.len(),
        "{} stretches were told and {marks} marks passed",
        stretches.len()
    );
    Ok(stretches)
}

/// A record's counts: events and their numbers.
struct Counts<'a>(Vec<(&'a str, u64)>);

impl<'a> Counts<'a> {
    /// Reads the lines `events:` and `totals:` of a record (Valgrind's manual, "Callgrind Format
    /// Specification").
    fn parse(record: &'a str) -> Option<Self> {
        let line = |key: &str| record.lines().find_map(|line| line.strip_prefix(key));
        let events = line("events:")?.split_whitespace();
        let totals = line("totals:").or_else(|| line("summary:"))?.split_whitespace();
        let totals: Option<Vec<u64>> = totals.map(|total| total.parse().ok()).collect();
        Some(Self(events.zip(totals?).collect()))
    }

    fn of(&self, event: &str) -> Option<u64> {
        self.0.iter().find(|(name, _)| *name == event).map(|(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\
        fn=(1) main\n0 3\n\ntotals: 700 5 6 20 8 9\n";

    #[test]
    fn a_record_is_read_by_the_names_of_its_events() {
        let counts = Counts::parse(RECORD).unwrap();
        assert_eq!(counts.of("Ir"), Some(700));
        assert_eq!(counts.of("I1mr"), Some(20));
        assert_eq!(counts.of("DLmw"), None);
        assert!(Counts::parse("events: Ir\n").is_none());
    }

    #[test]
    fn stretches_are_the_even_records() {
        let place = tempfile::tempdir().unwrap();
        let write = |n, ir| {
            let record = format!("events: Ir\ntotals: {ir}\n");
            fs::write(place.path().join(format!("out.{n}")), record).unwrap();
        };
        let told = "{\"name\": \"a\", \"packets\": 10}\n{\"name\": \"b\", \"packets\": 4}\n";
        for n in 1..=4 {
            write(n, n * 100);
        }
        let found = stretches(told, place.path(), |_, _| ()).unwrap();
        let found: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.instructions)).collect();
        assert_eq!(found, [("a", 200), ("b", 400)]);
        // The rest, after the last mark.
        write(5, 1);
        assert!(stretches(told, place.path(), |_, _| ()).is_ok());
        write(6, 1);
        let error = stretches(told, place.path(), |_, _| ()).unwrap_err().to_string();
        assert_eq!(error, "2 stretches were told and 5 marks passed");
        fs::remove_file(place.path().join("out.4")).unwrap();
        assert!(stretches(told, place.path(), |_, _| ()).is_err());
    }
}

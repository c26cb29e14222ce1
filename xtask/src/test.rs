//! `cargo xtask test`: everything that must be green before a change lands.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use millrace_testkit::{CAPTURES_VARIABLE, FAST_VARIABLE, SKIPS_VARIABLE, find_program};

use crate::{data, house, packages, shell};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Leave out the tests that need root: network namespaces, real interfaces.
    #[arg(long)]
    fast: bool,
    /// Run this step alone; may be given several times.
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
    /// Fail when a test was left out for want of root or of a program.
    #[arg(long, conflicts_with = "fast")]
    deny_skips: bool,
    /// Words for `cargo test`, such as a part of a test's name.
    #[arg(last = true, value_name = "WORDS")]
    words: Vec<String>,
}

/// The steps, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// The Debian packages that the tests use.
    Packages,
    /// Data that tests use and the repository does not hold.
    Data,
    /// Formatting.
    Fmt,
    /// Lints, warnings denied.
    Clippy,
    /// Unit, property, configuration, simulation, namespace and documentation tests.
    Tests,
    /// The documentation of the API, warnings denied.
    Doc,
    /// The rules of the house that the compiler does not check.
    House,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// How a step went: a remark for the summary, or what went wrong.
struct Outcome {
    step: Step,
    result: Result<String>,
    took: Duration,
}

/// Runs the steps, all of them even when one fails, so that one run shows all that is wrong.
///
/// # Errors
/// The record of left-out tests cannot be read.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let skips = SkipRecord::new()?;
    let mut outcomes = Vec::new();
    for &step in Step::value_variants() {
        if !options.only.is_empty() && !options.only.contains(&step) {
            continue;
        }
        // Without namespaces there is nothing to install, and a quick run fetches nothing.
        if options.fast && matches!(step, Step::Packages | Step::Data) {
            continue;
        }
        println!("\n== {step} ==");
        let start = Instant::now();
        let result = run_step(step, options, &skips);
        if let Err(error) = &result {
            println!("{step} failed: {error:#}");
        }
        outcomes.push(Outcome { step, result, took: start.elapsed() });
    }
    let skipped = skips.read()?;
    print!("{}", summary(&outcomes, &skipped));
    let denied = options.deny_skips && !skipped.is_empty();
    let failed = denied || outcomes.iter().any(|outcome| outcome.result.is_err());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_step(step: Step, options: &Options, skips: &SkipRecord) -> Result<String> {
    match step {
        Step::Packages => packages::ensure(),
        // Without the data some tests leave themselves out, aloud: no reason to fail.
        Step::Data => Ok(data::tcpdump_captures().map_or_else(
            |error| {
                println!("warning: {error:#}");
                "missing: captures of tcpdump".to_string()
            },
            |_| "captures of tcpdump".to_string(),
        )),
        Step::Fmt => {
            need_component("rustfmt", "fmt")?;
            echo_and_run(shell::cargo().args(["fmt", "--all", "--check"]))
        }
        Step::Clippy => {
            need_component("clippy", "clippy")?;
            let lints = ["--workspace", "--all-targets", "--", "-D", "warnings"];
            echo_and_run(shell::cargo().arg("clippy").args(lints))
        }
        Step::Tests => tests(options, skips),
        Step::Doc => {
            let mut command = shell::cargo();
            command.args(["doc", "--workspace", "--no-deps"]);
            echo_and_run(command.env("RUSTDOCFLAGS", "-D warnings"))
        }
        Step::House => house::check(&shell::root()),
    }
}

/// Runs every test of the workspace, showing the output as it comes and adding it up.
fn tests(options: &Options, skips: &SkipRecord) -> Result<String> {
    let mut command = shell::cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(&options.words);
    command.env(SKIPS_VARIABLE, &skips.path);
    if options.fast {
        command.env(FAST_VARIABLE, "1");
    }
    if let Some(captures) = data::fetched_captures() {
        command.env(CAPTURES_VARIABLE, captures);
    }
    println!("{}", shell::describe(&command));
    let mut total = Counts::default();
    let done = shell::run_watched(&mut command, |line| total.add_line(line));
    match done {
        Ok(()) => Ok(total.to_string()),
        Err(error) => Err(error.context(total.to_string())),
    }
}

fn echo_and_run(command: &mut Command) -> Result<String> {
    println!("{}", shell::describe(command));
    shell::run(command).map(|()| String::new())
}

/// Installs a component of the toolchain when Cargo's sub-command is not there.
fn need_component(component: &str, subcommand: &str) -> Result<()> {
    if shell::succeeds(shell::cargo().args([subcommand, "--version"])) {
        return Ok(());
    }
    if find_program("rustup").is_none() {
        bail!("{component} is not installed and there is no rustup to install it with");
    }
    println!("installing a component of the toolchain: rustup component add {component}");
    shell::run(Command::new("rustup").args(["component", "add", component]))
}

/// What the lines `test result: ...` add up to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    fn add_line(&mut self, line: &str) {
        let Some(result) = line.trim_start().strip_prefix("test result: ") else { return };
        // "ok. 12 passed; 0 failed; 1 ignored; ...": a number, then what it counts.
        let mut words = result.split([' ', ';']).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let Ok(count) = word.parse::<u64>() else { continue };
            match words.peek() {
                Some(&"passed") => self.passed += count,
                Some(&"failed") => self.failed += count,
                Some(&"ignored") => self.ignored += count,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(f, ", {} ignored", self.ignored)?;
        }
        Ok(())
    }
}

/// The file in which tests that are left out write their names.
struct SkipRecord {
    path: PathBuf,
}

impl SkipRecord {
    fn new() -> Result<Self> {
        let directory = shell::target().join("xtask");
        fs::create_dir_all(&directory)?;
        Ok(Self { path: directory.join(format!("skips-{}", std::process::id())) })
    }

    /// What was left out, in order of name: the test and the reason.
    fn read(&self) -> Result<Vec<(String, String)>> {
        if !Path::new(&self.path).exists() {
            return Ok(Vec::new());
        }
        Ok(parse_skips(&fs::read_to_string(&self.path)?))
    }
}

impl Drop for SkipRecord {
    fn drop(&mut self) {
        // It may never have been written.
        let _ = fs::remove_file(&self.path);
    }
}

fn parse_skips(text: &str) -> Vec<(String, String)> {
    let entry = |line: &str| {
        let (test, reason) = line.split_once('\t').unwrap_or((line, "unknown reason"));
        (test.to_string(), reason.to_string())
    };
    let mut skips: Vec<_> = text.lines().filter(|line| !line.is_empty()).map(entry).collect();
    skips.sort();
    skips.dedup();
    skips
}

fn summary(outcomes: &[Outcome], skipped: &[(String, String)]) -> String {
    let mut text = String::from("\n== summary ==\n");
    for Outcome { step, result, took } in outcomes {
        let (word, remark) = match result {
            Ok(remark) => ("ok", remark.clone()),
            Err(error) => ("FAILED", error.to_string()),
        };
        let line = format!("{step:<9} {word:<7} {:>7.1} s  {remark}", took.as_secs_f64());
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if !skipped.is_empty() {
        text.push_str(&format!("skipped tests: {}\n", skipped.len()));
        for (test, reason) in skipped {
            text.push_str(&format!("  {test} ({reason})\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_binaries_add_up() {
        let mut counts = Counts::default();
        for line in [
            "running 2 tests\n",
            "test a ... ok\n",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
            "test result: FAILED. 3 passed; 1 failed; 4 ignored; 0 measured; 7 filtered out; finished in 1.20s\n",
            "a test may print: 5 passed\n",
        ] {
            counts.add_line(line);
        }
        assert_eq!(counts, Counts { passed: 5, failed: 1, ignored: 4 });
        assert_eq!(counts.to_string(), "5 passed, 1 failed, 4 ignored");
    }

    #[test]
    fn skips_are_sorted_and_counted_once() {
        let text = "b::two\tneeds root\na::one\tneeds ping\nb::two\tneeds root\n\n";
        let expected = [("a::one", "needs ping"), ("b::two", "needs root")];
        let expected = expected.map(|(test, reason)| (test.to_string(), reason.to_string()));
        assert_eq!(parse_skips(text), expected);
    }

    #[test]
    fn the_summary_shows_what_failed_and_what_was_left_out() {
        let outcomes = [
            Outcome {
                step: Step::Fmt,
                result: Ok(String::new()),
                took: Duration::from_millis(240),
            },
            Outcome {
                step: Step::Tests,
                result: Err(anyhow::anyhow!("cargo test ended").context("7 passed, 1 failed")),
                took: Duration::from_secs(61),
            },
        ];
        let skipped = [("io::tap".to_string(), "needs root".to_string())];
        let expected = "
== summary ==
fmt       ok          0.2 s
tests     FAILED     61.0 s  7 passed, 1 failed
skipped tests: 1
  io::tap (needs root)
";
        assert_eq!(summary(&outcomes, &skipped), expected);
    }
}

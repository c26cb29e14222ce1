//! `cargo xtask test`: runs everything that must pass before a change is merged.

use std::fmt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use millrace_testkit::data::Data;
use millrace_testkit::{FAST_VARIABLE, Reason, SKIPS_VARIABLE, find_program};

use crate::tally::{Counts, Skip, SkipRecord};
use crate::{bench, data, house, packages, shell};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Skips the tests that need root: network namespaces, real interfaces
    #[arg(long)]
    fast: bool,
    /// Runs only this step; may be given several times
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
    /// Fails if a test was skipped because root privileges or a program were missing
    #[arg(long, conflicts_with = "fast")]
    deny_skips: bool,
    /// Words for `cargo test`, such as a part of a test's name
    #[arg(last = true, value_name = "WORDS")]
    words: Vec<String>,
}

/// The steps, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// The Debian packages that the tests use.
    Packages,
    /// Data that tests use and that is not in the repository.
    Data,
    /// Formatting.
    Fmt,
    /// Lints; warnings are errors.
    Clippy,
    /// Unit, property, configuration, simulation, namespace and documentation tests.
    Tests,
    /// With sudo, the tests that were skipped because they need root.
    Sudo,
    /// The documentation of the API; warnings are errors.
    Doc,
    /// The house rules that the compiler does not check.
    House,
    /// Instructions of hot loops, compared with their budget.
    Gate,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// The result of a step: a remark for the summary, or the error.
struct Outcome {
    step: Step,
    result: Result<String>,
    took: Duration,
}

/// Runs all steps, even if one fails, so that one run shows all errors.
///
/// # Errors
/// The record of skipped tests cannot be read.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let skips = SkipRecord::new()?;
    let mut outcomes = Vec::new();
    for &step in Step::value_variants() {
        if !options.only.is_empty() && !options.only.contains(&step) {
            continue;
        }
        // A quick run installs nothing, fetches nothing, skips namespaces, and does not build with optimisation.
        if options.fast && matches!(step, Step::Packages | Step::Data | Step::Sudo | Step::Gate) {
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
        Step::Data => Ok(fetch_data()),
        Step::Fmt => {
            need_component("rustfmt", "fmt")?;
            echo_and_run(shell::cargo().args(["fmt", "--all", "--check"]))
        }
        Step::Clippy => {
            need_component("clippy", "clippy")?;
            let lints = ["--all-targets", "--", "-D", "warnings"];
            echo_and_run(shell::cargo().arg("clippy").args(packages::buildable()).args(lints))
        }
        Step::Tests => run_tests(test_command(options, skips).args(&options.words))
            .map(|counts| counts.to_string()),
        Step::Sudo => again_with_sudo(options, skips),
        Step::Doc => {
            let mut command = shell::cargo();
            command.arg("doc").args(packages::buildable()).arg("--no-deps");
            echo_and_run(command.env("RUSTDOCFLAGS", "-D warnings"))
        }
        Step::House => house::check(&shell::root()),
        Step::Gate => gate(),
    }
}

/// Fetches the data that tests use. If that fails, the tests that need it are skipped with a message.
fn fetch_data() -> String {
    let mut missing = Vec::new();
    for data in Data::ALL {
        if let Err(error) = data::fetch(data) {
            println!("warning: {error:#}");
            missing.push(data.name());
        }
    }
    match missing.is_empty() {
        true => format!("{} folders", Data::ALL.len()),
        false => format!("missing: {}", missing.join(", ")),
    }
}

/// Counts the instructions of hot loops, where there is a Valgrind to count them with.
fn gate() -> Result<String> {
    if find_program("valgrind").is_none() {
        println!("warning: instructions are not counted, because valgrind is missing");
        return Ok("missing: valgrind".to_string());
    }
    println!("cargo xtask bench gate");
    bench::run(&bench::Options::of(&["gate"])).map(|()| String::new())
}

/// `cargo test` for the whole workspace, with what the tests want to know.
fn test_command(options: &Options, skips: &SkipRecord) -> Command {
    let mut command = shell::cargo();
    command.arg("test").args(packages::buildable()).arg("--no-fail-fast");
    command.env(SKIPS_VARIABLE, skips.path());
    if options.fast {
        command.env(FAST_VARIABLE, "1");
    }
    for data in Data::ALL {
        if let Some(folder) = data::fetched(data) {
            command.env(data.variable(), folder);
        }
    }
    command
}

/// Runs tests, showing the output as it comes and adding it up.
fn run_tests(command: &mut Command) -> Result<Counts> {
    println!("{}", shell::describe(command));
    let mut counts = Counts::default();
    let done = shell::run_watched(command, |line| counts.add_line(line));
    match done {
        Ok(()) => Ok(counts),
        Err(error) => {
            let mut remark = counts.to_string();
            for line in counts.complaints() {
                remark.push_str("\n  ");
                remark.push_str(line);
            }
            Err(error.context(remark))
        }
    }
}

/// Runs the tests that said that they need root, and those alone, as root.
fn again_with_sudo(options: &Options, skips: &SkipRecord) -> Result<String> {
    let needs_root = Reason::Root.to_string();
    let (wanting, others): (Vec<Skip>, Vec<Skip>) =
        skips.read()?.into_iter().partition(|skip| skip.reason == needs_root);
    if wanting.is_empty() {
        return Ok("no test needs it".to_string());
    }
    if !packages::has_sudo() {
        return Ok("there is no sudo".to_string());
    }
    println!("running the {} tests that need root with sudo", wanting.len());
    skips.replace(&others)?;
    // sudo clears the environment; what the tests want to know goes with the command.
    let mut runner = vec!["sudo".to_string(), "env".to_string()];
    let mut command = test_command(options, skips);
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    runner.extend(variables.map(|(name, value)| format!("{}={}", name.display(), value.display())));
    command.arg("--config").arg(format!("target.'cfg(unix)'.runner = {runner:?}"));
    command.args(["--tests", "--", "--exact"]);
    command.args(wanting.iter().map(Skip::name_in_binary));
    let counts = run_tests(&mut command)?;
    if counts.passed < wanting.len() as u64 {
        bail!("of {} tests that need root only {} ran", wanting.len(), counts.passed);
    }
    Ok(counts.to_string())
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

fn summary(outcomes: &[Outcome], skipped: &[Skip]) -> String {
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
        for Skip { test, reason } in skipped {
            text.push_str(&format!("  {test} ({reason})\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let skipped = [Skip { test: "io::tap".into(), reason: "needs root".into() }];
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

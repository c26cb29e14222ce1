//! `cargo xtask fuzz`: libFuzzer on the targets of the crate `fuzz`, one after the other.

mod run;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_testkit::find_program;
use serde_json::{Value, json};

use self::run::{Outcome, Paths, Session};
use crate::shell;

/// What `cargo xtask fuzz` takes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A target, such as `config`; without one, each in turn.
    target: Option<String>,
    /// Run the target on this input alone, such as a finding in fuzz/artifacts, and show what happens.
    file: Option<PathBuf>,
    /// How long each target runs: seconds, or with a unit, such as 90s, 10m or 2h.
    #[arg(long = "for", value_name = "TIME", default_value = "1m", value_parser = shell::duration)]
    time: Duration,
    /// How many inputs each target runs, at most.
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Lists the targets.
    #[arg(long)]
    list: bool,
    /// Afterwards, add the found inputs that reach something new to the corpus of the repository.
    #[arg(long)]
    keep: bool,
    /// Writes the table for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The package and its program.
const PROGRAM: &str = "millrace-fuzz";

/// Set, to a true value, when cargo starts this program in place of the compiler.
const COMPILES: &str = "MILLRACE_FUZZ_COMPILES";

/// What libFuzzer needs to see in the code: which edges are taken. Who changes it builds in a fresh `target/*/fuzz`.
const EDGES: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
];

/// And what is compared, for crates that read bytes as they come: magic numbers, keywords. Elsewhere it is what is drawn
/// from the bytes that is compared, which tells nothing of the bytes and takes a third of the time.
const COMPARISONS: &str = "-Cllvm-args=-sanitizer-coverage-trace-compares";

/// The crates that read bytes as they come.
const READERS: &[&str] = &["millrace_io", "millrace_match"];

/// Builds the program and runs the targets.
///
/// # Errors
/// It cannot be built or started, or there is no such target.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut targets = targets()?;
    if options.list {
        targets.iter().for_each(|target| println!("{target}"));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &options.target {
        if !targets.contains(name) {
            bail!("there is no target ‘{name}’; there are {}", targets.join(", "));
        }
        targets = vec![name.clone()];
    }
    let program = build()?;
    if let (Some(file), [target]) = (&options.file, targets.as_slice()) {
        return rerun(&program, target, file);
    }
    let mut outcomes = Vec::new();
    for target in &targets {
        println!("\n== {target} ==");
        let paths = Paths::new(target)?;
        let session = Session { program: &program, target, paths: &paths };
        let outcome = session.run(options.time, options.runs)?;
        if options.keep {
            session.keep()?;
        }
        outcomes.push(outcome);
    }
    print!("{}", table(&outcomes));
    if let Some(file) = &options.json {
        let values: Vec<Value> = outcomes.iter().map(described).collect();
        fs::write(file, format!("{:#}\n", Value::from(values)))
            .with_context(|| file.display().to_string())?;
    }
    let is_clean = outcomes.iter().all(|outcome| outcome.findings.is_empty());
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The targets: each has a folder of inputs in the repository.
fn targets() -> Result<Vec<String>> {
    let folder = shell::root().join("fuzz/corpus");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name != run::FOUND).collect();
    names.sort_unstable();
    Ok(names)
}

/// Builds the program, with coverage, and returns where it lies.
fn build() -> Result<PathBuf> {
    if find_program("c++").is_none() {
        bail!("libFuzzer is C++, and there is no C++ compiler: sudo apt-get install g++");
    }
    let triple = shell::host(Command::new("rustc").current_dir(shell::root()))?;
    let mut command = shell::cargo();
    command.args(["build", "--package", PROGRAM, "--features", "libfuzzer", "--profile", "fuzz"]);
    // With a target, what runs while the workspace is built is told from what is fuzzed.
    command.args(["--target", &triple]);
    command.env("RUSTC_WORKSPACE_WRAPPER", std::env::current_exe()?).env(COMPILES, "1");
    println!("{}", shell::describe(&command));
    shell::run(&mut command)?;
    Ok(shell::target().join(triple).join("fuzz").join(PROGRAM))
}

/// In place of the compiler, for a crate of the workspace: compiles it, with coverage if it is what is fuzzed. `None` if
/// this program was started for something else. Other people's crates are compiled without coverage: it would make the
/// fuzzer look for ways through the standard library and the parsers of its own options, at half the speed.
pub(crate) fn compile() -> Option<Result<ExitCode>> {
    std::env::var_os(COMPILES)?;
    let mut words = std::env::args_os().skip(1);
    let mut command = Command::new(words.next()?);
    let words: Vec<OsString> = words.collect();
    command.args(&words);
    command.args(coverage(&words));
    let status = command.status().with_context(|| shell::describe(&command));
    Some(status.map(|status| ExitCode::from(u8::from(!status.success()))))
}

/// What a compiler with these arguments is to add. Nothing to the targets themselves, nor to what runs while they are
/// built.
fn coverage(words: &[OsString]) -> Vec<&'static str> {
    let name =
        words.iter().position(|word| word == "--crate-name").and_then(|at| words.get(at + 1));
    let is_fuzzed = words.iter().any(|word| word == "--target");
    let Some(name) = name.filter(|&name| is_fuzzed && name != "millrace_fuzz") else {
        return Vec::new();
    };
    let reads = READERS.iter().any(|reader| name == reader);
    EDGES.iter().copied().chain(reads.then_some(COMPARISONS)).collect()
}

/// Runs an input, with all that it prints.
fn rerun(program: &Path, target: &str, file: &Path) -> Result<ExitCode> {
    // The sandbox keeps the program from any other folder.
    let temporary = tempfile::tempdir()?;
    let copy = temporary.path().join("input");
    fs::copy(file, &copy).with_context(|| file.display().to_string())?;
    let mut command = Command::new(program);
    command.arg(&copy).env("MILLRACE_FUZZ", target).env("TMPDIR", temporary.path());
    let status = command.env("MILLRACE_FUZZ_WRITES", temporary.path()).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line for each target, and one for each finding.
fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!(
        "\n{:<9} {:>11} {:>8} {:>8} {:>9} {:>8} {:>8}\n",
        "target", "executions", "a second", "edges", "features", "inputs", "findings"
    );
    for outcome in outcomes {
        let Outcome { target, executions, seconds, edges, features, inputs, findings } = outcome;
        let rate = *executions as f64 / seconds.max(0.001);
        text += &format!(
            "{target:<9} {executions:>11} {rate:>8.0} {edges:>8} {features:>9} {inputs:>8} {:>8}\n",
            findings.len()
        );
    }
    for finding in outcomes.iter().flat_map(|outcome| &outcome.findings) {
        text += &format!("{}\n    {}\n", finding.file.display(), finding.what);
    }
    text
}

fn described(outcome: &Outcome) -> Value {
    let Outcome { target, executions, seconds, edges, features, inputs, findings } = outcome;
    let findings: Vec<Value> = findings
        .iter()
        .map(|finding| json!({"file": finding.file, "what": finding.what}))
        .collect();
    json!({
        "target": target,
        "executions": executions,
        "seconds": seconds,
        "edges": edges,
        "features": features,
        "inputs": inputs,
        "findings": findings,
    })
}

#[cfg(test)]
mod tests {
    use super::run::Finding;
    use super::*;

    #[test]
    fn targets_are_those_with_inputs() {
        let targets = targets().unwrap();
        assert!(targets.iter().any(|target| target == "parse"), "{targets:?}");
        assert!(targets.iter().all(|target| target != run::FOUND), "{targets:?}");
    }

    #[test]
    fn coverage_is_for_what_is_fuzzed() {
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        let target = "--target x86_64-unknown-linux-gnu";
        let flags = |line: &str| coverage(&words(line)).len();
        assert_eq!(flags(&format!("--crate-name millrace_core src/lib.rs {target}")), EDGES.len());
        assert_eq!(
            flags(&format!("--crate-name millrace_io src/lib.rs {target}")),
            EDGES.len() + 1
        );
        for line in ["--crate-name millrace_core src/lib.rs", "-vV", "--crate-name ___ --print cfg"]
        {
            assert_eq!(flags(line), 0, "{line}");
        }
        assert_eq!(flags(&format!("--crate-name millrace_fuzz src/lib.rs {target}")), 0);
    }

    #[test]
    fn the_table_shows_what_was_done_and_found() {
        let finding =
            Finding { file: "artifacts/swap-1".into(), what: "panicked at x.rs:1".into() };
        let outcome = Outcome {
            target: "swap".into(),
            executions: 1000,
            seconds: 4.0,
            edges: 17,
            features: 23,
            inputs: 5,
            findings: vec![finding],
        };
        let expected = "
target     executions a second    edges  features   inputs findings
swap             1000      250       17        23        5        1
artifacts/swap-1
    panicked at x.rs:1
";
        assert_eq!(table(&[outcome]), expected);
    }
}

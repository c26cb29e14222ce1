//! `cargo xtask bench`: builds the benchmarks like packages are built, and runs them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};

use millrace_testkit::data::Data;

use crate::rivals::RIVALS;
use crate::shell::DIST;
use crate::{data, figures, l3fwd, shell};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to measure, and how; `--help` lists it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<OsString>,
}

/// The hint if the other programs cannot be fetched.
const WITHOUT: &str = "bench router --without-peers measures without them";

impl Options {
    /// The options that these words mean.
    pub(crate) fn of(words: &[&str]) -> Self {
        Self { words: words.iter().map(OsString::from).collect() }
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|other| other == word)
    }

    fn wants_help(&self) -> bool {
        self.has("--help") || self.has("-h")
    }

    /// True if the suite `router` needs data that must be fetched.
    fn has_peers(&self) -> bool {
        !self.wants_help() && !self.has("--without-peers")
    }

    /// True if the suite `router` also measures the overhead.
    fn has_overhead(&self) -> bool {
        !self.wants_help() && (self.has("overhead") || !self.has("--only"))
    }
}

/// Runs the benchmarks in the user's directory, so that relative file names work.
///
/// # Errors
/// They cannot be built, or they fail.
pub(crate) fn run(options: &Options) -> Result<()> {
    let suite = options.words.first().and_then(|suite| suite.to_str()).unwrap_or_default();
    let mut command = shell::cargo();
    command.current_dir(env::current_dir()?);
    match suite {
        "io" => build_for_io()?,
        "firewall" | "streams" if !options.wants_help() => build_millrace(&[])?,
        "overhead" => {
            command.env(VARIANTS, build_variants(&["uncounted"])?);
        }
        "figures" => {
            command.env(VARIANTS, build_variants(&["no-prefetch"])?);
        }
        "router" => {
            if options.has_overhead() {
                command.env(VARIANTS, build_variants(&["uncounted"])?);
            }
            if options.has_peers() {
                command.env("MILLRACE_L3FWD", l3fwd::program().context(WITHOUT)?);
                command.env("MILLRACE_ROUTES", data::routes().context(WITHOUT)?);
            }
        }
        "match" if !options.wants_help() => {
            add_data(&mut command, &[Data::Phrases, Data::Texts]);
            add_rivals(&mut command, options);
        }
        "gpu" if !options.wants_help() => {
            add_data(&mut command, &[Data::Phrases, Data::Texts, Data::Routes]);
        }
        "lookup" => match data::routes() {
            Ok(folder) => drop(command.env("MILLRACE_ROUTES", folder)),
            Err(error) => eprintln!("measuring with generated tables: {error:#}"),
        },
        _ => (),
    }
    command.args(["run", "--profile", DIST, "--manifest-path"]);
    command.arg(shell::root().join("benches/Cargo.toml")).arg("--").args(&options.words);
    shell::run(&mut command)?;
    if suite == "gate" && options.has("--bless") {
        figures::write(&shell::root())?;
    }
    Ok(())
}

/// Passes the data that is available.
fn add_data(command: &mut Command, wanted: &[Data]) {
    for data in wanted {
        match data::fetch(*data) {
            Ok(folder) => drop(command.env(data.variable(), folder)),
            Err(error) => eprintln!("measuring without {}: {error:#}", data.name()),
        }
    }
}

/// Passes the programs that the suite `match` compares with, as far as they are available.
fn add_rivals(command: &mut Command, options: &Options) {
    if options.has("--without-rivals") {
        return;
    }
    for rival in &RIVALS {
        match rival.program() {
            Ok(program) => drop(command.env(rival.variable, program)),
            Err(error) => eprintln!("measuring without a rival: {error:#}"),
        }
    }
}

/// Builds the programs that the suite `io` runs: Millrace, and a loop without a graph.
fn build_for_io() -> Result<()> {
    build_millrace(&["--package", "millrace-io", "--example", "xdp_loop"])
}

/// Builds the program, and others with it.
fn build_millrace(others: &[&str]) -> Result<()> {
    let mut command = shell::cargo();
    command.args(["build", "--profile", DIST, "--package", "millrace", "--bin", "millrace"]);
    shell::run(command.args(others))
}

/// The variable that names the folder of the programs that were built with one feature left out.
const VARIANTS: &str = "MILLRACE_BENCH_VARIANTS";

/// Builds the benchmarks again for each feature, which leaves one thing out. Returns the folder of the programs, each
/// named after its feature.
fn build_variants(features: &[&str]) -> Result<PathBuf> {
    let place = shell::target().join("bench-variants");
    fs::create_dir_all(&place)?;
    for feature in features {
        let mut command = shell::cargo();
        command.args(["build", "--profile", DIST, "--package", "millrace-bench"]);
        command.args(["--features", feature]);
        shell::run(&mut command)?;
        // The next build puts another program at this path.
        let built = shell::target().join(DIST).join("millrace-bench");
        let kept = place.join(feature);
        // The file is not overwritten, because it may be running.
        let _ = fs::remove_file(&kept);
        fs::copy(&built, &kept).with_context(|| built.display().to_string())?;
    }
    Ok(place)
}

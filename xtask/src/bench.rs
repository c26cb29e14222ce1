//! `cargo xtask bench`: builds the benchmarks with optimisation and runs them.

use std::env;
use std::ffi::OsString;

use anyhow::Result;

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to measure, and how; `--help` lists it.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<OsString>,
}

impl Options {
    /// What somebody gives who writes these words.
    pub(crate) fn of(words: &[&str]) -> Self {
        Self { words: words.iter().map(OsString::from).collect() }
    }
}

/// Runs the benchmarks where the user stands, so that names of files mean what they say.
///
/// # Errors
/// They cannot be built, or fail.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.words.first().is_some_and(|suite| suite == "io") {
        build_for_io()?;
    }
    let mut command = shell::cargo();
    command.current_dir(env::current_dir()?);
    command.args(["run", "--release", "--manifest-path"]);
    command.arg(shell::root().join("benches/Cargo.toml")).arg("--").args(&options.words);
    shell::run(&mut command)
}

/// Builds what the suite `io` runs beside itself: the program, and a loop without a graph.
fn build_for_io() -> Result<()> {
    let mut command = shell::cargo();
    command.args(["build", "--release", "--package", "millrace", "--bin", "millrace"]);
    command.args(["--package", "millrace-io", "--example", "xdp_loop"]);
    shell::run(&mut command)
}

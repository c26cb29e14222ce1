//! `cargo xtask conform`: configurations with their expected output, against our program or another.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::shell;

/// What `cargo xtask conform` takes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Words of the cases' names, such as `IPRewriter` or `queueing`; without any, all.
    words: Vec<String>,
    /// The program to hold against the cases in place of ours, such as /usr/local/bin/click.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Other cases than the repository's: a `.testie` file, or a folder with some.
    #[arg(long, value_name = "PATH")]
    cases: Option<PathBuf>,
}

/// Runs the cases.
///
/// # Errors
/// A path that is named does not exist, or cargo does not run.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut command = shell::cargo();
    command.args(["test", "--package", "millrace", "--test", "conform", "--"]);
    command.args(&options.words);
    let named = [("BINARY", &options.binary), ("CASES", &options.cases)];
    for (what, path) in named {
        if let Some(path) = path {
            let path = path.canonicalize().with_context(|| path.display().to_string())?;
            command.env(format!("MILLRACE_CONFORM_{what}"), path);
        }
    }
    let status = command.status().context("cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

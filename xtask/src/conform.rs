//! `cargo xtask conform`: runs configurations with expected output, with our program or another one.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::{files, shell};

/// What `cargo xtask conform` takes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Words of the cases' names, such as `IPRewriter` or `queueing`; without any, all cases
    words: Vec<String>,
    /// The program to test instead of ours, such as /usr/local/bin/click
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Other cases than the repository's: a `.testie` file, or a folder with such files
    #[arg(long, value_name = "PATH")]
    cases: Option<PathBuf>,
    /// Instead, check every configuration in this folder (`.click` files), and print which load, and why others do not
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["words", "binary", "cases"])]
    files: Option<PathBuf>,
}

/// Runs the cases.
///
/// # Errors
/// A path does not exist, or cargo does not run.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(folder) = &options.files {
        return files::run(folder);
    }
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

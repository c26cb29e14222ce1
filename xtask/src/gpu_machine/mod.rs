//! `cargo xtask gpu-machine`: everything that a machine with a GPU needs to test and measure the CUDA backend, in one folder.
//!
//! Such a machine often has neither Rust nor a network. So the programs are built here, stripped, and packed with their data and
//! a script, which is the one command there: `sh target/gpu-machine/run`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{data, shell};

/// Where to put it.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The folder, which is made anew: a new one, an empty one, or one of this command's.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

/// The script that runs on the machine with a GPU.
const SCRIPT: &str = include_str!("run.sh");

/// What the folder may hold: it travels with a checkout.
const MOST_BYTES: u64 = 60 << 20;

/// The crates whose tests a device must pass.
const TESTED: &[&str] = &["millrace-gpu", "millrace-match"];

/// Builds and packs.
///
/// # Errors
/// Something cannot be built or written, or is too large.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = options.to.clone().unwrap_or_else(|| shell::target().join("gpu-machine"));
    clear(&folder).with_context(|| folder.display().to_string())?;
    fs::create_dir_all(folder.join("tests"))?;

    let mut build = shell::cargo();
    build.args(["build", "--release", "--package", "millrace", "--package", "millrace-bench"]);
    shell::run(&mut build)?;
    for program in ["millrace", "millrace-bench"] {
        keep(&shell::target().join("release").join(program), &folder.join(program))?;
    }
    for (name, program) in test_programs()? {
        keep(&program, &folder.join("tests").join(name))?;
    }

    match data::fetch(millrace_testkit::data::Data::Phrases) {
        Ok(phrases) => join_phrases(&phrases, &folder.join("patterns"))?,
        Err(error) => println!("without the phrases of modsecurity-crs: {error:#}"),
    }
    let script = folder.join("run");
    fs::write(&script, SCRIPT)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;

    let bytes = size(&folder)?;
    ensure!(bytes <= MOST_BYTES, "{} MiB are more than {}", bytes >> 20, MOST_BYTES >> 20);
    println!(
        "{}: {:.1} MiB. On the machine with a GPU: sh {}",
        folder.display(),
        bytes as f64 / f64::from(1 << 20),
        script.display()
    );
    Ok(())
}

/// Removes what an earlier run left, and nothing else.
fn clear(folder: &Path) -> Result<()> {
    let mut entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    if entries.next().is_none() {
        return Ok(());
    }
    let is_ours = folder.join("run").is_file() && folder.join("tests").is_dir();
    ensure!(is_ours, "is not of this command: name a new folder, or an empty one");
    Ok(fs::remove_dir_all(folder)?)
}

/// The test programs of the crates, each under a name of its own.
fn test_programs() -> Result<Vec<(String, PathBuf)>> {
    let mut command = shell::cargo();
    command.args(["test", "--release", "--no-run", "--lib", "--tests"]);
    command.arg("--message-format=json-render-diagnostics");
    for package in TESTED {
        command.args(["--package", package]);
    }
    let messages = shell::output(&mut command)?;
    let programs = messages.lines().filter_map(|line| field(line, "\"executable\":\""));
    let named = programs.map(|path| {
        let path = PathBuf::from(path);
        let file = path.file_name().context("a program without a name")?.to_string_lossy();
        // Cargo adds a hash.
        let name = file.rsplit_once('-').map_or(&*file, |(name, _)| name).to_owned();
        Ok((name, path))
    });
    let named: Vec<_> = named.collect::<Result<_>>()?;
    if named.is_empty() {
        bail!("cargo names no test programs");
    }
    Ok(named)
}

/// What follows `key` in a line of JSON, up to the end of the string.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(key)?;
    rest.split_once('"').map(|(value, _)| value)
}

/// Copies a program without its symbols.
fn keep(program: &Path, to: &Path) -> Result<()> {
    fs::copy(program, to).with_context(|| program.display().to_string())?;
    shell::run(Command::new("strip").arg(to)).context("strip is part of binutils")
}

/// One file of all phrases, one a line, each once: what no line of a file can hold is not among them.
fn join_phrases(folder: &Path, to: &Path) -> Result<()> {
    let phrases = millrace_testkit::generate::patterns::phrases(folder)?;
    let mut text = Vec::new();
    for phrase in phrases {
        text.extend_from_slice(&phrase);
        text.push(b'\n');
    }
    fs::write(to, text).with_context(|| to.display().to_string())
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { size(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_cargos_messages() {
        let line = r#"{"reason":"compiler-artifact","executable":"/t/release/deps/plans-0a1b"}"#;
        assert_eq!(field(line, "\"executable\":\""), Some("/t/release/deps/plans-0a1b"));
        assert_eq!(field(r#"{"executable":null}"#, "\"executable\":\""), None);
    }

    #[test]
    fn a_folder_of_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        clear(&folder.path().join("new")).unwrap();
        clear(folder.path()).unwrap();
        let file = folder.path().join("run");
        fs::write(&file, "").unwrap();
        clear(folder.path()).unwrap_err();
        assert!(file.exists());
        fs::create_dir(folder.path().join("tests")).unwrap();
        clear(folder.path()).unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn the_script_is_right() {
        let mut shell = Command::new("sh");
        assert!(shell.args(["-n", "-c", SCRIPT]).status().unwrap().success());
    }
}

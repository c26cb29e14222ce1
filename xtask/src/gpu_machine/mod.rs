//! `cargo xtask gpu-machine`: everything that a machine with a GPU needs to test and measure the CUDA backend, in one folder.
//!
//! Such a machine often has neither Rust nor a network, and is lent by the minute. So the programs are built here, stripped, and
//! packed with their data into an archive beside a script, which is the one command there: `sh target/gpu-machine/run`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use millrace_testkit::data::Data;

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

/// What the script unpacks.
const ARCHIVE: &str = "pack.tar.gz";

/// The smaller of two tables of the same family, which no figure is measured on.
const SMALL_TABLE: &str = "ipasn_20080501_v12.dat";

/// The crates whose tests a device must pass.
const TESTED: &[&str] = &["millrace-gpu", "millrace-match"];

/// Builds and packs.
///
/// # Errors
/// Something cannot be built or written, or is too large.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = options.to.clone().unwrap_or_else(|| shell::target().join("gpu-machine"));
    clear(&folder).with_context(|| folder.display().to_string())?;
    fs::create_dir_all(&folder)?;
    let pack = tempfile::tempdir().context("a temporary folder")?;
    let pack = pack.path();
    fs::create_dir(pack.join("tests"))?;

    let mut build = shell::cargo();
    build.args(["build", "--profile", shell::DIST, "--package", "millrace-bench"]);
    shell::run(&mut build)?;
    let program = "millrace-bench";
    keep(&shell::target().join(shell::DIST).join(program), &pack.join(program))?;
    for (name, program) in test_programs()? {
        keep(&program, &pack.join("tests").join(name))?;
    }
    add_data(pack)?;
    let archive = folder.join(ARCHIVE);
    shell::run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(pack).arg("."))?;
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
    let is_ours = folder.join("run").is_file() && folder.join(ARCHIVE).is_file();
    ensure!(is_ours, "was not created by this command: name a new or empty folder");
    Ok(fs::remove_dir_all(folder)?)
}

/// The test programs of the crates, each under a name of its own. They measure nothing, and are not what is measured: each
/// would take minutes to link as packages are.
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

/// Data that figures are measured on; without what cannot be had they are measured on what is made up.
fn add_data(pack: &Path) -> Result<()> {
    match data::fetch(Data::Phrases) {
        Ok(phrases) => join_phrases(&phrases, &pack.join("patterns"))?,
        Err(error) => println!("without {}: {error:#}", Data::Phrases.name()),
    }
    for (data, folder) in [(Data::Routes, "routes"), (Data::Texts, "texts")] {
        let found = match data::fetch(data) {
            Ok(found) => found,
            Err(error) => {
                println!("without {}: {error:#}", data.name());
                continue;
            }
        };
        fs::create_dir(pack.join(folder))?;
        for entry in fs::read_dir(&found)? {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            if path.is_file() && name != SMALL_TABLE {
                fs::copy(&path, pack.join(folder).join(name))?;
            }
        }
    }
    Ok(())
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
        fs::write(folder.path().join(ARCHIVE), "").unwrap();
        clear(folder.path()).unwrap();
        assert!(!file.exists());
    }

    /// The script's last word and its status.
    fn script(words: &[&str]) -> (String, Option<i32>) {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        fs::write(&run, SCRIPT).unwrap();
        let mut shell = Command::new("sh");
        let output = shell.arg(run).args(words).output().unwrap();
        (String::from_utf8(output.stderr).unwrap(), output.status.code())
    }

    #[test]
    fn the_script_refuses_what_it_does_not_know() {
        for (words, said) in [
            (&["--only", "calibrate,nonsense"][..], "no step 'nonsense'"),
            (&["--within", "soon"], "a number of seconds"),
            (&["--hots"], "--hots?"),
        ] {
            let (error, status) = script(words);
            assert!(status == Some(2) && error.contains(said), "{words:?}: {error}");
        }
        // What it would run is not beside it.
        assert_eq!(script(&["--host", "--only", "faults"]).1, Some(1));
    }

    #[test]
    fn the_script_runs_what_is_packed_and_keeps_what_is_done() {
        let (stage, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (stage, folder) = (stage.path(), folder.path());
        fs::create_dir(stage.join("tests")).unwrap();
        let program = |path: PathBuf, text: &str| {
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        program(stage.join("tests/one"), "echo fine");
        program(stage.join("tests/two"), "echo bad; exit 7");
        // gpu --device host --only NAME --json FOLDER ...
        let bench =
            "[ $5 = latency ] && sleep 20; echo \"$*\"; echo '{\"figure\": 1}' > $7/$5.json";
        program(stage.join("millrace-bench"), bench);
        fs::write(folder.join("run"), SCRIPT).unwrap();
        let tar = Command::new("tar")
            .arg("-czf")
            .arg(folder.join(ARCHIVE))
            .arg("-C")
            .arg(stage)
            .arg(".")
            .status();
        assert!(tar.unwrap().success());
        let mut shell = Command::new("sh");
        shell.arg(folder.join("run")).args(["--host", "--within", "7", "--only"]);
        shell.args(["tests,batch,latency,faults"]).arg(folder.join("out"));
        let output = shell.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "a test failed");
        let report = fs::read_to_string(folder.join("out/report.txt")).unwrap();
        for line in ["test-one 0 ", "test-two 7 ", "batch 0 ", "latency 124 ", "left out: faults"] {
            assert!(report.lines().any(|found| found.starts_with(line)), "{line}: {report}");
        }
        assert!(report.contains("gpu --device host --only batch --json"), "{report}");
        let report = fs::read_to_string(folder.join("out/report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["reports"], serde_json::json!([{"figure": 1}]));
        assert_eq!(report["steps"][1]["step"], "test-two");
        assert_eq!(report["steps"].as_array().unwrap().len(), 4);
        assert!(folder.join("out/parts.tar.gz").is_file());
    }
}

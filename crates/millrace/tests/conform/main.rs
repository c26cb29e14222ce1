//! Runs the configuration tests of this folder: every case of every `*.testie` file is a test. The
//! format is described in `millrace_testkit::conform`.
//!
//! ```sh
//! cargo test -p millrace --test conform -- IPRewriter   # the cases of a file, or with a word in their name
//! cargo xtask conform --binary /usr/local/bin/click     # another program
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use millrace_testkit::conform::{self, Case, Outcome, Programs};

/// Names another program to hold against the cases.
const BINARY_VARIABLE: &str = "MILLRACE_CONFORM_BINARY";

/// Names another folder, or file, with cases.
const CASES_VARIABLE: &str = "MILLRACE_CONFORM_CASES";

fn main() -> ExitCode {
    let (options, words) = options_and_words();
    let arguments = Arguments::from_iter(options);
    let is_meant =
        |trial: &Trial| words.is_empty() || words.iter().any(|word| trial.name().contains(word));
    match trials() {
        Ok(mut trials) => {
            trials.retain(is_meant);
            libtest_mimic::run(&arguments, trials).exit_code()
        }
        Err(error) => {
            eprintln!("conform: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the test harness is asked, and the words of which a case must have one in its name.
fn options_and_words() -> (Vec<String>, Vec<String>) {
    const WITH_VALUE: [&str; 5] = ["--color", "--format", "--logfile", "--skip", "--test-threads"];
    let mut options = Vec::new();
    let mut words = Vec::new();
    let mut is_value = true; // the program's name
    for argument in std::env::args() {
        let is_option = is_value || argument.starts_with('-');
        is_value = WITH_VALUE.contains(&argument.as_str());
        if is_option { &mut options } else { &mut words }.push(argument);
    }
    (options, words)
}

fn trials() -> io::Result<Vec<Trial>> {
    let binary = std::env::var_os(BINARY_VARIABLE)
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_click")), PathBuf::from);
    let programs = Arc::new(Programs::new(&binary)?);
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conform");
    let root = std::env::var_os(CASES_VARIABLE).map_or(ours, PathBuf::from);
    let mut files = Vec::new();
    find(&root, &mut files)?;
    files.sort();
    let mut trials = Vec::new();
    for file in files {
        let named = file.strip_prefix(&root).unwrap_or(&file).with_extension("");
        let named = if named.as_os_str().is_empty() { file.with_extension("") } else { named };
        trials.extend(trials_of(&file, &named.display().to_string(), &programs)?);
    }
    Ok(trials)
}

/// The files with cases below a folder, or the file itself.
fn find(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let is_case = path.extension().is_some_and(|it| it == "testie" || it == "clicktest");
        if path.is_dir() || is_case {
            find(&path, files)?;
        }
    }
    Ok(())
}

fn trials_of(file: &Path, name: &str, programs: &Arc<Programs>) -> io::Result<Vec<Trial>> {
    let text = String::from_utf8_lossy(&fs::read(file)?).into_owned();
    let cases = match conform::parse(&text) {
        Ok(cases) => cases,
        Err(invalid) => {
            let message = format!("{}:{}: {}", file.display(), invalid.line, invalid.what);
            return Ok(vec![Trial::test(name, move || Err(Failed::from(message)))]);
        }
    };
    let named = |case: &Case| match &*case.name {
        "" => name.to_owned(),
        case => format!("{name}: {case}"),
    };
    let trial = |case: Case| {
        let programs = Arc::clone(programs);
        let name = named(&case);
        Trial::test(name.clone(), move || passed(&name, &case, &programs))
    };
    Ok(cases.into_iter().map(trial).collect())
}

fn passed(name: &str, case: &Case, programs: &Programs) -> Result<(), Failed> {
    match case.run(programs)? {
        Outcome::Passed => Ok(()),
        Outcome::LeftOut => {
            millrace_testkit::announce(
                &format!("conform::{name}"),
                &"what it requires is not here",
            );
            Ok(())
        }
        Outcome::Failed(differences) => Err(differences.into()),
    }
}

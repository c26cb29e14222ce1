//! Runs a case in a directory of its own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::case::{Case, EVERY_FILE};
use super::compare::{Expectation, Ignored};

/// The time limit of a script, in seconds.
const LIMIT: &str = "60";

/// The programs under test, in a directory that is put first in `PATH`.
pub struct Programs {
    folder: TempDir,
}

/// The result of a case.
#[derive(Debug)]
pub enum Outcome {
    /// All outputs are as expected.
    Passed,
    /// A `%require` failed.
    LeftOut,
    /// The differences.
    Failed(String),
}

impl Programs {
    /// `click` is the program at `binary`. The others, such as `click-flatten`, are files in the same directory, or
    /// links to `binary`.
    ///
    /// # Errors
    /// There is no such file, or links cannot be created.
    pub fn new(binary: &Path) -> io::Result<Self> {
        let binary = binary.canonicalize()?;
        let folder = tempfile::tempdir()?;
        for name in NAMES {
            let beside = binary.with_file_name(name);
            let target = if name != "click" && beside.exists() { &beside } else { &binary };
            symlink(target, folder.path().join(name))?;
        }
        Ok(Self { folder })
    }

    fn path(&self) -> OsString {
        let mut path = self.folder.path().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }
}

/// The programs that scripts call.
const NAMES: [&str; 14] = [
    "click",
    "millrace",
    "click-align",
    "click-buildtool",
    "click-check",
    "click-combine",
    "click-devirtualize",
    "click-fastclassifier",
    "click-flatten",
    "click-mkmindriver",
    "click-pretty",
    "click-uncombine",
    "click-undead",
    "click-xform",
];

impl Case {
    /// Runs the script, and compares its results.
    ///
    /// # Errors
    /// A directory cannot be created, or there is no shell.
    pub fn run(&self, programs: &Programs) -> io::Result<Outcome> {
        let work = tempfile::tempdir()?;
        let streams = tempfile::tempdir()?;
        for (name, text) in &self.files {
            let folder = if name == "stdin" { &streams } else { &work };
            let path = folder.path().join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        let run = Run { case: self, programs, work: work.path(), streams: streams.path() };
        for script in &self.require {
            if !run.bash(script, "required")?.0 {
                return Ok(Outcome::LeftOut);
            }
        }
        let (_, status) = run.bash(&self.script, "")?;
        let mut differences = run.differences();
        if status != self.status {
            differences.push(format!("exit status {status}, expected {}", self.status));
        }
        Ok(if differences.is_empty() {
            Outcome::Passed
        } else {
            Outcome::Failed(differences.join("\n"))
        })
    }
}

/// A running case.
struct Run<'a> {
    case: &'a Case,
    programs: &'a Programs,
    work: &'a Path,
    streams: &'a Path,
}

impl Run<'_> {
    /// Runs a script with its output in `streams`. Returns whether it succeeded, and its status.
    fn bash(&self, script: &str, prefix: &str) -> io::Result<(bool, i32)> {
        let stdin = self.streams.join("stdin");
        let stdin = if stdin.exists() { File::open(stdin)?.into() } else { Stdio::null() };
        let stream = |name: &str| File::create(self.streams.join(format!("{prefix}{name}")));
        let status = Command::new("timeout")
            .args(["--kill-after=5", LIMIT, "bash", "-c", script])
            .current_dir(self.work)
            .env("PATH", self.programs.path())
            .env("LC_ALL", "C.UTF-8")
            .env_remove("CLICKPATH")
            .stdin(stdin)
            .stdout(stream("stdout")?)
            .stderr(stream("stderr")?)
            .status()?;
        Ok((status.success(), status.code().unwrap_or(-1)))
    }

    fn differences(&self) -> Vec<String> {
        let mut names: Vec<&str> =
            self.case.expected.iter().map(|(name, _)| name.as_str()).collect();
        names.push("stderr");
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter_map(|name| self.difference(name)).collect()
    }

    /// The difference of a file from the first of its alternatives, if it differs from all of them.
    fn difference(&self, name: &str) -> Option<String> {
        let of_name = |given: &str| given == name;
        let is_ignored = |given: &str| given == name || given == EVERY_FILE;
        let ignored: Vec<&Ignored> =
            self.case.ignored.iter().filter(|(n, _)| is_ignored(n)).map(|(_, i)| i).collect();
        let empty = Expectation::empty();
        let mut alternatives: Vec<&Expectation> =
            self.case.expected.iter().filter(|(n, _)| of_name(n)).map(|(_, e)| e).collect();
        if alternatives.is_empty() {
            alternatives.push(&empty);
        }
        let written = match fs::read(self.file(name)) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => return Some(format!("{name}: {error}")),
        };
        let mut first = None;
        for alternative in alternatives {
            let difference = alternative.difference(&written, &ignored)?;
            first.get_or_insert(difference);
        }
        first.map(|difference| format!("{name}:\n{difference}"))
    }

    fn file(&self, name: &str) -> PathBuf {
        match name {
            "stdout" | "stderr" => self.streams.join(name),
            _ => self.work.join(name),
        }
    }
}

//! Programs in C that are compared with our engines on one core. `benches/rivals/rival.h` describes their input and
//! output.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::race::Subject;

/// A program that has built its tables and waits.
pub(super) struct Rival {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    results: PathBuf,
    /// The time of building its tables, in seconds.
    pub(super) build_seconds: f64,
    /// Their bytes.
    pub(super) bytes: usize,
}

impl Rival {
    /// Starts a program, which inherits our core. `folder` is for its files; `name` identifies it.
    ///
    /// # Errors
    /// It does not start, or cannot build its tables: the error contains its messages.
    pub(super) fn start(command: &mut Command, folder: &Path, name: &str) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let said = File::create(&log).with_context(|| log.display().to_string())?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .with_context(|| command.get_program().display().to_string())?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).context("no pipes")?;
        let results = folder.join(format!("{name}.results"));
        let output = BufReader::new(output);
        let mut rival = Self { child, input, output, results, build_seconds: 0.0, bytes: 0 };
        loop {
            let Ok(line) = rival.line() else {
                let said = fs::read_to_string(&log).unwrap_or_default();
                bail!("{name}: {}", said.lines().last().unwrap_or("it ended"));
            };
            // DPDK prints messages, too.
            let Some(ready) = line.strip_prefix("ready ") else { continue };
            let (seconds, bytes) = ready.trim().split_once(' ').context("ready for what?")?;
            rival.build_seconds = seconds.parse()?;
            rival.bytes = bytes.parse()?;
            return Ok(rival);
        }
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "the rival ended");
        Ok(line)
    }
}

impl Subject for Rival {
    fn results(&mut self) -> anyhow::Result<Vec<u32>> {
        writeln!(self.input, "results {}", self.results.display())?;
        ensure!(self.line()?.trim() == "done", "the rival has no results");
        let bytes = fs::read(&self.results)?;
        Ok(bytes.as_chunks().0.iter().copied().map(u32::from_ne_bytes).collect())
    }

    fn run(&mut self, times: u64) -> anyhow::Result<Duration> {
        writeln!(self.input, "run {times}")?;
        Ok(Duration::from_nanos(self.line()?.trim().parse()?))
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Sums up the output of tests, and lists skipped tests.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::shell;

/// The sum of the lines `test result: ...`, and what failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// For each failed test a line with its name, and the first lines of what it printed.
    complaints: Vec<String>,
    /// How many lines more of the last test's output are wanted.
    wanted: usize,
}

/// How many lines of a failed test's output are kept: the message of a panic and what is compared.
const LINES_KEPT: usize = 12;

impl Counts {
    /// Examines a line of a test binary's output.
    pub(crate) fn add_line(&mut self, line: &str) {
        self.hear(line.trim_end());
        let Some(result) = line.trim_start().strip_prefix("test result: ") else { return };
        // "ok. 12 passed; 0 failed; 1 ignored; ...": a number, then what it counts.
        let mut words = result.split([' ', ';']).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let Ok(count) = word.parse::<u64>() else { continue };
            match words.peek() {
                Some(&"passed") => self.passed += count,
                Some(&"failed") => self.failed += count,
                Some(&"ignored") => self.ignored += count,
                _ => {}
            }
        }
    }

    /// What failed: it stands at the end of a log, where the beginning may be cut off.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Keeps the beginning of a failed test's output: its header is `---- NAME stdout ----`.
    fn hear(&mut self, line: &str) {
        let header = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = header {
            self.complaints.push(name.to_string());
            self.wanted = LINES_KEPT;
        } else if line == "failures:" {
            self.wanted = 0;
        } else if self.wanted > 0 && !line.is_empty() {
            self.complaints.push(format!("    {line}"));
            self.wanted -= 1;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(f, ", {} ignored", self.ignored)?;
        }
        Ok(())
    }
}

/// A skipped test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skip {
    /// Its path, beginning with the crate's name.
    pub(crate) test: String,
    /// The reason.
    pub(crate) reason: String,
}

impl Skip {
    /// Its name in its test binary.
    pub(crate) fn name_in_binary(&self) -> &str {
        self.test.split_once("::").map_or(&self.test, |(_, name)| name)
    }
}

/// The file to which skipped tests write their names.
pub(crate) struct SkipRecord {
    path: PathBuf,
}

impl SkipRecord {
    /// An empty record for this run.
    pub(crate) fn new() -> Result<Self> {
        let directory = shell::target().join("xtask");
        fs::create_dir_all(&directory)?;
        Ok(Self { path: directory.join(format!("skips-{}", std::process::id())) })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the contents of the record.
    pub(crate) fn replace(&self, skips: &[Skip]) -> Result<()> {
        let lines: Vec<String> =
            skips.iter().map(|skip| format!("{}\t{}\n", skip.test, skip.reason)).collect();
        Ok(fs::write(&self.path, lines.concat())?)
    }

    /// The skipped tests, sorted by name.
    pub(crate) fn read(&self) -> Result<Vec<Skip>> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        Ok(parse_skips(&fs::read_to_string(&self.path)?))
    }
}

impl Drop for SkipRecord {
    fn drop(&mut self) {
        // The file may not exist.
        let _ = fs::remove_file(&self.path);
    }
}

fn parse_skips(text: &str) -> Vec<Skip> {
    let entry = |line: &str| {
        let (test, reason) = line.split_once('\t').unwrap_or((line, "unknown reason"));
        Skip { test: test.to_string(), reason: reason.to_string() }
    };
    let mut skips: Vec<_> = text.lines().filter(|line| !line.is_empty()).map(entry).collect();
    skips.sort();
    skips.dedup();
    skips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_binaries_add_up() {
        let mut counts = Counts::default();
        for line in [
            "running 2 tests\n",
            "test a ... ok\n",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
            "test result: FAILED. 3 passed; 1 failed; 4 ignored; 0 measured; 7 filtered out; finished in 1.20s\n",
            "a test may print: 5 passed\n",
        ] {
            counts.add_line(line);
        }
        assert_eq!((counts.passed, counts.failed, counts.ignored), (5, 1, 4));
        assert_eq!(counts.to_string(), "5 passed, 1 failed, 4 ignored");
    }

    #[test]
    fn what_failed_is_kept_without_what_it_printed_at_length() {
        let mut counts = Counts::default();
        for line in
            ["test a ... ok", "test b ... FAILED", "", "failures:", "", "---- b stdout ----", ""]
        {
            counts.add_line(line);
        }
        for number in 0..100 {
            counts.add_line(&format!("line {number}\n"));
        }
        for line in ["---- c stdout ----", "left: 1", "", "failures:", "    b", "    c", ""] {
            counts.add_line(line);
        }
        let kept = (0..LINES_KEPT).map(|number| format!("    line {number}"));
        let expected = std::iter::once("b".to_string()).chain(kept);
        let expected: Vec<_> =
            expected.chain(["c".to_string(), "    left: 1".to_string()]).collect();
        assert_eq!(counts.complaints(), expected);
    }

    #[test]
    fn skips_are_sorted_and_counted_once() {
        let text = "b::two\tneeds root\na::one\tneeds ping\nb::two\tneeds root\n\n";
        let expected = [("a::one", "needs ping"), ("b::two", "needs root")];
        let skip = |(test, reason): (&str, &str)| Skip { test: test.into(), reason: reason.into() };
        assert_eq!(parse_skips(text), expected.map(skip));
        assert_eq!(skip(("io::tap::opens", "needs root")).name_in_binary(), "tap::opens");
    }
}

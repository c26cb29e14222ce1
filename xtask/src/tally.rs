//! What the tests' output adds up to, and which of them left themselves out.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::shell;

/// What the lines `test result: ...` add up to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Counts {
    /// Looks at a line of a test binary's output.
    pub(crate) fn add_line(&mut self, line: &str) {
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

/// A test that was left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Skip {
    /// Its path, the crate's name first.
    pub(crate) test: String,
    /// Why.
    pub(crate) reason: String,
}

impl Skip {
    /// The name that the test's own binary knows it by.
    pub(crate) fn name_in_binary(&self) -> &str {
        self.test.split_once("::").map_or(&self.test, |(_, name)| name)
    }
}

/// The file in which tests that are left out write their names.
pub(crate) struct SkipRecord {
    path: PathBuf,
}

impl SkipRecord {
    /// A record of this run's own, empty.
    pub(crate) fn new() -> Result<Self> {
        let directory = shell::target().join("xtask");
        fs::create_dir_all(&directory)?;
        Ok(Self { path: directory.join(format!("skips-{}", std::process::id())) })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the record say this and nothing else.
    pub(crate) fn replace(&self, skips: &[Skip]) -> Result<()> {
        let lines: Vec<String> =
            skips.iter().map(|skip| format!("{}\t{}\n", skip.test, skip.reason)).collect();
        Ok(fs::write(&self.path, lines.concat())?)
    }

    /// What was left out, in order of name.
    pub(crate) fn read(&self) -> Result<Vec<Skip>> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        Ok(parse_skips(&fs::read_to_string(&self.path)?))
    }
}

impl Drop for SkipRecord {
    fn drop(&mut self) {
        // It may never have been written.
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
        assert_eq!(counts, Counts { passed: 5, failed: 1, ignored: 4 });
        assert_eq!(counts.to_string(), "5 passed, 1 failed, 4 ignored");
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

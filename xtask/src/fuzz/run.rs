//! One target: libFuzzer is started again behind each finding, until the time is over.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::shell;

/// The folder of inputs that were found, beside those of the repository.
pub(super) const FOUND: &str = "found";

/// After so many findings a target has enough to mend.
const FINDINGS: usize = 20;

/// Wall-clock seconds after which an input hangs: libFuzzer ends it, and it is a finding. Slow ones that end by themselves
/// are found by their processor time, in the program.
const HANGS: u32 = 30;

/// MiB of memory, resident, that the program may have. libFuzzer looks each second, so it is a finding, too, when an input
/// takes memory without end. Several inputs' limits: what they have freed stays.
const MEMORY: u32 = 2048;

/// Bytes that a target keeps in the repository: the tests run them all, unoptimised.
const KEPT: u64 = 20_000;

/// What is said of an input with which nothing is wrong by itself.
const PASSES: &str = "passes when it is run again";

/// How the names of files begin into which targets write what came before.
const HISTORY: &str = "history-";

/// The targets for which it is something new that an edge is taken more often, as in a loop over the bytes. For the
/// others, each fifth input would be new, for packets and elements are drawn in any number: to take note of all that takes
/// as long as to run them.
const COUNTED: &[&str] = &["parse", "readers"];

/// Where a target's files are.
pub(super) struct Paths {
    /// Inputs in the repository.
    corpus: PathBuf,
    /// Inputs that were found, ignored by git.
    found: PathBuf,
    /// Inputs with findings, ignored by git.
    artifacts: PathBuf,
    /// What elements write; removed at the end.
    temporary: TempDir,
}

/// A target that runs.
pub(super) struct Session<'a> {
    pub(super) program: &'a Path,
    pub(super) target: &'a str,
    pub(super) paths: &'a Paths,
}

/// What a run came to.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) target: String,
    pub(super) executions: u64,
    pub(super) seconds: f64,
    /// Edges of the code that were taken, libFuzzer's `cov`.
    pub(super) edges: u64,
    /// Those with how often they were taken, and compared values, libFuzzer's `ft`.
    pub(super) features: u64,
    /// Inputs that reach all of it.
    pub(super) inputs: u64,
    pub(super) findings: Vec<Finding>,
}

/// An input with which something is wrong.
pub(super) struct Finding {
    pub(super) file: PathBuf,
    pub(super) what: String,
}

impl Paths {
    /// The folders of a target, made if they are not there.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub(super) fn new(target: &str) -> Result<Self> {
        let root = shell::root().join("fuzz");
        let corpus = root.join("corpus").join(target);
        let found = root.join("corpus").join(FOUND).join(target);
        // In memory, if there is such a place.
        let temporary = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let paths = Self { corpus, found, artifacts: root.join("artifacts"), temporary };
        for folder in [&paths.corpus, &paths.found, &paths.artifacts] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        Ok(paths)
    }
}

impl Session<'_> {
    /// Runs the target for a time, or for so many inputs.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn run(&self, time: Duration, runs: Option<u64>) -> Result<Outcome> {
        let mut outcome = Outcome { target: self.target.to_owned(), ..Outcome::default() };
        let start = Instant::now();
        while let Some(left) = time.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
            let more = runs.map(|runs| runs.saturating_sub(outcome.executions));
            if more == Some(0) || outcome.findings.len() >= FINDINGS {
                break;
            }
            let mut command = self.command();
            command.arg(&self.paths.found).arg(&self.paths.corpus);
            command.arg(format!("-max_total_time={}", left.as_secs().max(1)));
            command.args(more.map(|more| format!("-runs={more}")));
            let artifact = self.once(&mut command, &mut outcome)?;
            let Some(file) = artifact else { break };
            let finding = self.finding(file)?;
            println!("{}\n    {}", finding.file.display(), finding.what);
            outcome.findings.push(finding);
        }
        outcome.seconds = start.elapsed().as_secs_f64();
        Ok(outcome)
    }

    /// Adds the inputs that were found, and take an edge that no smaller one does, to the corpus of the repository. If they
    /// are too many, short and long ones stay alike.
    ///
    /// # Errors
    /// The program cannot be started, or a file cannot be removed.
    pub(super) fn keep(&self) -> Result<()> {
        let before = files(&self.paths.corpus)?;
        let mut command = self.command();
        let control = self.paths.temporary.path().join("merge");
        command.arg("-merge=1").arg(format!("-merge_control_file={}", control.display()));
        // How often an edge is taken would keep ten times as many.
        command.arg("-use_counters=0").arg(&self.paths.corpus).arg(&self.paths.found);
        self.once(&mut command, &mut Outcome::default())?;
        let mut after = files(&self.paths.corpus)?;
        after.retain(|file| !before.contains(file));
        for file in surplus(after, KEPT) {
            fs::remove_file(&file).with_context(|| file.display().to_string())?;
        }
        Ok(())
    }

    fn command(&self) -> Command {
        let Paths { corpus, found, artifacts, temporary } = self.paths;
        let mut command = Command::new(self.program);
        command.env("TMPDIR", temporary.path());
        let folders = [corpus.as_path(), found, artifacts, temporary.path()];
        let writable = std::env::join_paths(folders).unwrap_or_default();
        command.env("MILLRACE_FUZZ", self.target).env("MILLRACE_FUZZ_WRITES", writable);
        command.arg(format!("-artifact_prefix={}/{}-", artifacts.display(), self.target));
        command.arg(format!("-timeout={HANGS}")).arg(format!("-rss_limit_mb={MEMORY}"));
        // What elements print is nothing new.
        command.args(["-close_fd_mask=3", "-print_final_stats=1", "-reload=0", "-print_funcs=0"]);
        // Half as many inputs a second again as with libFuzzer's own choices. To put a shorter input in the place of
        // one that is kept, it would search a list for each edge of each execution.
        command.args(["-entropic=0", "-reduce_inputs=0"]);
        if !COUNTED.contains(&self.target) {
            command.arg("-use_counters=0");
        }
        // Memory that an input has freed stays for the next one; but large tables come from the kernel, empty.
        command.env("MALLOC_TRIM_THRESHOLD_", (1u32 << 30).to_string());
        command.env("MALLOC_MMAP_THRESHOLD_", (1u32 << 20).to_string());
        let words = shell::root().join("fuzz/click.dict");
        command.arg(format!("-dict={}", words.display()));
        command
    }

    /// Runs libFuzzer once, and takes note of what it says. Returns the input that it ended with, if it found one.
    fn once(&self, command: &mut Command, outcome: &mut Outcome) -> Result<Option<PathBuf>> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| shell::describe(command))?;
        let before = outcome.executions;
        let mut artifact = None;
        let mut last = Instant::now();
        for line in BufReader::new(child.stderr.take().context("no output")?).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            if let Some(done) = outcome.note(&line) {
                outcome.executions = before + done;
            }
            if let Some((_, file)) = line.split_once("Test unit written to ") {
                artifact = Some(PathBuf::from(file));
            }
            let is_news = ["pulse", "INITED", "DONE"].iter().any(|word| line.contains(word));
            if is_news || last.elapsed() > Duration::from_secs(60) {
                println!("{line}");
                last = Instant::now();
            }
        }
        let status = child.wait()?;
        if !status.success() && artifact.is_none() {
            anyhow::bail!("{} ended with {status}", shell::describe(command));
        }
        Ok(artifact)
    }

    /// What libFuzzer has found. If a target keeps a router from input to input, what came before is needed, too: then the
    /// finding is the file that the target wrote of it.
    fn finding(&self, file: PathBuf) -> Result<Finding> {
        let what = self.describe(&file)?;
        if what != PASSES {
            return Ok(Finding { file, what });
        }
        for folder in fs::read_dir(self.paths.temporary.path())?.flatten() {
            for history in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let name = history.file_name();
                if !name.to_string_lossy().starts_with(HISTORY) {
                    continue;
                }
                let whole = file.with_added_extension(&name);
                fs::copy(history.path(), &whole)?;
                let what = self.describe(&whole)?;
                if what != PASSES {
                    return Ok(Finding { file: whole, what });
                }
                fs::remove_file(&whole)?;
            }
        }
        Ok(Finding { file, what })
    }

    /// What is wrong with an input: the line in which the program says so.
    fn describe(&self, file: &Path) -> Result<String> {
        let mut command = Command::new(self.program);
        command.arg(file).arg(format!("-timeout={HANGS}")).arg(format!("-rss_limit_mb={MEMORY}"));
        command
            .env("MILLRACE_FUZZ", self.target)
            .env("MILLRACE_FUZZ_WRITES", &self.paths.artifacts);
        let temporary = tempfile::tempdir()?;
        command.env("TMPDIR", temporary.path());
        let output = command.stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(PASSES.to_owned());
        }
        Ok(what_is_wrong(&String::from_utf8_lossy(&output.stderr)))
    }
}

impl Outcome {
    /// Takes note of a line of libFuzzer's. Returns how many inputs it has run, if the line says so.
    fn note(&mut self, line: &str) -> Option<u64> {
        if let Some(executions) = line.strip_prefix("stat::number_of_executed_units:") {
            return executions.trim().parse().ok();
        }
        let mut words = line.strip_prefix('#')?.split_whitespace();
        let executions = words.next()?.parse().ok()?;
        let words: Vec<&str> = words.collect();
        for pair in words.windows(2) {
            let number = || pair[1].split('/').next()?.parse().ok();
            let place = match pair[0] {
                "cov:" => &mut self.edges,
                "ft:" => &mut self.features,
                "corp:" => &mut self.inputs,
                _ => continue,
            };
            *place = number().unwrap_or(*place);
        }
        Some(executions)
    }
}

/// The files in a folder, with their lengths, the short ones first.
fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.metadata()?.len(), entry.path()))
    };
    let mut files: Vec<_> = entries.map(file).collect::<std::io::Result<_>>()?;
    files.sort();
    Ok(files)
}

/// Those of some files that go, so that no more than so many bytes stay, of each length in proportion.
fn surplus(files: Vec<(u64, PathBuf)>, most: u64) -> Vec<PathBuf> {
    let all: u64 = files.iter().map(|(length, _)| length).sum();
    let (mut seen, mut kept) = (0, 0);
    let goes = files.into_iter().filter(|(length, _)| {
        seen += length;
        let stays = all <= most || (kept + length) * all <= seen * most;
        kept += if stays { *length } else { 0 };
        !stays
    });
    goes.map(|(_, file)| file).collect()
}

/// Where a program panicked and why, or what libFuzzer says of it.
fn what_is_wrong(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let ends = [" panicked at ", "memory allocation of "];
    let panic = lines.iter().position(|line| ends.iter().any(|end| line.contains(end)));
    match panic {
        Some(at) => lines[at..].iter().take(4).copied().collect::<Vec<_>>().join(" | "),
        None => {
            let said = lines.iter().find(|line| line.contains("ERROR: "));
            said.map_or_else(|| "it ends without a word".to_owned(), |line| (*line).to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_libfuzzer_are_understood() {
        let mut outcome = Outcome::default();
        let line =
            "#262144\tpulse  cov: 5712 ft: 18325 corp: 1220/58Kb lim: 1024 exec/s: 3102 rss: 310Mb";
        assert_eq!(outcome.note(line), Some(262_144));
        assert_eq!((outcome.edges, outcome.features, outcome.inputs), (5712, 18325, 1220));
        assert_eq!(outcome.note("stat::number_of_executed_units: 300001"), Some(300_001));
        for line in ["INFO: Seed: 17", "==1== ERROR: libFuzzer: timeout", ""] {
            assert_eq!(outcome.note(line), None, "{line}");
        }
    }

    #[test]
    fn short_and_long_inputs_are_kept_alike() {
        let files: Vec<_> = (1..=100).map(|n| (n, PathBuf::from(n.to_string()))).collect();
        assert!(surplus(files.clone(), 5050).is_empty());
        let goes = surplus(files.clone(), 1000);
        let stays: Vec<u64> = files.iter().filter(|f| !goes.contains(&f.1)).map(|f| f.0).collect();
        assert!((900..=1000).contains(&stays.iter().sum::<u64>()), "{stays:?}");
        assert!(stays[0] <= 10 && stays.last().is_some_and(|&last| last > 90), "{stays:?}");
    }

    #[test]
    fn a_panic_is_told_with_its_place() {
        let output = "Running: x\n\nthread '<unnamed>' (7) panicked at a.rs:1:2:\nindex out of bounds\nnote: run\n";
        let said = what_is_wrong(output);
        assert!(
            said.starts_with("thread '<unnamed>' (7) panicked at a.rs:1:2: | index out of"),
            "{said}"
        );
        let hang = "INFO: x\nALARM: working on the last Unit\n==5== ERROR: libFuzzer: timeout after 61 seconds\n";
        assert_eq!(what_is_wrong(hang), "==5== ERROR: libFuzzer: timeout after 61 seconds");
    }
}

//! Limits the instructions of hot loops: a budget in the repository, and a command that fails if a loop takes more.
//!
//! Cycles depend on the machine and its present load. Instructions, counted by callgrind ([`crate::callgrind`]), show
//! with a precision of a fraction of a percent whether the code has changed, also on a busy machine. So continuous
//! integration compares instructions, and people compare cycles.

mod budget;
mod loops;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use millrace_core::isa::Level;
use serde_json::json;

use self::budget::{Budget, Build, Counts};
use self::table::Line;
use crate::callgrind::{self, Stretch};
use crate::machine::Machine;
use crate::report;

/// The budget, in the repository.
const BUDGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/budget.json");

/// What to count, and the budget to compare with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Makes the present counts the new budget; a loop that exceeds the tolerance needs a reason
    #[arg(long)]
    bless: bool,

    /// Why loops take more than before; the reason is stored in the budget with each of them
    #[arg(long, value_name = "WORDS", requires = "bless", value_parser = reason)]
    reason: Option<String>,

    /// Counts only the loops whose names contain this; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// The file with the budget; by default that of the repository
    #[arg(long, value_name = "FILE", default_value = BUDGET, hide_default_value = true)]
    budget: PathBuf,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Options {
    /// Counts, prints the table, and either writes the budget or compares with it.
    ///
    /// # Errors
    /// A loop exceeds its budget and the tolerance, has no budget, or cannot be counted.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let before = Budget::read(&self.budget)?;
        let build = build();
        let has_avx2 = Level::of_processor() >= Level::Avx2;
        let whole = self.only.is_empty() && has_avx2;
        // A budget belongs to one compiler. Loops that are not counted now keep their allowance.
        if !self.bless || !whole {
            before.admit(&build)?;
        }
        let mut words = vec!["gate-worker".to_owned()];
        words.extend(self.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]));
        let now = count(&words)?;
        ensure!(!now.is_empty(), "--only: there is no loop of this name");

        let expected = |name: &str| self.only.is_empty() && (has_avx2 || !name.ends_with(AVX2));
        let lines = before.compare(&now, expected);
        print!("{}", table::table(&lines));
        self.report(&lines)?;
        if self.bless {
            let after = before.bless(build, &now, expected, self.reason.as_deref())?;
            after.write(&self.budget)?;
            println!("wrote the new budget to {}", self.budget.display());
            return Ok(());
        }
        let over = lines.iter().filter(|line| line.fails()).count();
        ensure!(
            over == 0,
            "{over} of {} loops miss the budget ({}): reduce them, or accept them with \
             `cargo xtask bench gate --bless --reason \"...\"`",
            lines.len(),
            self.budget.display()
        );
        println!("{} loops within the budget", lines.len());
        Ok(())
    }

    fn report(&self, lines: &[Line]) -> anyhow::Result<()> {
        if self.json.is_none() {
            return Ok(());
        }
        let Build { compiler, profile } = build();
        let options = json!({
            "suite": "gate", "only": self.only, "compiler": compiler, "profile": profile,
        });
        let rows = lines.iter().map(Line::json).collect();
        report::write(self.json.as_deref(), &Machine::look(), options, rows)
    }
}

/// The minimum instructions per packet by loop: of the code for every processor, and, if this one has AVX2, of the
/// code for AVX2.
fn count(words: &[String]) -> anyhow::Result<Counts> {
    let has_avx2 = Level::of_processor() >= Level::Avx2;
    let (baseline, avx2) = std::thread::scope(|scope| {
        let beside = has_avx2.then(|| scope.spawn(|| callgrind::count(words, Level::Avx2, false)));
        let baseline = callgrind::count(words, Level::Baseline, false);
        (baseline, beside.map(|counting| counting.join()))
    });
    let mut counts = Counts::new();
    let mut add = |one: Stretch, level: &str| {
        let now = one.per_packet(one.instructions);
        let least = counts.entry(one.name + level).or_insert(now);
        *least = now.min(*least);
    };
    baseline?.into_iter().for_each(|one| add(one, ""));
    if let Some(avx2) = avx2 {
        let Ok(avx2) = avx2 else { bail!("the thread that counts for AVX2 is gone") };
        avx2?.into_iter().for_each(|one| add(one, AVX2));
    }
    Ok(counts)
}

/// The suffix of the names of loops that were counted for AVX2.
const AVX2: &str = ", AVX2";

/// What is run under callgrind: every loop, as often as it has to be.
#[derive(clap::Args)]
pub(crate) struct Worker {
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

impl Worker {
    /// Runs the loops between marks.
    ///
    /// # Errors
    /// A configuration is wrong or loses packets.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let wanted =
            |name: &str| self.only.is_empty() || self.only.iter().any(|part| name.contains(part));
        for one in loops::all(wanted)? {
            for _ in 0..one.times {
                let packets = one.run().with_context(|| one.name.clone())?;
                callgrind::tell(&one.name, packets);
            }
        }
        Ok(())
    }
}

/// Checks that a reason is not empty.
fn reason(words: &str) -> Result<String, String> {
    match words.trim() {
        "" => Err("say why, in words".to_owned()),
        words => Ok(words.to_owned()),
    }
}

/// The build of this program. Another compiler or profile makes other instructions from the same sources.
fn build() -> Build {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    // Asked for in the sources, where a file names the toolchain.
    let place = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(rustc).arg("--version").current_dir(place).output();
    let version = output.ok().filter(|output| output.status.success());
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    // Cargo puts programs of a profile into a folder of its name.
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent).and_then(Path::file_name);
    Build {
        compiler: version.filter(|version| !version.is_empty()),
        profile: folder.map(|name| name.to_string_lossy().into_owned()),
    }
}

//! `cargo xtask sanitize`: what interpreters, sanitizers and models say about `unsafe` and lock-free code.

mod checks;
mod tool;
mod toolchain;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::shell;
use crate::tally::Counts;
use checks::Check;
use tool::Tool;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to run; everything without any.
    which: Vec<Tool>,
    /// Explore the models for minutes each, not for seconds, and run the tests of all elements, too.
    #[arg(long)]
    deep: bool,
    /// Weaken each access of the modelled parts in turn, and list those that no model notices.
    #[arg(long)]
    weaken: bool,
    /// Where the results go, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What a tool found out about a part.
struct Finding {
    tool: Tool,
    part: String,
    /// What was tried: executions, or tests.
    tried: String,
    failure: Option<String>,
    took: Duration,
}

/// Runs the tools, all of them even when one finds something.
///
/// # Errors
/// The results cannot be written.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut findings = Vec::new();
    for &tool in Tool::value_variants() {
        if !options.which.is_empty() && !options.which.contains(&tool) {
            continue;
        }
        println!("\n== {} ==", tool.name());
        if tool == Tool::Models {
            models(options, &mut findings)?;
            continue;
        }
        if let Err(error) = toolchain::need(tool) {
            let failure = Some(format!("{error:#}"));
            let part = "all".to_owned();
            findings.push(Finding {
                tool,
                part,
                tried: String::new(),
                failure,
                took: Duration::ZERO,
            });
            continue;
        }
        let checks = checks::ALL.iter().filter(|check| check.is_in(tool, options.deep));
        findings.extend(checks.map(|check| test(tool, check)));
    }
    println!("\n== summary ==\n{}", table(&findings));
    let path = options.json.clone().unwrap_or_else(|| shell::target().join("sanitize.json"));
    let rows: Vec<Value> = findings.iter().map(Finding::json).collect();
    std::fs::write(&path, serde_json::to_string_pretty(&rows)?)?;
    println!("written: {}", path.display());
    let sound = findings.iter().all(|finding| finding.failure.is_none());
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs some of a crate's tests under a tool.
fn test(tool: Tool, check: &Check) -> Finding {
    let start = Instant::now();
    let mut counts = Counts::default();
    let mut command = check.command(tool);
    println!("{}", shell::describe(&command));
    let done = shell::run_watched(&mut command, |line| counts.add_line(line));
    let done = done.and_then(|()| match counts.passed {
        0 => bail!("no test ran"),
        _ => Ok(()),
    });
    Finding {
        tool,
        part: check.part.to_owned(),
        tried: format!("{} tests", counts.passed),
        failure: done.err().map(|error| format!("{error:#}")),
        took: start.elapsed(),
    }
}

/// Runs the models, which print a line of JSON for each scenario.
fn models(options: &Options, findings: &mut Vec<Finding>) -> Result<()> {
    let mut command = shell::cargo();
    command.args(["run", "--release", "--quiet", "-p", "millrace-models", "--"]);
    command.args(options.deep.then_some("--deep")).args(options.weaken.then_some("--weaken"));
    println!("{}", shell::describe(&command));
    let before = findings.len();
    let start = Instant::now();
    let mut weakening = Weakening::default();
    let done = shell::run_watched(&mut command, |line| {
        if !weakening.add_line(line) {
            findings.extend(model(line));
        }
    });
    findings.extend(weakening.findings());
    if let (Err(error), true) = (done, findings[before..].iter().all(|one| one.failure.is_none())) {
        let (failure, took) = (Some(format!("{error:#}")), start.elapsed());
        let (part, tried) = ("all".to_owned(), String::new());
        findings.push(Finding { tool: Tool::Models, part, tried, failure, took });
    }
    Ok(())
}

/// What was noticed of accesses that were weakened.
#[derive(Default)]
struct Weakening {
    /// How many of each part, and how many of them were noticed.
    parts: BTreeMap<String, (u64, u64)>,
    /// Those that no part noticed, and why they stay.
    unnoticed: Vec<(String, Option<String>)>,
}

impl Weakening {
    /// Examines a line; false if it is about something else.
    fn add_line(&mut self, line: &str) -> bool {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return false };
        let text = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
        if let (Some(_), Some(part)) = (text("weakened"), text("part")) {
            let (all, noticed) = self.parts.entry(part).or_default();
            *all += 1;
            *noticed += u64::from(!line["noticed"].is_null());
            return true;
        }
        let Some(access) = text("unnoticed") else { return false };
        self.unnoticed.push((access, text("reason")));
        true
    }

    /// A row for each part, and one for each access that no part noticed: it is stronger than it need be, or a scenario
    /// is missing.
    fn findings(self) -> impl Iterator<Item = Finding> {
        let parts = self.parts.into_iter().map(|(part, (all, noticed))| {
            let tried = format!("{all} accesses, {noticed} noticed, {} not", all - noticed);
            (format!("{part}: weakened"), tried, None)
        });
        let unnoticed = self.unnoticed.into_iter().map(|(access, reason)| {
            let failure = reason.is_none().then(|| "no scenario notices, and no reason".to_owned());
            (access, reason.unwrap_or_default(), failure)
        });
        let rows = parts.chain(unnoticed);
        rows.map(|(part, tried, failure)| Finding {
            tool: Tool::Models,
            part,
            tried,
            failure,
            took: Duration::ZERO,
        })
    }
}

/// A line about a scenario.
fn model(line: &str) -> Option<Finding> {
    let line: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |key: &str| line.get(key).and_then(Value::as_f64);
    let complete = line.get("complete").and_then(Value::as_bool) == Some(true);
    let bound = match complete {
        true => format!("all with {} preemptions", number("preemptions").unwrap_or_default()),
        false => "then time was up".to_owned(),
    };
    Some(Finding {
        tool: Tool::Models,
        part: format!("{}: {}", text("part")?, text("promise")?),
        tried: format!("{} executions, {bound}", number("executions")?),
        failure: text("failure"),
        took: Duration::try_from_secs_f64(number("seconds")?).ok()?,
    })
}

impl Finding {
    fn json(&self) -> Value {
        json!({
            "tool": self.tool.name(),
            "part": self.part,
            "tried": self.tried,
            "failure": self.failure,
            "seconds": self.took.as_secs_f64(),
        })
    }
}

fn table(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { tool, part, tried, failure, took } in findings {
        let word = if failure.is_some() { "FAILED" } else { "ok" };
        let seconds = took.as_secs_f64();
        text += &format!("{:<8} {word:<6} {seconds:>7.1} s  {part} ({tried})\n", tool.name());
        if let Some(failure) = failure {
            text += &format!("{:26}{failure}\n", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_that_nobody_notices_need_a_reason() {
        let mut weakening = Weakening::default();
        for line in [
            r#"{"part": "rings", "weakened": "a.rs:1 x.load(Acquire)", "noticed": ["p", "race"]}"#,
            r#"{"part": "rings", "weakened": "a.rs:2 x.store(Release)", "noticed": null}"#,
            r#"{"part": "rings", "weakened": "a.rs:3 y.store(Release)", "noticed": null}"#,
            r#"{"unnoticed": "a.rs:2 x.store(Release)", "reason": "it is cold"}"#,
            r#"{"unnoticed": "a.rs:3 y.store(Release)", "reason": null}"#,
        ] {
            assert!(weakening.add_line(line));
        }
        assert!(!weakening.add_line(r#"{"part": "rings", "promise": "nobody rests"}"#));
        let text = table(&weakening.findings().collect::<Vec<_>>());
        assert!(text.contains("rings: weakened (3 accesses, 1 noticed, 2 not)"), "{text}");
        assert!(text.contains("a.rs:2 x.store(Release) (it is cold)"), "{text}");
        assert!(text.contains("no scenario notices, and no reason"), "{text}");
        assert_eq!(text.matches("FAILED").count(), 1, "{text}");
    }

    #[test]
    fn what_a_model_prints_becomes_a_row() {
        let line = r#"{"part": "rings", "promise": "nobody rests", "executions": 120, "complete": true,
            "preemptions": 2, "seconds": 1.25, "failure": null}"#;
        let row = |line: &str| table(&[model(line).unwrap()]);
        let ok = "models   ok         1.2 s  rings: nobody rests (120 executions, all with 2 preemptions)\n";
        assert_eq!(row(line), ok);
        let failed = row(&line.replace("true", "false").replace("null", "\"deadlock\""));
        assert!(failed.starts_with("models   FAILED "), "{failed}");
        assert!(
            failed.ends_with(
                "(120 executions, then time was up)\n                          deadlock\n"
            )
        );
        assert!(model("   Compiling loom").is_none());
    }
}

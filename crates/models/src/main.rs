//! `cargo run -p millrace-models`: runs the models, and prints what they show, a line of JSON for each.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use millrace_models::all::PARTS;
use millrace_models::check::{Bounds, explore, weaken};
use millrace_models::sync::sites::Site;
use serde_json::json;

/// Models of Millrace's lock-free parts.
#[derive(Parser)]
struct Cli {
    /// The parts; all without any.
    parts: Vec<String>,
    /// Explore for minutes, not for seconds.
    #[arg(long)]
    deep: bool,
    /// Interrupt threads this often in an execution.
    #[arg(long)]
    preemptions: Option<usize>,
    /// Weaken each access in turn, and say which the models do not notice; these need a reason.
    #[arg(long)]
    weaken: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut bounds = if cli.deep { Bounds::DEEP } else { Bounds::QUICK };
    bounds.preemptions = cli.preemptions.unwrap_or(bounds.preemptions);
    let mut holds = true;
    // Accesses that were weakened: their lines, whether a scenario noticed, and why they stay.
    let mut unnoticed: BTreeMap<Site, (String, bool, Option<&str>)> = BTreeMap::new();
    for part in PARTS
        .iter()
        .filter(|part| cli.parts.is_empty() || cli.parts.iter().any(|name| name == part.name))
    {
        for scenario in part.scenarios {
            let outcome = explore(scenario, bounds, None);
            holds &= outcome.failure.is_none();
            let line = json!({
                "part": part.name,
                "promise": scenario.name,
                "executions": outcome.executions,
                "complete": outcome.complete,
                "preemptions": bounds.preemptions,
                "seconds": outcome.took.as_secs_f64(),
                "failure": outcome.failure,
            });
            println!("{line}");
        }
        for scenario in part.broken {
            let outcome = explore(scenario, bounds, None);
            let failure = outcome.failure.is_none().then_some("it ought to fail");
            holds &= failure.is_none();
            let line = json!({
                "part": part.name,
                "promise": format!("must fail: {}", scenario.name),
                "executions": outcome.executions,
                "complete": true,
                "preemptions": bounds.preemptions,
                "seconds": outcome.took.as_secs_f64(),
                "failure": failure,
            });
            println!("{line}");
        }
        if !cli.weaken {
            continue;
        }
        // What fails fails soon.
        let soon = Bounds { longest: bounds.longest.min(Duration::from_secs(5)), ..bounds };
        for weak in weaken(part, soon, |_| true) {
            let line = json!({
                "part": part.name,
                "weakened": format!("{} {}", weak.site, weak.line),
                "noticed": weak.noticed,
            });
            println!("{line}");
            // Parts may have a file in common.
            let reason = part.stronger.iter().find(|(line, _)| *line == weak.line);
            let known = unnoticed.entry(weak.site).or_insert((weak.line, false, None));
            known.1 |= weak.noticed.is_some();
            known.2 = known.2.or(reason.map(|(_, reason)| *reason));
        }
    }
    for (site, (line, _, reason)) in unnoticed.iter().filter(|(_, (_, noticed, _))| !noticed) {
        holds &= reason.is_some();
        println!("{}", json!({ "unnoticed": format!("{site} {line}"), "reason": reason }));
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

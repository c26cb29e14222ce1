//! Every promise of every part, in all orders of its threads' steps with a few preemptions; and accesses that must not be
//! weaker, to show that the models can fail.

use millrace_models::all::PARTS;
use millrace_models::check::{Bounds, explore, weaken};
use millrace_models::part::Part;

fn part(name: &str) -> &'static Part {
    let part = PARTS.iter().find(|part| part.name == name);
    part.unwrap_or_else(|| unreachable!("no part is called {name}"))
}

/// All promises of a part hold. One does not once a rule is broken, or the access in a line is as weak as there is.
fn check(name: &str, lines: &[&str]) {
    for scenario in part(name).scenarios {
        let outcome = explore(scenario, Bounds::TEST, None);
        assert_eq!(outcome.failure, None, "{name}: {}", scenario.name);
        let told = format!("{name}: {}: {} executions", scenario.name, outcome.executions);
        assert!(outcome.executions > 1 && outcome.complete, "{told}");
        println!("{told}");
    }
    for scenario in part(name).broken {
        let failure = explore(scenario, Bounds::TEST, None).failure;
        assert!(failure.is_some(), "{name}: {}", scenario.name);
    }
    for line in lines {
        let weakened = weaken(part(name), Bounds::TEST, |other| other == *line);
        assert!(!weakened.is_empty(), "{name} has no line {line}");
        assert!(weakened.iter().all(|one| one.noticed.is_some()), "{weakened:?}");
    }
}

#[test]
fn biased() {
    let barrier = "if membarrier(MembarrierCommand::PrivateExpedited).is_err() {";
    check("biased", &["compiler_fence(Ordering::SeqCst);", barrier]);
}

#[test]
fn published() {
    check("published", &[]);
}

#[test]
fn wakes() {
    check("wakes", &["self.sleeping.store(true, Ordering::SeqCst);"]);
}

#[test]
fn moves() {
    check("moves", &[]);
}

#[test]
fn rings() {
    check("rings", &["fence(Ordering::SeqCst);"]);
}

#[test]
fn drains() {
    check("drains", &[]);
}

#[test]
fn flows() {
    check("flows", &[]);
}

#[test]
fn mappings() {
    check("mappings", &[]);
}

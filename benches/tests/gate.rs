//! The gate of instructions, as a user meets it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::path::Path;
use std::process::{Command, Output};

use millrace_testkit::{announce, find_program};

/// Counts one loop, which is the same with and without optimisation but for its length.
fn gate(budget: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-bench"));
    command.args(["gate", "--only", "checksum of 20 bytes", "--budget"]).arg(budget).args(words);
    command.output().unwrap()
}

#[test]
fn a_loop_that_takes_more_than_its_budget_fails() {
    if find_program("valgrind").is_none() {
        return announce("gate::a_loop_that_takes_more_than_its_budget_fails", &"no valgrind");
    }
    let place = tempfile::tempdir().unwrap();
    let budget = place.path().join("budget.json");
    let blessed = gate(&budget, &["--bless"]);
    assert!(blessed.status.success(), "{}", String::from_utf8_lossy(&blessed.stderr));
    let again = gate(&budget, &[]);
    let text = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && text.contains("loops within the budget"), "{text}");

    // The same counts against a budget that is a third less for one of them.
    let written = std::fs::read_to_string(&budget).unwrap();
    let count: f64 = written
        .split("bytes\": ")
        .nth(1)
        .unwrap()
        .split([',', '\n'])
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let less = written.replace(&count.to_string(), &(count / 1.5).to_string());
    std::fs::write(&budget, less).unwrap();
    let failed = gate(&budget, &[]);
    let text = String::from_utf8_lossy(&failed.stdout);
    assert!(!failed.status.success() && text.contains("TOO MUCH"), "{text}");

    // It rises only with a reason, which the table shows from then on.
    let refused = gate(&budget, &["--bless"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("--reason"), "{text}");
    let empty = gate(&budget, &["--bless", "--reason", " "]);
    assert!(!empty.status.success());
    let risen = gate(&budget, &["--bless", "--reason", "it does more"]);
    assert!(risen.status.success(), "{}", String::from_utf8_lossy(&risen.stderr));
    let again = gate(&budget, &[]);
    let text = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && text.contains("rose: it does more"), "{text}");
}

#[test]
fn a_budget_of_another_compiler_fails() {
    let place = tempfile::tempdir().unwrap();
    let budget = place.path().join("budget.json");
    let text = r#"{"compiler": "rustc 0.1", "profile": "dist", "instructions": {"a": 1}}"#;
    std::fs::write(&budget, text).unwrap();
    // A part that is blessed would stand among the counts of the other compiler.
    for words in [&[][..], &["--bless"]] {
        let failed = gate(&budget, words);
        let said = String::from_utf8_lossy(&failed.stderr);
        assert!(!failed.status.success() && said.contains("rust-toolchain.toml"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&budget).unwrap(), text);
}

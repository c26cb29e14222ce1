//! Files that are drawn, as a user meets them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::process::Command;

use millrace_testkit::{announce, find_program};

#[test]
fn two_small_files_stand_beside_the_sums_of_their_elements() {
    const NAME: &str = "anyfile::two_small_files_stand_beside_the_sums_of_their_elements";
    if find_program("valgrind").is_none() {
        return announce(NAME, &"no valgrind");
    }
    let place = tempfile::tempdir().unwrap();
    let report = place.path().join("report.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-bench"));
    command.args(["anyfile", "--seeds", "2", "--elements", "8", "--packets", "256"]);
    command.args(["--rounds", "1", "--burst", "32"]);
    let output = command.arg("--json").arg(&report).output().unwrap();
    let (text, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    for part in ["2 files do with the optimiser", "router-0", "bridge-1", "burst 32, instructions"]
    {
        assert!(text.contains(part), "{text}");
    }
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "two files, two verdicts");
    let ratio = rows[0]["instructions"]["ratio"].as_f64().unwrap();
    // How fast a debug build is says nothing; that the sum is of the same things does.
    assert!((0.3..10.0).contains(&ratio), "{ratio}");
}

//! Instructions of any configuration, as a user meets them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::process::Command;

use millrace_testkit::{announce, find_program};

#[test]
fn a_file_has_instructions_of_its_own() {
    if find_program("valgrind").is_none() {
        return announce("own::a_file_has_instructions_of_its_own", &"no valgrind");
    }
    let place = tempfile::tempdir().unwrap();
    let (file, report) = (place.path().join("null.click"), place.path().join("report.json"));
    std::fs::write(&file, "FromDevice(a, BURST 16) -> Null -> ToDevice(b);").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-bench"));
    command.args(["own", "--burst", "8", "--burst", "32", "--routes", "10", "--functions", "50"]);
    let output = command.arg(&file).arg("--json").arg(&report).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    // A file that takes 16 packets at a time gets no more.
    let bursts: Vec<u64> = rows.iter().map(|row| row["burst"].as_u64().unwrap()).collect();
    assert_eq!(bursts, [8, 16]);
    for row in rows {
        let [all, devices, own] =
            ["instructions", "devices", "own"].map(|name| row[name].as_f64().unwrap());
        assert!(devices > 0.0 && own > 0.0 && (all - devices - own).abs() < 0.1, "{row}");
        assert_eq!(row["came_out"].as_f64(), Some(1.0));
        assert!(!row["functions"].as_array().unwrap().is_empty());
    }
}

//! No locked instruction on the path of a packet.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;

use millrace_testkit::{announce, find_program};

/// Loops of the gate, and the locked instructions that each may execute a batch once it is warm.
///
/// The routers join this list when their tables are read without any.
const LOOPS: &[(&str, u32)] = &[("forward, bursts of 32", 0)];

#[test]
fn a_packet_meets_no_locked_instruction() {
    const NAME: &str = "locks::a_packet_meets_no_locked_instruction";
    if !cfg!(target_arch = "x86_64") {
        return announce(NAME, &"locked instructions are those of x86-64");
    }
    if find_program("valgrind").is_none() {
        return announce(NAME, &"no valgrind");
    }
    for (name, most) in LOOPS {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-bench"));
        let output =
            command.args(["locks", "--only", name, "--most", &most.to_string()]).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

/// What would not be found could not fail.
#[test]
fn locked_instructions_are_found() {
    const NAME: &str = "locks::locked_instructions_are_found";
    if !cfg!(target_arch = "x86_64") || find_program("valgrind").is_none() {
        return announce(NAME, &"no valgrind");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-bench"));
    let output = command.args(["locks", "--probe"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("a mutex, taken and given back: 2.00"), "{said}");
}

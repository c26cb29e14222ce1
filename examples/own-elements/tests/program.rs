//! The program has Millrace's elements and this crate's.

#![allow(clippy::expect_used, reason = "a program that does not start fails the test")]

use std::process::Command;

fn output_of(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_own-elements")).args(args).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn runs_a_configuration_with_elements_of_both() {
    let configuration = "InfiniteSource(LIMIT 30, STOP true) -> EveryNth(10) -> Discard";
    let summary = output_of(&["run", "-e", configuration]);
    assert!(summary.contains("27 filtered"), "{summary}");
    assert!(summary.contains("3 discarded"), "{summary}");
}

#[test]
fn prints_the_manual_of_its_own_element() {
    let manual = output_of(&["elements", "EveryNth"]);
    assert!(manual.contains("passes on one packet in N"), "{manual}");
}

//! The program has Millrace's elements and this crate's.

use std::process::Command;

use millrace_test_packets::ip::withstands;
use skeleton_crate as _;

fn output_of(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_skeleton-crate")).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn runs_a_configuration_with_elements_of_both() {
    let configuration = "InfiniteSource(LENGTH 60, LIMIT 10, STOP true)
        -> SkeletonElement(14)
        -> Discard";
    let summary = output_of(&["run", "-e", configuration]);
    assert!(summary.contains("10 discarded"), "{summary}");
}

#[test]
fn prints_the_manual_of_its_own_element() {
    let manual = output_of(&["elements", "SkeletonElement"]);
    assert!(manual.contains("SkeletonElement(LENGTH)"), "{manual}");
}

#[test]
fn withstands_anything() {
    withstands("SkeletonElement(14)", 1);
}

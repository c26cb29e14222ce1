//! DPDK from end to end, on its virtual devices: what goes in comes out, nothing is copied that need not be,
//! every mbuf returns to its pool, and what cannot be is said in a sentence.
//!
//! The tests build the plugin; where there is no DPDK to build it against, they leave themselves out.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be set up fails the test")]

mod captures;
mod plugin;
mod rings;
mod run;
mod virtual_devices;
mod wires;

use run::{Done, millrace};

#[test]
fn without_the_plugin_the_way_to_build_it_is_told() {
    let elsewhere = tempfile::tempdir().unwrap();
    let program = elsewhere.path().join("millrace");
    std::fs::copy(env!("CARGO_BIN_EXE_millrace"), &program).unwrap();
    let run = |variable: &str, args: &[&str]| -> Done {
        let mut command = std::process::Command::new(&program);
        command.env("MILLRACE_DPDK_PLUGIN", variable).args(["run", "--for", "1s"]).args(args);
        command.output().unwrap().into()
    };
    let done = run("/no/such/plugin.so", &["-e", "FromDPDKDevice(0) -> Discard"]);
    assert_eq!(done.status, 1, "{done:?}");
    assert!(done.stderr.contains("/no/such/plugin.so: "), "{done:?}");
    assert!(
        done.stderr.contains("While initializing ‘FromDPDKDevice@1 :: FromDPDKDevice’"),
        "{done:?}"
    );
    if !std::path::Path::new("/usr/lib/millrace").exists() {
        let done = run("", &["--dpdk", "--no-huge", "--", "-e", "Idle -> Discard"]);
        assert_eq!(done.status, 1, "{done:?}");
        assert!(done.stderr.contains("`cargo build --release -p millrace-dpdk`"), "{done:?}");
    }
}

#[test]
fn options_of_dpdk_must_have_an_end() {
    let done = millrace(&["run", "--dpdk", "--no-huge", "-e", "Idle -> Discard"]);
    assert_eq!(done.status, 1, "{done:?}");
    assert!(done.stderr.contains("end the options of --dpdk with `--`"), "{done:?}");
}

#[test]
fn a_configuration_is_checked_without_dpdk() {
    let text = "FromDPDKDevice(0, N_QUEUES 2) -> ToDPDKDevice(03:00.0)";
    let done = millrace(&["check", "--dpdk", "-l", "0", "--", "-e", text]);
    assert_eq!(done.status, 0, "{done:?}");
}

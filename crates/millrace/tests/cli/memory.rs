//! What a router takes of memory, as forecast and as measured.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{millrace, millrace_command};

const MIB: u64 = 1 << 20;

/// What is forecast for a router, in bytes: all but its packet memory; and its tables.
fn forecast(text: &str) -> (u64, u64) {
    let plan: Value =
        serde_json::from_str(&millrace(&["plan", "--json", "-e", text]).stdout).unwrap();
    let memory = &plan["memory"];
    let packets: u64 =
        memory["packet_memory"].as_array().unwrap().iter().map(|node| node.as_u64().unwrap()).sum();
    let elements = memory["elements"].as_array().unwrap();
    let tables = elements.iter().filter_map(|element| element["tables"].as_u64()).sum();
    (memory["most"].as_u64().unwrap() - packets, tables)
}

/// A running router, which ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The most that a router has had in memory, in bytes, when the handler `done` says `count`.
fn measured(text: &str, done: &str, count: &str) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s").display().to_string();
    let child = millrace_command()
        .args(["run", "-u", &socket, "-e", text])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running(child);
    let patience = Instant::now() + Duration::from_secs(120);
    while millrace(&["read", done, "-u", &socket]).stdout.trim() != count {
        assert!(Instant::now() < patience, "{done} never says {count}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.0.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// The forecast is an upper bound, and not many times what is taken when the tables are full.
#[test]
fn what_is_forecast_is_near_what_is_taken() {
    let flows = "InfiniteSource(LENGTH 20, LIMIT 90000) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2)
        -> SetRandIPAddress(10.0.0.0/8) -> StoreIPAddress(12)";
    for full in ["f :: FlowCounter(CAPACITY 60000)", "f :: IPRewriter(keep 0 0, CAPACITY 60000)"] {
        let text = format!("{flows} -> {full} -> c :: Counter -> Discard");
        let text = match full.contains("IPRewriter") {
            // What finds no room is dropped.
            true => format!("{flows} -> c :: Counter -> {full} -> Discard"),
            false => text,
        };
        let (most, tables) = forecast(&text);
        let peak = measured(&text, "c.count", "90000");
        assert!(tables > 4 * MIB, "{full}: {tables}");
        assert!(peak <= most + 32 * MIB, "{full}: {peak} of {most}");
        assert!(4 * peak >= tables, "{full}: {peak}, and {tables} for its tables");
    }
    let (most, tables) = forecast("RatedSource(LIMIT 10) -> c :: Counter -> Discard");
    let peak = measured("RatedSource(LIMIT 10) -> c :: Counter -> Discard", "c.count", "10");
    assert_eq!(tables, 0);
    assert!(peak <= most + 32 * MIB && 8 * peak >= most, "{peak} of {most}");
}

#[test]
fn a_router_that_cannot_have_its_memory_does_not_start() {
    let done = millrace(&["run", "--buffers", "1000000000000", "-e", "Idle -> Discard"]);
    assert_eq!(done.status, 1);
    let last = done.stderr.lines().last().unwrap();
    assert!(last.starts_with("millrace: memory: packet memory, rings and tables need "), "{last}");
    assert!(
        last.ends_with("choose a smaller number of --buffers, or start with --overcommit"),
        "{last}"
    );
}

#[test]
fn check_plan_and_run_say_what_a_router_may_take() {
    let text = "Idle -> q :: Queue(100000) -> Discard; Idle -> a :: IPRateMonitor(PACKETS, 1, 1, 0) -> Discard";
    for command in [&["check"][..], &["plan"], &["run", "--for", "1ms"]] {
        let done = millrace(&[command, &["-e", text]].concat());
        let said = done.stdout + &done.stderr;
        let line = said.lines().find(|line| line.starts_with("memory: at most ")).unwrap();
        assert!(line.contains(": the program "), "{line}");
        assert!(line.ends_with("; without a limit: a (IPRateMonitor), by address"), "{line}");
    }
    let plan = millrace(&["plan", "-e", text]).stdout;
    assert!(plan.contains("queues and tables can hold 100000 packets"), "{plan}");
    let done = millrace(&["plan", "--json", "-e", text]);
    let plan: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(plan["memory"]["most"].is_null());
    assert_eq!(plan["memory"]["elements"][0]["packets"], 100_000);
}

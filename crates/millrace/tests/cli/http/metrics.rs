//! `/metrics`, as Prometheus reads it.

use std::io::Write;
use std::process::{Command, Stdio};

use millrace_testkit::find_program;

use super::COUNTING;
use super::client::Running;

#[test]
fn metrics_come_in_both_formats_and_are_documented() {
    let running = Running::start(COUNTING);
    let plain = running.get("/metrics");
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let open = running.ask(
        "GET",
        "/metrics",
        &["Accept: application/openmetrics-text; version=1.0.0"],
        b"",
    );
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(open.header("content-type"), Some(kind));
    assert!(open.text().ends_with("\n# EOF\n"));
    let line = "millrace_queue_capacity_packets{element=\"way/q\",class=\"Queue\"} 50";
    assert!(plain.text().contains(line), "{}", plain.text());
    let book = include_str!("../../../../../docs/src/looking-inside.md");
    for family in plain.text().lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = family.split(' ').next().unwrap();
        assert!(book.contains(&format!("`{name}`")), "{name} is not in the book");
    }
    let files = [
        include_str!("../../../../../examples/observability/dashboard.json"),
        include_str!("../../../../../examples/observability/alerts.yml"),
    ];
    for name in files.iter().flat_map(|file| names(file)) {
        assert!(plain.text().contains(&format!("# TYPE {name} ")), "there is no {name}");
    }
    running.stop();
}

/// The metrics that a file names.
fn names(file: &str) -> impl Iterator<Item = &str> {
    let words = file.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("millrace_"))
}

/// Gives Prometheus' own checker an input; what it says must be nothing.
fn check(arguments: &[&str], input: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?}: {said}\n{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn prometheus_has_no_complaint() {
    if find_program("promtool").is_none() {
        let test = "http::metrics::prometheus_has_no_complaint";
        return millrace_testkit::announce(test, &"needs promtool");
    }
    let running = Running::start(COUNTING);
    check(&["check", "metrics"], &running.get("/metrics").text());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/observability");
    check(&["check", "rules", &format!("{folder}/alerts.yml")], "");
    check(&["check", "config", "--syntax-only", &format!("{folder}/prometheus.yml")], "");
    check(&["test", "rules", &format!("{folder}/alerts.test.yml")], "");
    running.stop();
}

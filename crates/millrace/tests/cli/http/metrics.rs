//! `/metrics`, as Prometheus reads it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use millrace_testkit::Program;
use millrace_testkit::data::Data;
use serde_json::Value;

use super::COUNTING;
use super::client::{Answer, Running};

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
fn check(promtool: &Path, arguments: &[&str], input: &str) {
    let mut promtool = Command::new(promtool);
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
    let test = "http::metrics::prometheus_has_no_complaint";
    let Some(programs) = Data::Prometheus.folder_or_skip(test) else { return };
    let check =
        |arguments: &[&str], input: &str| check(&programs.join("promtool"), arguments, input);
    let running = Running::start(COUNTING);
    check(&["check", "metrics"], &running.get("/metrics").text());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/observability");
    check(&["check", "rules", &format!("{folder}/alerts.yml")], "");
    check(&["check", "config", "--syntax-only", &format!("{folder}/prometheus.yml")], "");
    check(&["test", "rules", &format!("{folder}/alerts.test.yml")], "");
    running.stop();
}

/// What a server answers, as JSON; nothing if it does not yet.
fn ask(host: &str, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(host).ok()?;
    // In this version answers do not come in pieces.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    serde_json::from_slice(&Answer::of(&answer).body).ok()
}

#[test]
fn prometheus_scrapes_a_router_under_load() {
    let test = "http::metrics::prometheus_scrapes_a_router_under_load";
    let Some(programs) = Data::Prometheus.folder_or_skip(test) else { return };
    let running = Running::start("InfiniteSource(BURST 32) -> busy :: Counter -> Discard");
    let example = include_str!("../../../../../examples/observability/prometheus.yml");
    let configuration = example.replace("127.0.0.1:9117", &running.host).replace("5s", "200ms");
    let file = running.folder.path().join("prometheus.yml");
    std::fs::write(&file, configuration).unwrap();
    let alerts = include_str!("../../../../../examples/observability/alerts.yml");
    std::fs::write(running.folder.path().join("alerts.yml"), alerts).unwrap();
    // A port that is free by now, as Prometheus does not say which one it takes.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = free.local_addr().unwrap().to_string();
    drop(free);
    let mut command = Command::new(programs.join("prometheus"));
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", running.folder.path().join("data").display()));
    let mut prometheus =
        Program::start(command.arg(format!("--web.listen-address={host}"))).unwrap();
    let value = |query: &str| -> Option<f64> {
        let answer = ask(&host, &format!("/api/v1/query?query={query}"))?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    let until = |query: &str, holds: fn(f64) -> bool, running: &mut Program| loop {
        if value(query).is_some_and(holds) {
            return;
        }
        assert!(running.runs(), "{:?}", running.said().collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(100));
    };
    until("up", |up| up == 1.0, &mut prometheus);
    let rate =
        "rate(millrace_element_packets_total%7Belement=%22busy%22,direction=%22in%22%7D[2s])";
    until(rate, |rate| rate > 0.0, &mut prometheus);
    assert_eq!(value("count(millrace_element_packets_total)"), Some(6.0));
    let rules = ask(&host, "/api/v1/rules").unwrap();
    assert_eq!(rules["data"]["groups"][0]["rules"].as_array().unwrap().len(), 6);
    prometheus.kill().unwrap();
    running.stop();
}

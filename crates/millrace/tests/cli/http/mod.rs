//! `millrace run --http`.

mod browser;
mod client;
mod console;
mod hostile;
mod metrics;
mod schema;

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use self::client::{Running, TOKEN};
use self::schema::faults;
use crate::millrace;

const COUNTING: &str =
    "elementclass Way { input -> c :: Counter -> q :: Queue(50) -> output } s :: RatedSource(RATE 1000)
     -> way :: Way -> u :: Unqueue -> Discard; AddressInfo(here 10.0.0.1);
     RatedSource(RATE 1000) -> full :: Queue(5) -> Idle";

/// The description in the repository.
fn description() -> Value {
    serde_json::from_str(include_str!("../../../src/http/openapi.json")).unwrap()
}

#[test]
fn each_documented_path_answers_as_described() {
    let running = Running::start(COUNTING);
    let root = description();
    assert_eq!(running.get("/api/v1/openapi.json").json(), root);
    let paths = root["paths"].as_object().unwrap();
    let name_of = |path: &str| match path {
        "/api/v1/elements/{name}" => vec!["way/q", "way%2Fc", "s"],
        "/api/v1/handlers/{name}" => vec!["way/q.length", "version", "way/c.count"],
        _ => vec![""],
    };
    for (path, operations) in paths {
        for name in name_of(path) {
            let url = path.replace("{name}", name);
            let described = &operations["get"]["responses"]["200"]["content"];
            if described.get("text/event-stream").is_some() {
                let schema = &described["text/event-stream"]["schema"];
                let event = running.events().next().unwrap();
                assert_eq!(faults(&root, schema, &event), [""; 0], "{url}");
                continue;
            }
            let answer = running.get(&url);
            assert_eq!(answer.status, 200, "{url}: {answer:?}");
            let kind = answer.header("content-type").unwrap().split(';').next().unwrap().to_owned();
            if path == "/metrics" {
                // Who does not ask for OpenMetrics gets the older format.
                assert_eq!(kind, "text/plain");
                continue;
            }
            assert!(described.get(&kind).is_some(), "{url} is {kind}");
            if kind == "application/json" && path != "/api/v1/openapi.json" {
                let schema = &described[&kind]["schema"];
                assert_eq!(faults(&root, schema, &answer.json()), [""; 0], "{url}");
            }
            let head = running.ask("HEAD", &url, &[], b"");
            assert_eq!((head.status, head.body.len()), (200, 0), "{url}");
            let wrong = running.ask("DELETE", &url, &[&bearer(TOKEN)], b"");
            assert_eq!(wrong.status, 405, "{url}");
            assert!(wrong.header("allow").unwrap().starts_with("get, head"), "{url}");
            let error = &root["components"]["schemas"]["Error"];
            assert_eq!(faults(&root, error, &wrong.json()), [""; 0]);
        }
    }
    running.stop();
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn the_snapshot_has_what_the_summary_has() {
    let running = Running::start(COUNTING);
    let snapshot = running.get("/api/v1/snapshot").json();
    assert_eq!(snapshot["pid"], running.program.id());
    let elements = running.get("/api/v1/elements").json();
    let names = |value: &Value| -> Vec<Value> {
        value["elements"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect()
    };
    assert_eq!(names(&snapshot), names(&elements));
    assert_eq!(names(&running.get("/api/v1/graph").json()), names(&snapshot));
    let queue = running.get("/api/v1/elements/way/q").json();
    assert_eq!((&queue["config"], &queue["queue"]["capacity"]), (&"50".into(), &50.into()));
    assert_eq!(queue["connections"].as_array().unwrap().len(), 2);
    assert!(queue["manual"].as_str().unwrap().starts_with("Queue - "), "{}", queue["manual"]);
    assert!(
        queue["handlers"].as_array().unwrap().iter().any(|one| one["name"] == "highwater_length")
    );
    let configuration = running.get("/api/v1/configuration").json();
    assert_eq!(configuration["text"], COUNTING);
    assert!(configuration["flat"].as_str().unwrap().contains("way/q :: Queue(50)"));
    let summary: Value = serde_json::from_str(&running.stop().stdout).unwrap();
    for (name, value) in snapshot.as_object().unwrap() {
        assert!(summary.get(name).is_some_and(|own| own.is_array() == value.is_array()), "{name}");
    }
}

#[test]
fn handlers_are_read_and_written() {
    let running = Running::start(COUNTING);
    let handler = |name: &str| format!("/api/v1/handlers/{name}");
    assert_eq!(running.get(&handler("way/q.capacity")).text(), "50");
    assert_eq!(
        running.put(&handler("way/q.capacity"), b"70").json()["warnings"],
        Value::Array(vec![])
    );
    assert_eq!(running.get(&handler("way%2Fq.capacity")).text(), "70");
    let posted = running.ask("POST", &handler("way/q.capacity"), &[&bearer(TOKEN)], b"80");
    assert_eq!(posted.status, 200);
    let snapshot = running.get(&handler("snapshot"));
    let snapshot: Value = serde_json::from_slice(&snapshot.body).unwrap();
    assert_eq!(snapshot["version"], 1);
    for (answer, status, words) in [
        (running.get(&handler("way/q.capcity")), 404, "did you mean ‘way/q.capacity’?"),
        (running.get(&handler("wy/q.capacity")), 404, "did you mean ‘way/q.capacity’?"),
        (running.get(&handler("lst")), 404, "did you mean ‘list’?"),
        (running.get("/api/v1/elements/wy/q"), 404, "did you mean ‘way/q’?"),
        (running.put(&handler("way/q.capacity"), b"many"), 400, "integer"),
        (running.put(&handler("way/q.length"), b"1"), 405, "GET, HEAD"),
        (running.get(&handler("way/q.reset")), 405, "PUT, POST"),
        (running.get(&handler("version?parameter=a%20b")), 400, "does not take parameters"),
        (running.get("/api/v1/everything"), 404, "openapi.json"),
        (running.get("/index.html"), 404, "openapi.json"),
    ] {
        assert_eq!(answer.status, status, "{answer:?}");
        let error = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(words), "{error}");
    }
    running.stop();
}

#[test]
fn writes_need_the_token() {
    let running = Running::start(COUNTING);
    let put = |headers: &[&str]| {
        running.ask("PUT", "/api/v1/handlers/way/q.capacity", headers, b"60").status
    };
    assert_eq!(put(&[]), 401);
    assert_eq!(put(&[&bearer("a-long-secreT")]), 401);
    assert_eq!(running.ask("GET", "/metrics", &[&bearer("wrong")], b"").status, 401);
    // What a page of another site can make a browser send.
    assert_eq!(put(&["Origin: http://evil.example", &bearer(TOKEN)]), 403);
    assert_eq!(put(&["Sec-Fetch-Site: cross-site", &bearer(TOKEN)]), 403);
    let rebound = running.say(&client::request("GET", "/metrics", &["Host: evil.example"], b""));
    assert_eq!(client::Answer::of(&rebound).status, 403);
    assert_eq!(running.get("/api/v1/handlers/way/q.capacity").text(), "50");
    let answer = running.get("/api/v1/snapshot");
    assert!(answer.header("access-control-allow-origin").is_none());
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(put(&[&bearer(TOKEN)]), 200);
    let own = format!("Origin: http://{}", running.host);
    assert_eq!(put(&[&own, &bearer(TOKEN)]), 200);

    let mode = std::fs::metadata(running.folder.path().join("http")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let write = running.ask_owner("PUT", "/api/v1/handlers/way/q.capacity", b"50");
    assert_eq!(write.status, 401, "it needs the token if there is one");
    assert_eq!(running.ask_owner("GET", "/api/v1/snapshot", b"").status, 200);
    running.stop();
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let done = millrace(&["run", "--http", "0.0.0.0:0", "-e", "Idle -> Discard"]);
    assert_eq!(done.status, 1);
    assert!(done.stderr.contains("other machines can reach this address"), "{}", done.stderr);
    let done = millrace(&["run", "--http", "nonsense", "-e", "Idle -> Discard"]);
    assert!(done.stderr.contains("or unix:PATH"), "{}", done.stderr);
}

#[test]
fn events_come_each_second_until_the_router_stops() {
    let running = Running::start(COUNTING);
    let mut followers: Vec<_> = (0..3).map(|_| running.events()).collect();
    for events in &mut followers {
        let counts: Vec<u64> =
            events.take(3).map(|event| event["totals"]["in"].as_u64().unwrap()).collect();
        assert_eq!(counts.len(), 3);
        assert!(counts.is_sorted() && counts[0] < counts[2], "{counts:?}");
    }
    running.stop();
    for events in &mut followers {
        // What was on its way may still come.
        assert!(events.count() < 100);
    }
}

//! The ways of single packets through a running router.

use serde_json::Value;

use crate::control::Running;
use crate::{Done, millrace};

/// One packet in a while, which loses its Ethernet header and a hop, is copied, waits in a queue, and ends in two places.
const ROUTER: &str = "
    s :: RatedSource(DATA \\<ffffffffffff 020000000001 0800 45000028 00000000 401166c3 0a000001 0a000002
                            04d20050 00140000 0102030405060708090a0b0c>, RATE 200)
      -> strip :: Strip(14) -> check :: CheckIPHeader -> ttl :: DecIPTTL -> paint :: Paint(3)
      -> tee :: Tee -> q :: Queue -> u :: Unqueue -> f :: IPFilter(drop udp dst port 80, allow all) -> Idle;
    tee[1] -> d :: Discard;";

fn trace(running: &Running, words: &[&str]) -> Done {
    millrace(&[&["trace", "-u", &running.socket()], words].concat())
}

fn changes(hop: &Value) -> Vec<String> {
    let changes = hop["changes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    changes
        .map(|one| {
            format!("{}: {} > {}", text(&one["field"]), text(&one["before"]), text(&one["after"]))
        })
        .collect()
}

#[test]
fn a_packet_is_followed_through_headers_copies_and_queues_to_its_end() {
    let running = Running::start(ROUTER);
    let done = trace(&running, &["--json", "-c", "3"]);
    assert_eq!(done.status, 0, "{done:?}");
    let stories: Vec<Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(stories.len(), 3);
    for story in stories {
        assert_eq!(story["incomplete"], false);
        let packets = story["packets"].as_array().unwrap();
        assert_eq!(packets.len(), 2, "{story:#}");
        let first = packets[0]["hops"].as_array().unwrap();
        let way: Vec<&str> = first.iter().map(|hop| hop["element"].as_str().unwrap()).collect();
        assert_eq!((way[0], first[0]["connection"].as_str().unwrap()), ("s", "s[0] -> [0]strip"));
        assert_eq!(way[..6], ["s", "strip", "check", "ttl", "paint", "tee"]);
        assert_eq!(changes(&first[1]), ["length: 54 > 40", "ether header: there > "]);
        assert_eq!(changes(&first[2]), ["DST_IP:  > 10.0.0.2"]);
        assert_eq!(changes(&first[3]), ["ip ttl: 64 > 63", "ip checksum: 0x66c3 > 0x67c3"]);
        assert_eq!(changes(&first[4]), ["PAINT:  > 3"]);
        // One of the two goes through the queue and is filtered, the other one is discarded.
        assert!(packets[1]["parent"] == packets[0]["packet"] && packets[0]["parent"].is_null());
        let ends: Vec<(&str, &str)> = packets
            .iter()
            .map(|one| one["hops"].as_array().unwrap().last().unwrap())
            .map(|hop| (hop["element"].as_str().unwrap(), hop["dropped"].as_str().unwrap()))
            .collect();
        assert!(
            ends.contains(&("f", "filtered")) && ends.contains(&("d", "discarded")),
            "{ends:?}"
        );
        let all = packets.iter().flat_map(|one| one["hops"].as_array().unwrap());
        let through: Vec<&str> = all.map(|hop| hop["connection"].as_str().unwrap()).collect();
        assert!(
            through.contains(&"q[0] -> [0]u") && through.contains(&"u[0] -> [0]f"),
            "{through:?}"
        );
    }
    let done = running.stop();
    let summary: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(summary["totals"]["balanced"], true);
}

#[test]
fn traces_are_read_by_people_and_begin_where_they_are_told_to() {
    let running = Running::start(ROUTER);
    let done = trace(&running, &["--at", "q", "udp dst port 80", "--every", "3"]);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(
        lines[0], "trace 0: 40 bytes, 10.0.0.1 port 1234 > 10.0.0.2 port 80, udp",
        "{done:?}"
    );
    assert!(
        lines[1].starts_with("  q[0] -> [0]u ") && lines[1].contains("Queue, thread 0, batch of")
    );
    assert!(lines[2].starts_with("  u[0] -> [0]f "));
    assert_eq!(lines[3], "  dropped by f (IPFilter): filtered, thread 0");
    let none = trace(&running, &["--at", "qq"]);
    assert!(
        none.stderr.starts_with("millrace: there is no element 'qq'; did you mean 'q'?"),
        "{none:?}"
    );
    running.stop();
}

//! Clients that ask for too much, too slowly, or for nothing that makes sense.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::COUNTING;
use super::client::{Answer, Running, TOKEN, request};

/// The status of an answer; 0 if the connection was closed without one.
fn status(answer: &[u8]) -> u16 {
    if answer.is_empty() { 0 } else { Answer::of(answer).status }
}

#[test]
fn nonsense_is_answered_or_closed() {
    let running = Running::start(COUNTING);
    let host = format!("Host: {}", running.host);
    let get = |path: &str, headers: &[&str]| {
        status(&running.say(&request("GET", path, &[&[host.as_str()], headers].concat(), b"")))
    };
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..200 {
        let length = random.usize(1..4096);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        let start: &[u8] = match round % 4 {
            0 => b"GET /api/v1/",
            1 => b"PUT /api/v1/handlers/s.rate HTTP/1.1\r\nContent-Length: 9999\r\n",
            2 => b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: localhost\r\n\r\n",
            _ => b"",
        };
        bytes.splice(..0, start.iter().copied());
        bytes.extend(b"\r\n\r\n");
        let mut stream = running.connect();
        // The server may have heard enough.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    assert_eq!(get("/", &[]), 200);
    assert_eq!(status(&running.say(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")), 400);
    assert_eq!(status(&running.say(b"BREW / HTTP/1.1\r\n\r\n")), 400);
    assert_eq!(get("/", &["Host: localhost"]), 400);
    assert_eq!(get("/%ff", &[]), 400);
    assert_eq!(get("/%00/../../etc/passwd", &[]), 404);
    assert_eq!(get("/api/v1/elements/..%2f..%2fetc%2fpasswd", &[]), 404);
    assert_eq!(get("http://evil.example/", &[]), 200, "the path counts, and no request goes on");
    for target in ["*", "", "//", "/ /", "\\"] {
        let answer = running.say(&request("GET", target, &[&host], b""));
        assert!(matches!(status(&answer), 400 | 404 | 405), "{target}: {answer:?}");
    }
    let long = format!("X: {}", "a".repeat(64 << 10));
    assert!(matches!(get("/", &[&long]), 0 | 431));
    assert!(matches!(get(&format!("/{}", "a".repeat(64 << 10)), &[]), 0 | 414 | 431));
    let many: Vec<String> = (0..500).map(|n| format!("X-{n}: 1")).collect();
    assert_eq!(get("/", &many.iter().map(String::as_str).collect::<Vec<_>>()), 431);
    // Several requests at once are answered in their order; what follows a wrong one is not.
    let twice = format!("GET / HTTP/1.1\r\n{host}\r\n\r\n").repeat(2) + "nonsense\r\n\r\n";
    let answers = String::from_utf8(running.say(twice.as_bytes())).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 400").count(), 1, "{answers}");
    running.stop();
}

#[test]
fn bodies_have_a_limit() {
    let running = Running::start(COUNTING);
    let path = "/api/v1/handlers/way/q.capacity";
    assert_eq!(running.put(path, &vec![b'1'; (1 << 20) + 1]).status, 413);
    assert_eq!(running.put(path, &vec![b'1'; 1 << 20]).status, 400);
    // One that claims to be longer than it could ever be, and one in pieces without an end.
    let bearer = format!("Authorization: Bearer {TOKEN}\r\nHost: {}", running.host);
    let head = format!("PUT {path} HTTP/1.1\r\n{bearer}\r\n");
    let answer = running.say(format!("{head}Content-Length: 99999999999999\r\n\r\n").as_bytes());
    assert_eq!(status(&answer), 413);
    let mut stream = running.connect();
    stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let piece = [b"10000\r\n".to_vec(), vec![b'7'; 1 << 16], b"\r\n".to_vec()].concat();
    let written = (0..1 << 10).take_while(|_| stream.write_all(&piece).is_ok()).count();
    assert!(written < 1 << 10, "it takes 64 MiB");
    assert_eq!(running.get(path).text(), "50");
    running.stop();
}

/// The descriptors that a process has open, and its memory in KiB.
fn taken(process: u32) -> (usize, u64) {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (descriptors, line.trim().trim_end_matches(" kB").parse().unwrap())
}

#[test]
fn a_hundred_clients_are_served_and_no_more() {
    let running = Running::start(COUNTING);
    let host = format!("Host: {}", running.host);
    let greet = || -> TcpStream {
        let mut stream = running.connect();
        stream
            .write_all(
                format!("GET /api/v1/handlers/version HTTP/1.1\r\n{host}\r\n\r\n").as_bytes(),
            )
            .unwrap();
        let mut first = [0; 12];
        // A connection that was turned away is closed.
        let _ = stream.read_exact(&mut first);
        stream
    };
    assert_eq!(running.get("/").status, 200);
    let before = taken(running.program.id());
    for _ in 0..3 {
        let clients: Vec<TcpStream> = (0..150).map(|_| greet()).collect();
        let answer = running.say(&request("GET", "/", &[&host], b""));
        assert!(matches!(status(&answer), 0 | 503), "{}", String::from_utf8_lossy(&answer));
        drop(clients);
        // Their places are free as soon as their ends are noticed.
        while status(&running.say(&request("GET", "/", &[&host], b""))) != 200 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    // Most events go to a part of the clients.
    let mut followers: Vec<TcpStream> = Vec::new();
    loop {
        let mut stream = running.connect();
        stream.write_all(&request("GET", "/api/v1/events", &[&host], b"")).unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        if first == *b"HTTP/1.1 503" {
            break;
        }
        followers.push(stream);
    }
    assert_eq!(followers.len(), 32);
    assert_eq!(running.get("/").status, 200);
    drop(followers);
    loop {
        let now = taken(running.program.id());
        // The threads that ask the router have their stacks by now.
        if now.0 <= before.0 + 4 && now.1 < before.1 + (32 << 10) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    running.stop();
}

#[test]
fn answers_that_nobody_reads_take_limited_room() {
    let chains =
        |n| format!("Idle -> a_long_name_of_the_element_number_{n} :: Counter -> Discard;\n");
    let running = Running::start(&(0..500).map(chains).collect::<String>());
    let host = format!("Host: {}", running.host);
    assert_eq!(running.get("/api/v1/snapshot").status, 200);
    let before = taken(running.program.id());
    // Each asks for some megabytes and reads nothing.
    let many = request("GET", "/api/v1/snapshot", &[&host], b"");
    let many = String::from_utf8(many).unwrap().replace("Connection: close\r\n", "").repeat(10);
    let clients: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = running.connect();
            stream.write_all(many.as_bytes()).unwrap();
            stream
        })
        .collect();
    // Others are answered meanwhile, or after a while where a processor is slow.
    for _ in 0..20 {
        while running.get("/api/v1/handlers/version").status != 200 {}
    }
    let now = taken(running.program.id());
    assert!(now.1 < before.1 + (300 << 10), "{} KiB more", now.1 - before.1);
    drop(clients);
    running.stop();
}

#[test]
fn who_says_nothing_is_closed() {
    let running = Running::start(COUNTING);
    for start in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut stream = running.connect();
        stream.write_all(start.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // Until the server closes.
        let _ = stream.read_to_end(&mut answer);
        assert!(matches!(status(&answer), 0 | 408), "{start}");
    }
    // A body that does not come.
    let bearer = format!("Authorization: Bearer {TOKEN}\r\nHost: {}", running.host);
    let head = format!("PUT /api/v1/handlers/stop HTTP/1.1\r\n{bearer}\r\n");
    let answer = running.say(format!("{head}Content-Length: 10\r\n\r\n12345").as_bytes());
    assert_eq!(status(&answer), 503);
    running.stop();
}

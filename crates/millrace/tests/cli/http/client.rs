//! A router that serves HTTP, and a client that says exactly what it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use millrace_testkit::{Ended, Program};
use serde_json::Value;

use crate::millrace_command;

pub(super) const TOKEN: &str = "a-long-secret";

/// A router that runs, with a TCP port and a Unix socket for HTTP.
pub(super) struct Running {
    pub(super) program: Program,
    pub(super) folder: tempfile::TempDir,
    /// `127.0.0.1:PORT`.
    pub(super) host: String,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// What came on a connection that the server has closed.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_lowercase(), body: bytes[end + 4..].to_vec() }
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        assert!(self.head.contains("content-type: application/json"), "{}", self.head);
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Running {
    pub(super) fn start(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
        let mut command = millrace_command();
        command.args(["run", "--json", "--token-file"]).arg(token);
        command.arg("--http").arg(format!("unix:{}", folder.path().join("http").display()));
        let program = Program::start(command.args(["--http", "0", "-e", text])).unwrap();
        program.wait_for_line("http: unix:").unwrap();
        // The other one comes next.
        let line = loop {
            if let Some(line) = program.said().find(|line| line.starts_with("http: ")) {
                break line;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let host = line.trim_start_matches("http: http://").trim_end_matches('/').to_owned();
        Self { program, folder, host }
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).unwrap();
        // Far more than an answer takes: a server that hangs fails the test.
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// What the server answers to these bytes, until it closes.
    pub(super) fn say(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // It may have heard enough before the end.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// A request with these headers.
    pub(super) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        let own = format!("Host: {}", self.host);
        Answer::of(&self.say(&request(method, path, &[&[own.as_str()], headers].concat(), body)))
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    /// A write with the token.
    pub(super) fn put(&self, path: &str, body: &[u8]) -> Answer {
        self.ask("PUT", path, &[&format!("Authorization: Bearer {TOKEN}")], body)
    }

    /// A request over the Unix socket.
    pub(super) fn ask_owner(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let mut stream = UnixStream::connect(self.folder.path().join("http")).unwrap();
        stream.write_all(&request(method, path, &["Host: x"], body)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Answer::of(&answer)
    }

    /// The events that come, as JSON.
    pub(super) fn events(&self) -> impl Iterator<Item = Value> + use<> {
        let mut stream = self.connect();
        let own = format!("Host: {}", self.host);
        stream.write_all(&request("GET", "/api/v1/events", &[&own], b"")).unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
    }

    pub(super) fn stop(self) -> Ended {
        let ended = self.program.stop().unwrap();
        assert!(ended.status.success(), "{:?}", ended.stderr);
        assert!(!ended.stderr.iter().any(|line| line.contains("panicked")), "{:?}", ended.stderr);
        assert!(!self.folder.path().join("http").exists(), "the socket's file is gone");
        ended
    }
}

/// A request in bytes, the last one of its connection.
pub(super) fn request(method: &str, path: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    headers.iter().for_each(|header| text += &format!("{header}\r\n"));
    if !body.is_empty() {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    [text.as_bytes(), body].concat()
}

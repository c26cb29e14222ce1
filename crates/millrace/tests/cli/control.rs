//! Control sockets: a running router, read and written from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::{Done, millrace, millrace_command};

const COUNTING: &str = "s :: RatedSource(RATE 1000) -> c :: Counter -> q :: Queue(50) -> Idle";

/// A router that runs, and its control sockets: a Unix socket and a TCP port.
pub(crate) struct Running {
    child: Child,
    folder: tempfile::TempDir,
    port: String,
}

impl Running {
    pub(crate) fn start(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = millrace_command()
            .args(["run", "--json", "-p", "0", "-u"])
            .arg(folder.path().join("socket"))
            .args(["-e", text])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let prefix = "control socket: TCP 127.0.0.1:";
        let port = lines.find_map(|line| Some(line.unwrap().strip_prefix(prefix)?.to_owned()));
        let running = Self { child, folder, port: port.unwrap() };
        // The Unix socket comes second.
        assert!(lines.next().unwrap().unwrap().ends_with("/socket"));
        running
    }

    pub(crate) fn socket(&self) -> String {
        self.folder.path().join("socket").to_str().unwrap().to_owned()
    }

    pub(crate) fn read(&self, handler: &str) -> Done {
        millrace(&["read", handler, "--socket", &self.socket()])
    }

    pub(crate) fn write(&self, args: &[&str]) -> Done {
        millrace(&[&["write"], args, &["--port", &self.port]].concat())
    }

    /// Stops the router; returns what it said at the end.
    pub(crate) fn stop(self) -> Done {
        assert_eq!(self.write(&["stop"]).status, 0);
        let socket = self.socket();
        let done = Done::from(self.child.wait_with_output().unwrap());
        assert!(!std::path::Path::new(&socket).exists(), "the socket's file is gone");
        done
    }
}

#[test]
fn handlers_are_read_and_written() {
    let running = Running::start(COUNTING);
    assert_eq!(running.read("q.capacity").stdout, "50\n");
    assert_eq!(running.write(&["q.capacity", "70"]).status, 0);
    assert_eq!(running.read("q.capacity").stdout, "70\n");
    assert_eq!(running.read("c.class").stdout, "Counter\n");
    assert!(running.read("list").stdout.starts_with("4\ns\nc\n"));

    for (done, message) in [
        (running.read("x.count"), "millrace: No element named 'x'\n"),
        (running.read("c.nothing"), "millrace: No handler named 'c.nothing'\n"),
        (
            running.read("c.cuont"),
            "millrace: No handler named 'c.cuont'; did you mean 'c.count'?\n",
        ),
        (
            running.write(&["q.capcity", "7"]),
            "millrace: No handler named 'q.capcity'; did you mean 'q.capacity'?\n",
        ),
        (running.read("lst"), "millrace: No handler named 'lst'; did you mean 'list'?\n"),
        (running.read("c.reset"), "millrace: Handler 'c.reset' write-only\n"),
        (running.write(&["c.class", "X"]), "millrace: Handler 'c.class' read-only\n"),
    ] {
        assert_eq!((done.stderr.as_str(), done.status), (message, 1));
    }
    let refused = running.write(&["q.capacity", "many"]);
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.starts_with("millrace: "), "{}", refused.stderr);

    let done = running.stop();
    assert_eq!(done.status, 0);
    let summary: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(summary["totals"]["balanced"], true);
}

#[test]
fn the_snapshot_is_the_summary_of_the_moment() {
    let running = Running::start(COUNTING);
    assert!(running.read("handlers").stdout.contains("\nsnapshot\tr\n"));
    let read = running.read("snapshot");
    let snapshot: serde_json::Value = serde_json::from_str(&read.stdout).unwrap();
    assert_eq!(snapshot["version"], 1);
    assert_eq!(snapshot["phase"], "running");
    assert_eq!(snapshot["pid"], running.child.id());
    assert_eq!(snapshot["elements"][2]["queue"]["capacity"], 50);
    let done = running.stop();
    let summary: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    for (name, value) in snapshot.as_object().unwrap() {
        assert!(summary.get(name).is_some(), "{name}");
        if let Some(first) = value.get(0) {
            let names = |value: &serde_json::Value| -> Vec<String> {
                value.as_object().unwrap().keys().cloned().collect()
            };
            assert_eq!(names(first), names(&summary[name][0]), "{name}");
        }
    }
}

#[test]
fn many_clients_are_served_at_once_while_packets_flow() {
    let running = Running::start(COUNTING);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let running = &running;
            scope.spawn(move || {
                let stream = TcpStream::connect(format!("127.0.0.1:{}", running.port)).unwrap();
                let mut reader = BufReader::new(stream);
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                assert_eq!(line, "Click::ControlSocket/1.3\r\n");
                let mut before = 0;
                for _ in 0..50 {
                    reader.get_mut().write_all(b"READ c.count\r\nWRITE q.capacity 60\r\n").unwrap();
                    let count: u64 = value(&mut reader).parse().unwrap();
                    assert!(count >= before, "client {client}: {count} after {before}");
                    before = count;
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                    assert_eq!(line, "200 Write handler 'q.capacity' OK\r\n");
                }
                reader.get_mut().write_all(b"QUIT\r\n").unwrap();
                let mut rest = String::new();
                reader.read_to_string(&mut rest).unwrap();
                assert_eq!(rest, "200 Goodbye!\r\n");
            });
        }
    });
    assert_eq!(running.stop().status, 0);
}

/// The value in the answer to a read.
fn value(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "200 Read handler 'c.count' OK\r\n");
    line.clear();
    reader.read_line(&mut line).unwrap();
    let length: usize = line.trim().strip_prefix("DATA ").unwrap().parse().unwrap();
    let mut data = vec![0; length];
    reader.read_exact(&mut data).unwrap();
    String::from_utf8(data).unwrap()
}

#[test]
fn a_client_that_says_nothing_does_not_keep_the_router_from_stopping() {
    let running = Running::start(COUNTING);
    let silent = TcpStream::connect(format!("127.0.0.1:{}", running.port)).unwrap();
    assert_eq!(running.stop().status, 0);
    drop(silent);
}

#[test]
fn a_missing_server_is_reported_in_one_line() {
    let done = millrace(&["read", "x.y", "--socket", "/no/such/socket"]);
    assert_eq!(done.status, 1);
    assert_eq!(done.stderr, "millrace: /no/such/socket: No such file or directory\n");
    assert_eq!(millrace(&["read", "x.y"]).status, 2);
}

#[test]
fn a_socket_that_a_crash_left_behind_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let done = millrace(&[
        "run",
        "-u",
        path.to_str().unwrap(),
        "-e",
        "InfiniteSource(LIMIT 1, STOP true) -> Discard",
    ]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(!path.exists());
}

#[test]
fn a_client_that_does_not_read_keeps_nobody_waiting() {
    let running = Running::start(COUNTING);
    let mut deaf = TcpStream::connect(format!("127.0.0.1:{}", running.port)).unwrap();
    // Each answer is thousands of bytes, and none is read: the router keeps few of them.
    deaf.set_write_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let _ = deaf.write_all(&b"READ flatconfig\r\nREAD list\r\nREAD config\r\n".repeat(200_000));
    let resident = || {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert!(resident() < 400_000, "{} KB", resident());
    // It ends although the client is still there and has not read anything.
    assert_eq!(running.stop().status, 0);
    drop(deaf);
}

#[test]
fn only_sockets_are_replaced() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let run = |path: &std::path::Path| {
        let config = "InfiniteSource(LIMIT 1, STOP true) -> Discard";
        millrace(&["run", "-u", path.to_str().unwrap(), "-e", config])
    };
    let precious = folder.path().join("router.click");
    std::fs::write(&precious, "precious").unwrap();
    let link = folder.path().join("link");
    symlink(&precious, &link).unwrap();
    let dangling = folder.path().join("dangling");
    symlink(folder.path().join("nowhere"), &dangling).unwrap();
    for path in [&precious, &link, &dangling] {
        let done = run(path);
        assert_eq!(done.status, 1, "{}", done.stderr);
        assert!(done.stderr.contains("Address already in use"), "{}", done.stderr);
    }
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    assert!(link.is_symlink() && dangling.is_symlink());

    // The owner alone can open it; a file that has taken its place is left.
    let running = Running::start(COUNTING);
    let socket = std::path::PathBuf::from(running.socket());
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(socket.metadata().unwrap().uid(), rustix_uid());
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "mine").unwrap();
    assert_eq!(running.write(&["stop"]).status, 0);
    assert!(Done::from(running.child.wait_with_output().unwrap()).status == 0);
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
}

fn rustix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid()
}

#[test]
fn other_machines_need_a_token() {
    let run = |more: &[&str]| {
        let config = "InfiniteSource(LIMIT 1, STOP true) -> Discard";
        millrace(&[&["run", "-p", "0.0.0.0:0", "-e", config], more].concat())
    };
    let refused = run(&[]);
    assert_eq!(refused.status, 1);
    assert!(refused.stderr.contains("set a token"), "{}", refused.stderr);
    let file = crate::TempFile::new("token", "open sesame\n");
    assert_eq!(run(&["--token-file", &file.path()]).status, 0);
    let empty = crate::TempFile::new("token", "\n");
    assert!(run(&["--token-file", &empty.path()]).stderr.contains("is empty"));
}

/// Connections that ask for nothing do not keep others out.
#[test]
fn who_is_idle_for_longest_makes_room() {
    let running = Running::start(COUNTING);
    let connect = || {
        let stream = TcpStream::connect(format!("127.0.0.1:{}", running.port)).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        BufReader::new(stream)
    };
    let line = |client: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        client.read_line(&mut line).unwrap();
        line
    };
    let mut clients: Vec<_> = (0..128).map(|_| connect()).collect();
    for client in &mut clients {
        assert!(line(client).starts_with("Click::ControlSocket/1"));
    }
    // The second has been idle for longest once the first has asked for something.
    clients[0].get_mut().write_all(b"READ c.class\r\n").unwrap();
    assert!(line(&mut clients[0]).starts_with("200"));
    let mut more = connect();
    assert!(line(&mut more).starts_with("Click::ControlSocket/1"));
    assert_eq!(line(&mut clients[1]), "", "it is closed");
    assert!(line(&mut clients[0]).starts_with("DATA"));
    drop((clients, more));
    running.stop();
}

//! The program, running in a namespace.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_testkit::Namespace;
use serde_json::Value;

/// A router that runs. When this is dropped without [`stop`](Self::stop), it is killed.
pub(crate) struct Millrace {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Receiver<String>,
    namespace: Namespace,
    _folder: tempfile::TempDir,
}

/// For what takes a moment on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

impl Millrace {
    /// Runs an example, whose variables may follow it, until it has opened its devices.
    pub(crate) fn start(namespace: Namespace, example: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        let mut child = namespace
            .command(env!("CARGO_BIN_EXE_millrace"))
            .args(["run", "--json", "--unix-socket"])
            .arg(&socket)
            .args(example)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let stdout = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, stderr) = channel();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let stdout = Some(stdout);
        let running = Self { child, stdout, stderr, namespace, _folder: folder };
        running.wait_until_it_serves();
        running
    }

    /// Where it runs.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// It serves its control socket once all else is ready.
    fn wait_until_it_serves(&self) {
        let end = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        loop {
            match self.stderr.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("control socket: ") => return,
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("not ready: {}", said.join("\n")),
                Err(RecvTimeoutError::Disconnected) => panic!("not run: {}", said.join("\n")),
            }
        }
    }

    /// Stops it as the system does. It must end well, with every packet accounted for.
    pub(crate) fn stop(mut self) -> Summary {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let status = self.wait();
        let said: Vec<String> = self.stderr.try_iter().collect();
        assert!(status.success(), "{status}: {}", said.join("\n"));
        let text = self.stdout.take().unwrap().join().unwrap();
        let summary = Summary(serde_json::from_str(&text).unwrap());
        summary.assert_balanced();
        summary
    }

    /// Kills it, so that it cannot clean up.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Millrace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.stderr.try_iter().for_each(|line| eprintln!("millrace: {line}"));
        }
    }
}

/// What it counted.
pub(crate) struct Summary(Value);

impl Summary {
    /// Packets that came to an element.
    pub(crate) fn received(&self, element: &str) -> u64 {
        self.element(element, "received")
    }

    /// Packets that left an element by its outputs.
    pub(crate) fn sent(&self, element: &str) -> u64 {
        self.element(element, "sent")
    }

    fn element(&self, name: &str, field: &str) -> u64 {
        let elements = self.0["elements"].as_array().unwrap();
        let found = elements.iter().find(|element| element["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}"))[field].as_u64().unwrap()
    }

    fn assert_balanced(&self) {
        let accounted = |of: &Value| {
            let count = |field: &str| of[field].as_u64().unwrap();
            count("in") == count("out") + count("dropped") + count("held")
        };
        let elements = self.0["elements"].as_array().unwrap();
        assert!(!elements.is_empty());
        for element in elements {
            assert!(accounted(element) && element["balanced"] == true, "{element:#}");
        }
        let totals = &self.0["totals"];
        assert!(accounted(totals) && totals["balanced"] == true, "{totals:#}");
    }
}

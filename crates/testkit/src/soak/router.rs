//! The router: a life of it after the other, by the program `millrace run`, whose summary says whether every packet is
//! accounted for, or by `click -R`, whose configuration is replaced while it runs.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::network::Network;
use super::pressure::Group;
use super::traffic::PORT;
use crate::Program;

/// What is the same in all lives.
#[derive(Debug)]
pub(super) struct Setting {
    /// The program `millrace`; `click` is beside it.
    pub(super) program: PathBuf,
    pub(super) method: String,
    /// Where the control socket is, and the configuration.
    pub(super) folder: PathBuf,
    /// Where packets are dumped to.
    pub(super) disk: PathBuf,
    pub(super) group: Option<Group>,
    /// The library that steps the clock, and the file that says by how much.
    pub(super) clock: Option<(PathBuf, PathBuf)>,
    /// The time from one swap to the next.
    pub(super) every: Duration,
}

/// A router that runs.
#[derive(Debug)]
pub(super) struct Router {
    program: Program,
    pub(super) swaps: bool,
}

/// For a router to begin.
const PATIENCE: Duration = Duration::from_secs(30);

impl Setting {
    fn socket(&self) -> PathBuf {
        self.folder.join("control")
    }

    /// The configuration: that of `examples/nat.click`, with counters of the numbered datagrams, and a dump of them.
    /// Each is a little different from the one before.
    pub(super) fn configuration(&self, n: u64) -> Result<String, String> {
        let example = include_str!("../../../../examples/nat.click");
        let dump = self.disk.join("dump.pcap");
        let method = &self.method;
        let changes = [
            (
                "wire :: Queue -> ToDevice($device)",
                format!("wire :: Queue({}) -> ToDevice($device, METHOD {method})", 4000 + n % 2),
            ),
            ("PROMISC true", format!("PROMISC true, METHOD {method}")),
            (
                "out [1] -> rw;",
                format!(
                    "out [1] -> forth :: IPClassifier(udp dst port {PORT}, -);
                     forth [0] -> sent :: Counter -> copies :: Tee(2);
                     copies [0] -> rw;
                     copies [1] -> ToDump({}, SNAPLEN 40, ENCAP IP);
                     forth [1] -> other{n} :: Counter -> rw;",
                    dump.display()
                ),
            ),
            (
                "back [0] -> [1] rw [1] -> inside;",
                format!(
                    "back [0] -> [1] rw [1] -> home :: IPClassifier(udp src port {PORT}, -);
                     home [0] -> returned :: Counter -> inside;
                     home [1] -> inside;"
                ),
            ),
        ];
        let mut text = example.to_owned();
        for (from, to) in changes {
            if !text.contains(from) {
                return Err(format!("examples/nat.click has no ‘{from}’ any more"));
            }
            text = text.replace(from, &to);
        }
        Ok(text)
    }

    /// `millrace` beside the router, for one question. A router that does not answer is no reason to wait for ever.
    fn beside(&self, network: &Network) -> Command {
        let mut command = network.router.command("timeout");
        command.process_group(0);
        command.arg(PATIENCE.as_secs().to_string()).arg(&self.program);
        command
    }

    /// Starts it, and waits until it serves its control socket.
    pub(super) fn start(&self, network: &Network, swaps: bool) -> Result<Router, String> {
        let file = self.folder.join("nat.click");
        fs::write(&file, self.configuration(0)?).map_err(|error| error.to_string())?;
        let name = if swaps { "click" } else { "millrace" };
        let program = self.program.with_file_name(name);
        let mut command = network.router.command(&program.to_string_lossy());
        match swaps {
            true => command.args(["-R", "-f"]).arg(&file),
            false => command.args(["run", "--json"]).arg(&file),
        };
        command.arg("-u").arg(self.socket());
        if let Some(group) = &self.group {
            command = group.wrap(&command);
        }
        if let Some((library, offset)) = &self.clock {
            command.env("LD_PRELOAD", library).env("SOAK_CLOCK", offset);
        }
        // Ctrl-C is for this program.
        command.process_group(0);
        let program = Program::start(&mut command).map_err(|error| error.to_string())?;
        let mut router = Router { program, swaps };
        let end = Instant::now() + PATIENCE;
        while self.read(network, "version").is_err() {
            if !router.program.runs() || Instant::now() > end {
                let said: Vec<String> = router.program.said().collect();
                return Err(format!("the router does not start: {}", said.join("\n")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(router)
    }

    /// Reads a handler of the router that runs.
    pub(super) fn read(&self, network: &Network, handler: &str) -> Result<String, String> {
        let mut command = self.beside(network);
        command.args(["read", "-u"]).arg(self.socket()).arg(handler);
        let output = command.output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// Replaces the configuration of the router that runs.
    ///
    /// # Errors
    /// It is refused, or there is no answer: what was said.
    pub(super) fn swap(&self, network: &Network, n: u64) -> Result<(), String> {
        let mut command = self.beside(network);
        command.args(["hotswap", "--socket"]).arg(self.socket()).arg("-").stdin(Stdio::piped());
        let configuration = self.configuration(n)?;
        let ask = |command: &mut Command| {
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
            if let Some(mut input) = child.stdin.take() {
                input.write_all(configuration.as_bytes())?;
            }
            child.wait_with_output()
        };
        match ask(&mut command) {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Router {
    pub(super) fn id(&self) -> u32 {
        self.program.id()
    }

    pub(super) fn runs(&mut self) -> bool {
        self.program.runs()
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) -> io::Result<()> {
        self.program.signal(signal)
    }

    /// What it has said since the last call.
    pub(super) fn said(&self) -> Vec<String> {
        self.program.said().collect()
    }

    /// Kills it, so that it cannot clean up.
    pub(super) fn kill(mut self) -> io::Result<()> {
        self.program.kill()
    }

    /// Tells it to end. Returns what is wrong with its status and its summary. `excused` tells whether it may say that
    /// something could not be written.
    pub(super) fn stop(self, excused: bool) -> Vec<String> {
        let ended = match self.program.stop() {
            Ok(ended) => ended,
            Err(error) => return vec![format!("the router after SIGTERM: {error}")],
        };
        let mut problems = Vec::new();
        if !ended.status.success() && !excused {
            let said = ended.stderr.join("\n");
            problems.push(format!("the router ended with {}: {said}", ended.status));
        }
        if !self.swaps {
            match serde_json::from_str::<Value>(&ended.stdout) {
                Ok(summary) => problems.extend(unbalanced(&summary)),
                Err(error) => problems.push(format!("the summary cannot be read: {error}")),
            }
        }
        problems
    }
}

/// What a summary in JSON does not account for: elements that got other numbers of packets than they sent, dropped and
/// hold.
#[must_use]
pub fn unbalanced(summary: &Value) -> Vec<String> {
    let accounted = |of: &Value| {
        let count = |field: &str| of[field].as_u64();
        let out = [count("out"), count("dropped"), count("held")].into_iter().sum::<Option<u64>>();
        count("in").is_some() && count("in") == out && of["balanced"] == true
    };
    let elements = summary["elements"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut problems: Vec<String> = elements
        .iter()
        .filter(|element| !accounted(element))
        .map(|element| format!("unbalanced: {element}"))
        .collect();
    if elements.is_empty() {
        problems.push("the summary has no elements".to_owned());
    }
    if !accounted(&summary["totals"]) {
        problems.push(format!("unbalanced: {}", summary["totals"]));
    }
    problems
}

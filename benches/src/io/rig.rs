//! Three hosts in a row, of network namespaces: one sends as fast as it can, the one in the middle
//! forwards, and what arrives at the last one is counted.
//!
//! ```text
//! source:out ---- eth0:middle:eth1 ---- in:sink
//! ```

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use millrace_testkit::Namespace;
use serde_json::Value;

use super::meter::{Meter, Spent};
use crate::report::median;

/// The shortest frame, without its check sequence.
pub(super) const SHORTEST: usize = 60;

/// The hosts.
pub(super) struct Rig {
    source: Namespace,
    middle: Namespace,
    sink: Namespace,
    /// The core of the sender, and that of the forwarder.
    cores: [usize; 2],
}

/// The program that forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Forwarder {
    /// The bridge of the kernel.
    Bridge,
    /// Millrace with this configuration.
    Millrace(String),
    /// The same without its sandbox.
    Unconfined(String),
    /// The rings of AF_XDP without a graph.
    BareXdp,
}

/// Millrace from one interface to the other, with a method and a length of bursts.
pub(super) fn forwarder(method: &str, burst: usize) -> Forwarder {
    Forwarder::Millrace(format!(
        "FromDevice(eth0, PROMISC true, BURST {burst}, METHOD {method})
         -> ToDevice(eth1, BURST {burst}, METHOD {method})"
    ))
}

/// The results for a forwarder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Packets per second that arrived at the sink.
    pub(super) rate: f64,
    /// Packets per second that were sent.
    pub(super) offered: f64,
    /// Processor time per packet of the forwarder's process in nanoseconds; `None` for the kernel.
    pub(super) cost: Option<f64>,
    /// Instructions per packet of the process, and of the kernel for it, where the processor counts them.
    pub(super) instructions: Option<f64>,
    /// Cycles per packet, the same.
    pub(super) cycles: Option<f64>,
}

impl Rig {
    /// Makes the hosts. Needs root, `ip` and `sysctl`.
    pub(super) fn new(cores: [usize; 2]) -> Self {
        let [source, middle, sink] = ["source", "middle", "sink"].map(Namespace::new);
        middle.connect("eth0", &source, "out");
        middle.connect("eth1", &sink, "in");
        Self { source, middle, sink, cores }
    }

    /// Measures a forwarder with frames of `length` bytes, for the time of `window`.
    ///
    /// # Errors
    /// A program does not start, or nothing arrives.
    pub(super) fn measure(
        &self,
        forwarder: &Forwarder,
        length: usize,
        window: Duration,
    ) -> anyhow::Result<Sample> {
        const WARM_UP: Duration = Duration::from_millis(200);
        let bridged = (*forwarder == Forwarder::Bridge).then(|| Bridge::new(&self.middle));
        let running = self.start(forwarder)?;
        let _sender = self.send(length)?;
        std::thread::sleep(WARM_UP);
        let meter = running.as_ref().map(|running| Meter::of(running.child.id()));
        let mut meter = meter.transpose()?;
        let before = self.look(meter.as_mut())?;
        std::thread::sleep(window);
        let after = self.look(meter.as_mut())?;
        drop(bridged);

        let seconds = (after.time - before.time).as_secs_f64();
        let arrived = (after.arrived - before.arrived) as f64;
        ensure!(arrived > 0.0, "nothing arrives: {forwarder:?}");
        let bytes = (after.bytes - before.bytes) as f64 / arrived;
        ensure!((bytes - length as f64).abs() < 1.0, "frames arrive with {bytes:.1} bytes");
        let spent = after.spent.zip(before.spent);
        let counted = |of: fn(&Spent) -> Option<u64>| {
            let (after, before) = spent?;
            Some(of(&after)?.wrapping_sub(of(&before)?) as f64 / arrived)
        };
        Ok(Sample {
            rate: arrived / seconds,
            offered: (after.sent - before.sent) as f64 / seconds,
            cost: spent
                .map(|(after, before)| (after.time - before.time).as_nanos() as f64 / arrived),
            instructions: counted(|spent| spent.instructions),
            cycles: counted(|spent| spent.cycles),
        })
    }

    /// The round trip of an echo from the sink in microseconds, through a forwarder of both directions: the median of
    /// several, each after an idle time.
    ///
    /// # Errors
    /// A program does not start, or there are no echoes.
    pub(super) fn round_trip(&self, forwarder: &Forwarder) -> anyhow::Result<f64> {
        const WARM_UP: Duration = Duration::from_millis(300);
        let hosts = [(&self.source, "out", "10.99.0.1/24"), (&self.sink, "in", "10.99.0.2/24")];
        for (host, interface, address) in hosts {
            host.ip(&format!("address replace {address} dev {interface}"));
        }
        let bridged = (*forwarder == Forwarder::Bridge).then(|| Bridge::new(&self.middle));
        let running = self.start(forwarder)?;
        std::thread::sleep(WARM_UP);
        let output = self.source.run("ping -n -c 21 -i 0.05 -w 5 10.99.0.2");
        drop((running, bridged));
        let said = String::from_utf8_lossy(&output.stdout);
        let times =
            said.lines().filter_map(|line| line.split_once(" time=")?.1.strip_suffix(" ms"));
        let times: Result<Vec<f64>, _> = times.map(str::parse).collect();
        // The first one resolves the address.
        let times = times?.into_iter().skip(1).map(|milliseconds| milliseconds * 1e3);
        median(times.collect()).with_context(|| format!("no echoes: {forwarder:?}: {said}"))
    }

    fn start(&self, forwarder: &Forwarder) -> anyhow::Result<Option<Running>> {
        let core = self.cores[1].to_string();
        let mut command = match forwarder {
            Forwarder::Bridge => return Ok(None),
            Forwarder::Millrace(text) | Forwarder::Unconfined(text) => {
                let mut command = self.middle.command(&millrace()?);
                command.args(["run", "--no-table", "--json"]);
                if matches!(forwarder, Forwarder::Unconfined(_)) {
                    command.arg("--no-sandbox");
                }
                // The control socket is announced when everything is ready.
                command.args([&format!("--affinity={core}"), "--port", "0", "-e", text]);
                command
            }
            Forwarder::BareXdp => {
                let mut command = self.middle.command("taskset");
                command.args(["-c", &core]).arg(xdp_loop()?).args(["eth0", "eth1"]);
                return Running::start(&mut command, Ready::Soon).map(Some);
            }
        };
        Running::start(&mut command, Ready::Said).map(Some)
    }

    /// Sends frames to the forwarder until it is dropped.
    fn send(&self, length: usize) -> anyhow::Result<Running> {
        let mut command = self.source.command("taskset");
        command.args(["-c", &self.cores[0].to_string()]).arg(xdp_loop()?);
        command.args(["--source", "out", &length.to_string()]);
        Running::start(&mut command, Ready::Soon)
    }

    fn look(&self, meter: Option<&mut Meter>) -> anyhow::Result<Look> {
        let sink = counters(&self.sink, "in")?;
        let source = counters(&self.source, "out")?;
        Ok(Look {
            time: Instant::now(),
            arrived: count(&sink, "rx", "packets")?,
            bytes: count(&sink, "rx", "bytes")?,
            sent: count(&source, "tx", "packets")?,
            spent: meter.map(Meter::read).transpose()?,
        })
    }
}

/// What is read at one moment.
struct Look {
    time: Instant,
    arrived: u64,
    bytes: u64,
    sent: u64,
    spent: Option<Spent>,
}

fn counters(namespace: &Namespace, interface: &str) -> anyhow::Result<Value> {
    let output = namespace.ip(&format!("-s -j link show dev {interface}"));
    let value: Value = serde_json::from_slice(&output.stdout).context("counters of a link")?;
    Ok(value[0]["stats64"].clone())
}

fn count(counters: &Value, direction: &str, what: &str) -> anyhow::Result<u64> {
    counters[direction][what].as_u64().context("counters of a link")
}

/// The program.
pub(crate) fn millrace() -> anyhow::Result<String> {
    beside("millrace")
}

/// The program with the rings of AF_XDP and without a graph: an example of the crate that has the rings.
fn xdp_loop() -> anyhow::Result<String> {
    beside("examples/xdp_loop")
}

/// A program in the directory of this one.
fn beside(name: &str) -> anyhow::Result<String> {
    let program = std::env::current_exe()?.with_file_name(name);
    ensure!(program.exists(), "{} is not built", program.display());
    Ok(program.to_string_lossy().into_owned())
}

/// A bridge over both of the forwarder's interfaces, as long as this lives.
struct Bridge<'a>(&'a Namespace);

impl<'a> Bridge<'a> {
    fn new(middle: &'a Namespace) -> Self {
        middle.ip("link add name bridge type bridge");
        middle.ip("link set dev bridge up");
        for port in ["eth0", "eth1"] {
            middle.ip(&format!("link set dev {port} master bridge"));
        }
        Self(middle)
    }
}

impl Drop for Bridge<'_> {
    fn drop(&mut self) {
        self.0.ip("link delete dev bridge");
    }
}

/// How a program reports that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    /// It prints `control socket: ...` on standard error, as Millrace does.
    Said,
    /// It does not report it, but is ready soon.
    Soon,
}

/// A program that runs until this is dropped.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    fn start(command: &mut Command, ready: Ready) -> anyhow::Result<Self> {
        const SOON: Duration = Duration::from_millis(100);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        let Some(stderr) = child.stderr.take() else { bail!("no standard error") };
        let mut running = Self { child, stderr: BufReader::new(stderr) };
        if ready == Ready::Said {
            running.wait_for_word().with_context(|| format!("{command:?}"))?;
        } else {
            std::thread::sleep(SOON);
        }
        Ok(running)
    }

    fn wait_for_word(&mut self) -> anyhow::Result<()> {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            if self.stderr.read_line(&mut line)? == 0 {
                bail!("{said}");
            }
            if line.starts_with("control socket:") {
                return Ok(());
            }
            said.push_str(&line);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let process = rustix::process::Pid::from_child(&self.child);
        // It may have ended by itself.
        let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

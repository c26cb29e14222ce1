//! Three hosts in a row, of network namespaces: one sends as fast as it can, the one in the middle
//! forwards, and what arrives at the last one is counted.
//!
//! ```text
//! source:out ---- eth0:middle:eth1 ---- in:sink
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use millrace_testkit::Namespace;
use serde_json::Value;

use crate::report::median;

/// The hosts.
pub(super) struct Rig {
    source: Namespace,
    middle: Namespace,
    sink: Namespace,
    /// The core of the sender, and that of the forwarder.
    cores: [usize; 2],
}

/// Who forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Forwarder {
    /// The bridge of the kernel.
    Bridge,
    /// Millrace with this configuration.
    Millrace(String),
    /// The rings of AF_XDP without a graph.
    BareXdp,
}

/// What was measured of a forwarder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Packets that arrived at the sink, in a second.
    pub(super) rate: f64,
    /// Packets that were sent, in a second.
    pub(super) offered: f64,
    /// Nanoseconds of processor time a packet in the forwarder's process; none of the kernel's.
    pub(super) cost: Option<f64>,
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
        let before = self.look(running.as_ref())?;
        std::thread::sleep(window);
        let after = self.look(running.as_ref())?;
        drop(bridged);

        let seconds = (after.time - before.time).as_secs_f64();
        let arrived = (after.arrived - before.arrived) as f64;
        ensure!(arrived > 0.0, "nothing arrives: {forwarder:?}");
        let bytes = (after.bytes - before.bytes) as f64 / arrived;
        ensure!((bytes - length as f64).abs() < 1.0, "frames arrive with {bytes:.1} bytes");
        let cost = |spent: Duration| spent.as_nanos() as f64 / arrived;
        Ok(Sample {
            rate: arrived / seconds,
            offered: (after.sent - before.sent) as f64 / seconds,
            cost: after.spent.zip(before.spent).map(|(after, before)| cost(after - before)),
        })
    }

    /// Microseconds that an echo of the sink takes, through a forwarder of both directions: the median of some, each
    /// of which comes when there was nothing for a while.
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
        // The first one asks for the address.
        let times = times?.into_iter().skip(1).map(|milliseconds| milliseconds * 1e3);
        median(times.collect()).with_context(|| format!("no echoes: {forwarder:?}: {said}"))
    }

    fn start(&self, forwarder: &Forwarder) -> anyhow::Result<Option<Running>> {
        let core = self.cores[1].to_string();
        let mut command = match forwarder {
            Forwarder::Bridge => return Ok(None),
            Forwarder::Millrace(text) => {
                let mut command = self.middle.command(&millrace()?);
                command.args(["run", "--no-table", "--json"]);
                // The control socket is announced when all is ready.
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

    fn look(&self, running: Option<&Running>) -> anyhow::Result<Look> {
        let sink = counters(&self.sink, "in")?;
        let source = counters(&self.source, "out")?;
        Ok(Look {
            time: Instant::now(),
            arrived: count(&sink, "rx", "packets")?,
            bytes: count(&sink, "rx", "bytes")?,
            sent: count(&source, "tx", "packets")?,
            spent: running.map(Running::processor_time).transpose()?,
        })
    }
}

/// What is read at one moment.
struct Look {
    time: Instant,
    arrived: u64,
    bytes: u64,
    sent: u64,
    spent: Option<Duration>,
}

fn counters(namespace: &Namespace, interface: &str) -> anyhow::Result<Value> {
    let output = namespace.ip(&format!("-s -j link show dev {interface}"));
    let value: Value = serde_json::from_slice(&output.stdout).context("counters of a link")?;
    Ok(value[0]["stats64"].clone())
}

fn count(counters: &Value, direction: &str, what: &str) -> anyhow::Result<u64> {
    counters[direction][what].as_u64().context("counters of a link")
}

fn millrace() -> anyhow::Result<String> {
    beside("millrace")
}

/// The rings of AF_XDP without a graph: an example of the crate that has the rings.
fn xdp_loop() -> anyhow::Result<String> {
    beside("examples/xdp_loop")
}

/// A program that stands beside this one.
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

/// How a program tells that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    /// It says `control socket: ...` on its standard error, as Millrace does.
    Said,
    /// Not at all, but it soon is.
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

    /// What it and its threads have used of the processor.
    fn processor_time(&self) -> anyhow::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // Behind the name, which may contain anything: state and ten numbers, then user and system.
        let numbers = stat.rsplit_once(')').map(|(_, numbers)| numbers).unwrap_or_default();
        let ticks = numbers.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks = ticks.sum::<Result<u64, _>>()?;
        let hertz = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_secs_f64(ticks as f64 / hertz as f64))
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

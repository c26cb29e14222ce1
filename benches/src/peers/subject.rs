//! The compared programs: how each is started, its input, and the expected results.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use millrace_elements::ip::lookup::Route;

use super::capture;
use super::program::{Launch, PATIENCE, Ports, Program, Sample, wait};
use super::reference::{self, Addresses, Table, Treatment};
use super::testpmd::{self, Mode};
use crate::nat;
use crate::rules::drawn::Drawn;
use crate::rules::set;
use crate::traffic::{self, FRAME_LEN};
use crate::traffic6::{self, Route6};

/// A program and its work, with a length of bursts or its own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// `millrace run` with a configuration.
    Ours(Configuration, Input, Option<u16>),
    /// DPDK's example, which only routes. Its bursts are of 32.
    L3fwd(Input),
    /// DPDK's forwarder in a mode.
    Testpmd(Mode, Option<u16>),
}

/// The configurations of `benches/configs/dpdk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Configuration {
    Forward,
    CrossConnect,
    MinimalRouter,
    FullRouter,
    Mixed,
    Nat,
    Filter,
    PlainMinimal,
    PlainFull,
    PlainMinimalInstrumented,
    PlainFullInstrumented,
    PlainFilter,
}

/// Routes and packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    /// Which table.
    pub(crate) size: Size,
    /// The packets of the trace, each to a random destination.
    pub(crate) destinations: Destinations,
}

/// The number of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// 130,000 of the Internet's.
    Some,
    /// The same, distributed over all four outputs of a table.
    Spread,
    /// All 512,621.
    All,
}

/// The number of packets in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destinations {
    /// 1,024.
    Few,
    /// 16,384, with more mbufs and longer rings.
    Many,
    /// 1,023, of which a third is IPv6 and a third is neither IPv4 nor IPv6.
    Mixed,
    /// One per flow, at least 1,024: datagrams from inside of a translator.
    Flows(u32),
    /// 1,024 for this number of rules.
    Rules(Shapes, u32),
    /// 1,024 for rules of any shape.
    Drawn(Drawn),
}

/// The shapes of a filter's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shapes {
    /// Networks of source and destination, protocol and port.
    Few,
    /// ClassBench's kind of this number.
    Kind(usize),
}

impl Shapes {
    fn rules(self, count: usize) -> Vec<set::Rule> {
        match self {
            Self::Few => set::rules_of_few_shapes(count),
            Self::Kind(kind) => {
                set::KINDS.get(kind).map(|kind| set::rules(kind, count)).unwrap_or_default()
            }
        }
    }
}

impl Destinations {
    /// The traces that depend on the routes.
    const ROUTED: [Self; 3] = [Self::Few, Self::Many, Self::Mixed];

    fn count(self) -> usize {
        match self {
            Self::Few | Self::Mixed | Self::Rules(..) | Self::Drawn(_) => 1024,
            Self::Many => 16_384,
            Self::Flows(flows) => (flows as usize).max(1024),
        }
    }

    /// Its name in that of a file.
    fn name(self) -> String {
        match self {
            Self::Flows(flows) => format!("{flows}-flows"),
            Self::Rules(Shapes::Few, rules) => format!("{rules}-rules"),
            Self::Rules(Shapes::Kind(kind), rules) => format!("{rules}-rules-{kind}"),
            Self::Drawn(drawn) => drawn.name(),
            routed => format!("{routed:?}").to_lowercase(),
        }
    }

    /// The number of entries of a ring: l3fwd's default, or as many as the trace has packets, if a ring can be that
    /// long.
    fn ring(self) -> usize {
        const LONGEST: usize = 32_768;
        self.count().min(LONGEST)
    }
}

/// The ports of a router: packets arrive on the first and leave by the others.
const PORTS: usize = 4;

/// The number of mbufs that l3fwd allocates (`NB_MBUF` in its main.c): two rings per port, the packets that it
/// collects for each port, and a cache.
fn mbufs(destinations: Destinations) -> usize {
    const BURST: usize = 32;
    const CACHE: usize = 256;
    // The transmit rings stay as they are.
    let rings = destinations.ring() + Destinations::Few.ring();
    // The driver keeps the trace's packets.
    let kept = destinations.count() - destinations.ring();
    PORTS * (rings + BURST) + CACHE + kept
}

/// The input of the programs: the programs themselves, routes, traces.
pub(crate) struct Bench {
    pub(crate) millrace: PathBuf,
    pub(crate) l3fwd: PathBuf,
    pub(crate) testpmd: PathBuf,
    /// The folder for files of programs.
    pub(crate) folder: PathBuf,
    /// The first core, for what does not forward, and the one that forwards.
    pub(crate) cores: [usize; 2],
    some: Routes,
    spread: Routes,
    all: Routes,
    /// Traces that do not depend on routes.
    others: Vec<(Destinations, Trace)>,
}

/// A table of routes, and packets for it.
struct Routes {
    routes: Vec<Route>,
    routes6: Vec<Route6>,
    table: Table,
    /// Files for l3fwd.
    rules: [PathBuf; 2],
    /// For each of [`Destinations::ROUTED`].
    traces: [Trace; 3],
}

struct Trace {
    frames: Vec<[u8; FRAME_LEN]>,
    /// The port by which each frame leaves, if rules decide it.
    ports: Option<Vec<usize>>,
    file: PathBuf,
}

impl Bench {
    /// Makes the tables and traces from a folder with files of routes.
    ///
    /// # Errors
    /// The routes cannot be read, or a file cannot be written.
    pub(crate) fn new(
        [millrace, l3fwd, testpmd]: [PathBuf; 3],
        routes: &Path,
        folder: PathBuf,
        cores: [usize; 2],
    ) -> anyhow::Result<Self> {
        let [v4, v6] = ["ipasn_20140513.dat", "ipasn6_20151101.dat"].map(|name| routes.join(name));
        let routes6 = traffic6::real_routes(&v6)?;
        let some = traffic::real_routes(&v4, 130_000)?;
        let spread = traffic::spread(&some, PORTS);
        let spread = Routes::new(&folder, "spread", spread, routes6.clone())?;
        let some = Routes::new(&folder, "some", some, routes6.clone())?;
        let all = traffic::real_routes(&v4, usize::MAX)?;
        let all = Routes::new(&folder, "all", all, routes6)?;
        let others = Vec::new();
        Ok(Self { millrace, l3fwd, testpmd, folder, cores, some, spread, all, others })
    }

    /// Makes the trace of a workload whose packets do not depend on routes, and its rules.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn prepare(&mut self, destinations: Destinations) -> anyhow::Result<()> {
        let mut ports = None;
        let frames = match destinations {
            _ if self.others.iter().any(|(other, _)| *other == destinations) => return Ok(()),
            Destinations::Flows(flows) => nat::frames(flows, destinations.count())?,
            Destinations::Rules(shapes, count) => {
                let rules = shapes.rules(count as usize);
                let mut text = String::new();
                for rule in &rules {
                    // Writing to a String cannot fail.
                    let _ =
                        writeln!(text, "{} {}", u8::from(!set::allows(rule)), rule.expression());
                }
                std::fs::write(self.rules_file(destinations), text)?;
                let headers = set::headers(&rules, destinations.count());
                headers.iter().map(set::frame).collect()
            }
            Destinations::Drawn(drawn) => {
                std::fs::write(self.rules_file(destinations), drawn.text())?;
                let (frames, outputs) = drawn.frames(destinations.count())?.into_iter().unzip();
                ports = Some(outputs);
                frames
            }
            Destinations::Few | Destinations::Many | Destinations::Mixed => return Ok(()),
        };
        let file = self.folder.join(format!("{}.pcap", destinations.name()));
        capture::write(&file, &frames)?;
        self.others.push((destinations, Trace { frames, ports, file }));
        Ok(())
    }

    /// The file with the rules of a filter.
    fn rules_file(&self, destinations: Destinations) -> PathBuf {
        self.folder.join(format!("{}.txt", destinations.name()))
    }

    fn trace(&self, Input { size, destinations }: Input) -> anyhow::Result<&Trace> {
        let routed = self.routes(size).trace(destinations);
        let other = || self.others.iter().find(|(other, _)| *other == destinations);
        routed.or_else(|| Some(&other()?.1)).context("a trace that nobody has made")
    }

    fn routes(&self, size: Size) -> &Routes {
        match size {
            Size::Some => &self.some,
            Size::Spread => &self.spread,
            Size::All => &self.all,
        }
    }

    /// The number of routes of a table.
    pub(crate) fn count(&self, size: Size) -> usize {
        self.routes(size).routes.len()
    }
}

impl Routes {
    fn new(
        folder: &Path,
        name: &str,
        routes: Vec<Route>,
        routes6: Vec<Route6>,
    ) -> anyhow::Result<Self> {
        let rules = ["v4", "v6"].map(|end| folder.join(format!("{name}.{end}")));
        let [v4, v6] = &rules;
        std::fs::write(v4, self::rules(&routes))?;
        // l3fwd also needs an IPv6 route, here from the range for benchmarks (RFC 5180).
        std::fs::write(v6, "R2001:2::/48 1\n")?;
        let trace = |destinations: Destinations| {
            let frames = match destinations {
                Destinations::Mixed => {
                    let ipv4 = traffic::trace_of(&routes, destinations.count() / 3)?;
                    traffic6::mixed(ipv4, &routes6)?
                }
                _ => traffic::trace_of(&routes, destinations.count())?,
            };
            let file = folder.join(format!("{name}-{}.pcap", destinations.name()));
            capture::write(&file, &frames)?;
            anyhow::Ok(Trace { frames, ports: None, file })
        };
        let [few, many, mixed] = Destinations::ROUTED.map(trace);
        let (table, traces) = (Table::new(&routes, &routes6), [few?, many?, mixed?]);
        Ok(Self { routes, routes6, table, rules, traces })
    }

    fn trace(&self, destinations: Destinations) -> Option<&Trace> {
        let [few, many, mixed] = &self.traces;
        match destinations {
            Destinations::Few => Some(few),
            Destinations::Many => Some(many),
            Destinations::Mixed => Some(mixed),
            Destinations::Flows(_) | Destinations::Rules(..) | Destinations::Drawn(_) => None,
        }
    }
}

/// Routes as l3fwd reads them.
fn rules(routes: &[Route]) -> String {
    let mut text = String::with_capacity(routes.len() * 24);
    for Route { prefix, hop } in routes {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "R{prefix} {}", hop.port);
    }
    text
}

impl Subject {
    /// Its name in messages and files.
    pub(crate) fn name(self) -> String {
        let input = |Input { size, destinations }: Input| {
            format!("{size:?}-{}", destinations.name()).to_lowercase()
        };
        match self {
            Self::Ours(configuration, with, burst) => {
                format!("millrace-{}-{}-{}", configuration.name(), input(with), length(burst))
            }
            Self::L3fwd(with) => format!("l3fwd-{}", input(with)),
            Self::Testpmd(mode, burst) => format!("testpmd-{}-{}", mode.name(), length(burst)),
        }
    }

    /// The program's name.
    pub(crate) fn program(self) -> String {
        match self {
            Self::Ours(configuration, ..) => format!("our {}", configuration.name()),
            Self::L3fwd(_) => "l3fwd".to_owned(),
            Self::Testpmd(mode, _) => format!("testpmd {}", mode.name()),
        }
    }

    /// What it is given.
    pub(crate) fn input(self) -> Input {
        match self {
            Self::Ours(_, input, _) | Self::L3fwd(input) => input,
            Self::Testpmd(..) => Input { size: Size::Some, destinations: Destinations::Few },
        }
    }

    fn treatment(self) -> Treatment {
        match self {
            Self::Ours(Configuration::Forward, ..) | Self::Testpmd(Mode::Io, _) => {
                Treatment::Nothing
            }
            Self::Ours(Configuration::CrossConnect, ..) | Self::Testpmd(Mode::MacSwap, _) => {
                Treatment::Swap
            }
            Self::Ours(Configuration::MinimalRouter, ..) => Treatment::Route(Addresses::OfPort),
            Self::Ours(Configuration::FullRouter, ..) => Treatment::Route(Addresses::OfGateway),
            Self::Ours(Configuration::Mixed, ..) => Treatment::Mixed,
            Self::Ours(Configuration::Nat, ..) => Treatment::Translate,
            Self::Ours(Configuration::Filter, ..) => Treatment::Pass,
            Self::Ours(Configuration::PlainFilter, ..) => Treatment::Judge,
            Self::Ours(
                Configuration::PlainMinimal
                | Configuration::PlainFull
                | Configuration::PlainMinimalInstrumented
                | Configuration::PlainFullInstrumented,
                ..,
            ) => Treatment::Route(Addresses::OfBranch),
            Self::L3fwd(_) => Treatment::Route(Addresses::OfL3fwd),
        }
    }

    /// The maximum time for its start.
    fn patience(self) -> Duration {
        match self {
            // It fills a table in quadratic time.
            Self::L3fwd(Input { size: Size::All, .. }) => Duration::from_secs(600),
            _ => PATIENCE,
        }
    }

    fn ports(self) -> usize {
        match self.treatment() {
            Treatment::Route(Addresses::OfBranch) | Treatment::Nothing | Treatment::Swap => 1,
            Treatment::Route(_) | Treatment::Mixed => PORTS,
            Treatment::Translate | Treatment::Pass | Treatment::Judge => 2,
        }
    }

    /// Lets it process the trace once, and compares every frame with the reference.
    ///
    /// # Errors
    /// It does not run, or a frame is wrong.
    pub(crate) fn gate(self, bench: &Bench) -> anyhow::Result<()> {
        let name = format!("{}-gate", self.name());
        let folder = bench.folder.join(&name);
        std::fs::create_dir_all(&folder)?;
        let trace = bench.trace(self.input())?;
        let expected = self.expected(bench)?;
        let mut program = self.launch(bench, &name, Ports::Once(&trace.file, &folder))?;
        program.wait_until_at_work(self.patience())?;
        program.wait_for_packets(trace.frames.len())?;
        drop(program);
        reference::check(self.treatment(), &expected, &folder).context(self.name())?;
        std::fs::remove_dir_all(&folder)?;
        Ok(())
    }

    /// Starts it and lets it work, then pauses it.
    ///
    /// # Errors
    /// It does not run.
    pub(crate) fn start(self, bench: &Bench) -> anyhow::Result<Program> {
        let trace = bench.trace(self.input())?;
        let mut program = self.launch(bench, &self.name(), Ports::Endless(&trace.file))?;
        program.wait_until_at_work(self.patience())?;
        program.pause()?;
        Ok(program)
    }

    /// Packets per second of processor time.
    ///
    /// # Errors
    /// The program has ended, did nothing, lost packets or sent them to a wrong port.
    pub(crate) fn rate(
        self,
        bench: &Bench,
        program: &mut Program,
        window: Duration,
    ) -> anyhow::Result<f64> {
        /// The maximum fraction of a window's packets that may be inside the program, or pass between two queries.
        const SLACK: f64 = 0.03;

        let done = program.measure(window)?;
        let (packets, name) = (done.packets() as f64, self.name());
        ensure!(packets > 0.0 && done.seconds > 0.0, "{name} did nothing");
        ensure!(
            packets > done.received as f64 * (1.0 - SLACK),
            "{name} received {} packets and transmitted {packets}",
            done.received
        );
        self.check_ports(bench, &done, SLACK).context(name)?;
        Ok(packets / done.seconds)
    }

    /// Checks that each port sent its part of the packets.
    fn check_ports(self, bench: &Bench, done: &Sample, slack: f64) -> anyhow::Result<()> {
        let expected = self.expected(bench)?;
        let frames: usize = expected.iter().map(Vec::len).sum();
        for (port, (sent, expected)) in done.transmitted.iter().zip(&expected).enumerate() {
            let part = *sent as f64 / done.packets() as f64;
            let due = expected.len() as f64 / frames as f64;
            ensure!(
                (part - due).abs() < slack,
                "port {port} transmits {part:.3} of the packets, not {due:.3}"
            );
        }
        Ok(())
    }

    fn expected(self, bench: &Bench) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
        let routes = bench.routes(self.input().size);
        let trace = bench.trace(self.input())?;
        if let Some(ports) = &trace.ports {
            return reference::judged(&trace.frames, ports, self.ports());
        }
        reference::expected(self.treatment(), &routes.table, &trace.frames, self.ports())
    }

    fn launch(self, bench: &Bench, name: &str, ports: Ports<'_>) -> anyhow::Result<Program> {
        let [first, core] = bench.cores;
        let control = bench.folder.join(format!("{name}.control"));
        let (program, before, behind) = match self {
            Self::Ours(configuration, Input { destinations, .. }, burst) => {
                let before = format!(
                    "run --json --affinity={core} --unix-socket={} --dpdk",
                    control.display()
                );
                let (mbufs, ring) = (mbufs(destinations), destinations.ring());
                let mut behind = vec!["--".to_owned(), "-e".to_owned()];
                behind.push(match burst {
                    Some(_) => configuration.text().to_owned(),
                    None => configuration.text().replace(", BURST $burst", ""),
                });
                behind.extend([format!("mbufs={mbufs}"), format!("ring={ring}")]);
                behind.extend(burst.map(|burst| format!("burst={burst}")));
                if matches!(configuration, Configuration::Filter | Configuration::PlainFilter) {
                    behind.push(format!("rules={}", bench.rules_file(destinations).display()));
                }
                (&bench.millrace, words(&before), behind)
            }
            Self::L3fwd(Input { size, destinations }) => {
                let [v4, v6] = &bench.routes(size).rules;
                let behind = format!(
                    "-- -p 0xf -P --parse-ptype --lookup=lpm --rule_ipv4={} --rule_ipv6={} \
                     --config=(0,0,0) --rx-queue-size={}",
                    v4.display(),
                    v6.display(),
                    destinations.ring()
                );
                (&bench.l3fwd, words(&format!("--lcores=0@{core}")), words(&behind))
            }
            Self::Testpmd(mode, burst) => {
                let [before, behind] =
                    testpmd::words([first, core], mode, mbufs(Destinations::Few), burst);
                (&bench.testpmd, before, behind)
            }
        };
        let launch = Launch {
            name,
            program,
            before: &before,
            behind: &behind,
            ports: self.ports(),
            threads: matches!(self, Self::Testpmd(..)).then_some(testpmd::WORKER),
        };
        let program = Program::start(&launch, ports, &bench.folder)?;
        if let Self::Ours(configuration, Input { size, .. }, _) = self {
            configure(configuration, bench.routes(size), &control).context(self.name())?;
        }
        Ok(program)
    }
}

/// A length of bursts as text.
pub(crate) fn length(burst: Option<u16>) -> String {
    burst.map_or_else(|| "own".to_owned(), |burst| burst.to_string())
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

impl Configuration {
    /// Its name in reports, which is that of its file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::CrossConnect => "cross-connect",
            Self::MinimalRouter => "minimal-router",
            Self::FullRouter => "full-router",
            Self::Mixed => "mixed",
            Self::Nat => "nat",
            Self::Filter => "filter",
            Self::PlainMinimal => "plain-minimal",
            Self::PlainFull => "plain-full",
            Self::PlainMinimalInstrumented => "plain-minimal-instrumented",
            Self::PlainFullInstrumented => "plain-full-instrumented",
            Self::PlainFilter => "plain-filter",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Forward => include_str!("../../configs/dpdk/forward.click"),
            Self::CrossConnect => include_str!("../../configs/dpdk/cross-connect.click"),
            Self::MinimalRouter => include_str!("../../configs/dpdk/minimal-router.click"),
            Self::FullRouter => include_str!("../../configs/dpdk/full-router.click"),
            Self::Mixed => include_str!("../../configs/dpdk/mixed.click"),
            Self::Nat => include_str!("../../configs/dpdk/nat.click"),
            Self::Filter => include_str!("../../configs/dpdk/filter.click"),
            Self::PlainMinimal => include_str!("../../configs/dpdk/plain-minimal.click"),
            Self::PlainFull => include_str!("../../configs/dpdk/plain-full.click"),
            Self::PlainMinimalInstrumented => {
                include_str!("../../configs/dpdk/plain-minimal-instrumented.click")
            }
            Self::PlainFullInstrumented => {
                include_str!("../../configs/dpdk/plain-full-instrumented.click")
            }
            Self::PlainFilter => include_str!("../../configs/dpdk/plain-filter.click"),
        }
    }
}

/// Sets a router's routes and neighbours through its control socket, and starts its source.
fn configure(configuration: Configuration, routes: &Routes, socket: &Path) -> anyhow::Result<()> {
    let connect = || Ok(Control::connect(socket).ok());
    let control = wait(PATIENCE, connect)?;
    let mut control = control.context("it opens no control socket")?;
    if configuration.text().contains("route :: DirectIPLookup") {
        control.write("route.ctrl", &traffic::commands(&routes.routes))?;
    }
    if configuration == Configuration::Mixed {
        control.write("route6.ctrl", &traffic::commands(&routes.routes6))?;
    }
    if configuration == Configuration::FullRouter {
        for (network, entry) in traffic::neighbours() {
            control.write(&format!("eth{network}/arp.insert"), &entry)?;
        }
    }
    control.write("source.active", "true")
}

/// A connection to a control socket (Click's protocol, version 1.3).
struct Control(BufReader<UnixStream>);

impl Control {
    fn connect(path: &Path) -> anyhow::Result<Self> {
        let mut control = Self(BufReader::new(UnixStream::connect(path)?));
        // The server sends its greeting first.
        control.line()?;
        Ok(control)
    }

    fn write(&mut self, handler: &str, text: &str) -> anyhow::Result<()> {
        let socket = self.0.get_mut();
        write!(socket, "WRITEDATA {handler} {}\r\n", text.len())?;
        socket.write_all(text.as_bytes())?;
        let answer = self.line()?;
        ensure!(answer.starts_with("200"), "{handler}: {}", answer.trim_end());
        Ok(())
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(line)
    }
}

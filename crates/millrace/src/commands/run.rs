//! `millrace run`: runs a router.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Context;
use millrace_core::args::Seconds;
use millrace_core::memory::{Arena, limit_heaps};
use millrace_core::run::initialize;
use millrace_core::{Engine, Phase, Router, Timestamp, isa, standard_output};
use millrace_elements::capability::Failures;
use millrace_io::{DefaultMethod, Method};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::plan;
use crate::config::{Input, load};
use crate::consent;
use crate::control::{Access, Address, Manners, Server};
use crate::dpdk::{DpdkOptions, Running};
use crate::forecast::{Outlook, Verdict};
use crate::http;
use crate::lab::{self, Lab};
use crate::messages::{complain, say, show};
use crate::model::{Model, Snapshot};
use crate::output;
use crate::report;
use crate::sandbox;
use crate::session::{Affinity, Choices, Reach, configure, services, set_buffers, start_devices};
use crate::signals::{Early, StopOnSignal};
use crate::top::Live;

/// Runs a router until it stops by itself, the time is over, or Ctrl-C is pressed
#[derive(clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    input: Input,

    /// Stops the router after this time, such as `10s`, `500ms` or `2min`
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,

    /// Prints the summary as JSON
    #[arg(long)]
    json: bool,

    /// Runs on N threads
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Pins the threads to cores: `auto` (near their devices), the first core, or a list of cores
    #[arg(long, value_name = "auto|N|LIST", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    affinity: Option<Affinity>,

    /// Runs elements one by one on batches, even where packets could pass several in one go
    #[arg(long)]
    no_optimise: bool,

    /// Runs on virtual time, which jumps to the next timer when there is nothing to do
    #[arg(long, value_name = "START", num_args = 0..=1, require_equals = true, default_missing_value = "1000000000")]
    simtime: Option<f64>,

    /// Lets virtual time move on by so many nanoseconds each time it is read
    #[arg(long, value_name = "NANOSECONDS", default_value_t = 0, requires = "simtime")]
    simtick: u32,

    /// Connects the devices to a virtual network; DEVICE=FILE replays a capture file on a device
    #[arg(long, value_name = "DEVICE=FILE,...", num_args = 0..=1, default_missing_value = "")]
    lab: Option<String>,

    /// The method of FromDevice and ToDevice without METHOD: LINUX, SOCKET, XDP, DPDK or BEST
    #[arg(long, value_name = "METHOD", value_parser = method)]
    method: Option<Method>,

    #[command(flatten)]
    dpdk: DpdkOptions,

    #[command(flatten)]
    sandbox: sandbox::Wishes,

    /// Takes interfaces that this machine depends on itself: with the default route, or with open connections
    #[arg(long)]
    take_interface: bool,

    /// The seed of random numbers, including those of the lab's traffic
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// The number of packet buffers
    #[arg(long, value_name = "N")]
    buffers: Option<usize>,

    /// Starts even if the machine does not have the memory that the packet buffers, rings and tables need
    #[arg(long)]
    overcommit: bool,

    /// Serves the control protocol on a TCP port; with a plus sign, on that port or the next free one
    #[arg(short = 'p', long, value_name = "[ADDRESS:]PORT[+]", value_parser = Address::local)]
    port: Vec<Address>,

    /// Serves the control protocol on a Unix socket
    #[arg(short = 'u', long = "unix-socket", value_name = "PATH")]
    unix_socket: Vec<PathBuf>,

    /// Serves a web console, JSON, events and metrics over HTTP, on a TCP port of this machine or a Unix socket
    #[arg(long, value_name = "[ADDRESS:]PORT|unix:PATH", value_parser = http::address)]
    http: Vec<Address>,

    /// Clients must send the first line of this file: with AUTH, or over HTTP as bearer token, where reads of this machine
    /// need none; required if other machines can reach the port
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Shows nothing while the router runs
    #[arg(long)]
    no_table: bool,
}

pub(crate) fn method(name: &str) -> Result<Method, String> {
    let expected = || format!("expected one of {}", Method::NAMES.join(", "));
    Method::named(&name.to_uppercase()).ok_or_else(expected)
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let seconds: Seconds = millrace_core::args::parse(text, &millrace_core::args::Scope::builtin())
        .map_err(|error| error.to_string())?;
    Ok(seconds.as_duration())
}

impl Run {
    /// Runs the sub-command.
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        limit_heaps(self.threads);
        let early = Early::start().context("signals")?;
        let lab = self.take_lab()?;
        self.dpdk.leave(&self.input)?;
        let (origin, variables) = self.input.resolve()?;
        set_buffers(self.buffers)?;
        let mut loaded = load(&origin, &variables, None)?;

        let without_lab = lab.is_none().then_some(&loaded.graph);
        let _dpdk = Running::prepare(self.dpdk.dpdk.as_deref(), without_lab)?;
        let model = Model::default();
        let lab = lab.map(|spec| lab::build(&spec, &loaded.graph, self.seed)).transpose()?;
        let choices = Choices {
            threads: Some(self.threads),
            affinity: self.affinity.clone(),
            no_optimise: self.no_optimise,
            simtime: self.simtime,
            simtick: self.simtick,
            ..Choices::default()
        };
        let consents = self.take_interface || consent::given_by(&loaded.graph);
        let reach = match &lab {
            Some(lab) => Reach::Network(lab.network.clone()),
            None if consents => Reach::Unguarded,
            None => Reach::Guarded,
        };
        let mut services = services(reach, &model);
        if let Some(method) = self.method.take() {
            services.insert(DefaultMethod(method));
        }
        let options = choices.options(services)?;
        let router = configure(&mut loaded, options);
        show(&loaded.diagnostics, &loaded.map);
        let Some(router) = router else { return Ok(ExitCode::FAILURE) };

        // Before the packet memory is mapped.
        if !self.has_memory(&Outlook::of(&router)) {
            return Ok(ExitCode::FAILURE);
        }
        announce_machine(&router);
        self.sandbox.announce().map_err(anyhow::Error::msg)?;
        let outcome = initialize(router, self.seed);
        millrace_io::dpdk::notes().iter().for_each(say);
        let mut engine = match outcome {
            Ok(engine) => engine,
            Err(diagnostics) => {
                show(&diagnostics, &loaded.map);
                complain("the router could not be initialized");
                return Ok(ExitCode::FAILURE);
            }
        };
        let router = engine.router().clone();
        show(engine.findings(), &loaded.map);
        let started = match start_devices(&router) {
            Ok(started) => started,
            Err(error) => {
                complain(error);
                router.enter(Phase::Halted);
                engine.run();
                return Ok(ExitCode::FAILURE);
            }
        };
        model.ledger().announcement().iter().chain(&started).for_each(say);
        lab.iter().for_each(|lab| lab.attach(&router));
        lab.iter().flat_map(|lab| &lab.announcement).for_each(say);
        let token = self.token()?;
        let servers = self.serve(&router, token.clone())?;
        let sites = self.serve_http(&router, &model, &token)?;
        let inbox = early.settle().context("signals")?;
        let sandbox =
            self.sandbox.enter(&router, &self.socket_files(), false).context("threads")?;
        say(sandbox.line());
        servers.iter().for_each(|server| say(format_args!("control socket: {}", server.address())));
        sites.iter().for_each(|site| say(format_args!("http: {}", site.url())));
        if self.token_file.is_none() && !self.port.is_empty() {
            say(
                "warning: every user of this machine can connect to the control port, and write handlers: \
                 --token-file asks for a token, and -u makes a socket for you alone",
            );
        }
        if servers.is_empty() && sites.is_empty() {
            engine.stop_when_idle();
        }

        model.begin(&router);
        let shown = (router.clone(), model.clone());
        let show = move || say(report::summary(&shown.1.snapshot(&shown.0)));
        let signals = StopOnSignal::start(inbox, router.clone(), show).context("signals")?;
        let live = self.table().then(|| Live::start(router.clone(), model.clone()));
        let live = live.transpose()?;
        let outcome = self.drive(engine)?;
        drop((servers, sites));
        signals.router_has_ended();
        drop(live);

        let end = model.snapshot(&router);
        let mut complaints = outcome.complaints;
        complaints.extend(failures(&router));
        let fine = self.conclude(&end, lab.as_ref(), &sandbox, &complaints)?;
        complaints.iter().for_each(complain);
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The arguments of the lab. A word after `--lab` that does not assign a file to a device is the configuration.
    fn take_lab(&mut self) -> anyhow::Result<Option<lab::Spec>> {
        let Some(text) = self.lab.take() else { return Ok(None) };
        if !text.is_empty() && !text.contains('=') {
            self.input.words.insert(0, text);
            return Ok(Some(lab::Spec::default()));
        }
        lab::Spec::parse(&text).map(Some).map_err(|error| anyhow::anyhow!("--lab: {error}"))
    }

    /// Prints what the router will take of memory; returns false if it cannot have that.
    fn has_memory(&self, outlook: &Outlook) -> bool {
        say(outlook.line());
        outlook.starvation().iter().for_each(say);
        match outlook.verdict() {
            Verdict::Fits => true,
            Verdict::Tight(why) => {
                say(format_args!("warning: memory: {why}"));
                true
            }
            Verdict::Impossible(why) if self.overcommit => {
                say(format_args!("warning: memory: {why}"));
                true
            }
            Verdict::Impossible(why) => {
                complain(format_args!("memory: {why}, or start with --overcommit"));
                false
            }
        }
    }

    /// The files of the sockets that are removed at the end.
    fn socket_files(&self) -> Vec<PathBuf> {
        let over_http = self.http.iter().filter_map(|address| match address {
            Address::Unix(path) => Some(path),
            Address::Tcp { .. } => None,
        });
        self.unix_socket.iter().chain(over_http).cloned().collect()
    }

    fn token(&self) -> anyhow::Result<Option<Arc<str>>> {
        let token = self.token_file.as_deref().map(Access::token_in).transpose();
        token.map_err(anyhow::Error::msg).context("--token-file")
    }

    fn serve_http(
        &self,
        router: &Arc<Router>,
        model: &Model,
        token: &Option<Arc<str>>,
    ) -> anyhow::Result<Vec<http::Server>> {
        let start = |address: &Address| {
            http::Server::start(address, router.clone(), model.clone(), token.clone())
                .with_context(|| format!("--http {address}"))
        };
        self.http.iter().map(start).collect()
    }

    fn serve(&self, router: &Arc<Router>, token: Option<Arc<str>>) -> anyhow::Result<Vec<Server>> {
        let sockets = self.unix_socket.iter().cloned().map(Address::Unix);
        let mut servers = Vec::new();
        for address in self.port.iter().cloned().chain(sockets) {
            let access = Access { read_only: false, token: token.clone() };
            let manners = Manners { access, announces: None };
            let server = Server::start_with(&address, router.clone(), manners)
                .with_context(|| format!("control socket {address}"))?;
            servers.push(server);
        }
        Ok(servers)
    }

    fn table(&self) -> bool {
        let wanted = !self.json && !self.no_table && !standard_output::has_data();
        wanted && std::io::stdout().is_terminal()
    }

    /// Runs the engine for the time that the command line gives.
    fn drive(&self, mut engine: Engine) -> anyhow::Result<millrace_core::run::Outcome> {
        let Some(time) = self.time else { return Ok(engine.run()) };
        let router = engine.router().clone();
        let (ended, end) = channel::<()>();
        let is_virtual = router.clock().is_virtual();
        let alarm = std::thread::Builder::new().name("alarm".to_owned()).spawn({
            let router = router.clone();
            // Either the time is over, or the router has stopped by itself.
            move || match is_virtual {
                true => stop_if_time_stands(&router, time, &end),
                false => {
                    let _ = end.recv_timeout(time);
                    router.enter(Phase::Draining);
                }
            }
        })?;
        if is_virtual {
            engine.run_until(router.clock().now() + Timestamp::from(time));
            router.enter(Phase::Draining);
        }
        let outcome = engine.run();
        drop(ended);
        // A failure here has no consequence.
        let _ = alarm.join();
        Ok(outcome)
    }

    /// Prints the summary: on standard error if elements write data to standard output. Returns true if no packet is
    /// unaccounted for and the lab saw all that it expected.
    fn conclude(
        &self,
        end: &Snapshot,
        lab: Option<&Lab>,
        sandbox: &sandbox::Summary,
        complaints: &[String],
    ) -> anyhow::Result<bool> {
        let lab = lab.map(|lab| (lab.report)());
        let fine = complaints.is_empty() && lab.as_ref().is_none_or(|report| report.complete);
        let text = if self.json {
            let mut fields = serde_json::to_value(end)?;
            fields["complaints"] = json!(complaints);
            fields["sandbox"] = sandbox.json();
            if let Some(report) = lab {
                fields["lab"] = report.json;
            }
            format!("{fields:#}\n")
        } else {
            let mut text = report::summary(end);
            if let Some(report) = lab {
                text.push('\n');
                text.push_str(&report.text);
            }
            text
        };
        match standard_output::has_data() {
            true => say(text.trim_end()),
            false => output::print(text)?,
        }
        Ok(fine)
    }
}

/// What failed in elements that went on, each with the element's name.
fn failures(router: &Router) -> impl Iterator<Item = String> {
    (0..router.len()).filter_map(|id| {
        let failures = router.offered::<dyn Failures>(id)?.failures()?;
        Some(format!("{}: {failures}", router.name_of(id)))
    })
}

/// Stops a router on virtual time if it takes a second of processor time, or `time` if that is longer, and virtual time
/// hardly advances, for example because of a timer with a period of a nanosecond.
fn stop_if_time_stands(router: &Router, time: Duration, end: &Receiver<()>) {
    const SHORTEST: Duration = Duration::from_secs(1);
    const LOOK: Duration = Duration::from_millis(50);
    let longest = time.max(SHORTEST);
    let patience = Timestamp::from(longest);
    let worked = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Timestamp::from(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    };
    let state = || (worked(), router.clock().now());
    let mut before = state();
    while matches!(end.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
        let now = state();
        if now.0 - before.0 < patience {
            continue;
        }
        if (now.1 - before.1).as_nanos() < patience.as_nanos() / 1000 {
            complain(format_args!(
                "virtual time hardly advances: the router was busy for {longest:?} of processor time, and is stopped"
            ));
            return router.enter(Phase::Draining);
        }
        before = now;
    }
}

/// Prints which memory and which threads the router has.
fn announce_machine(router: &Router) {
    for line in Arena::stats().to_string().lines() {
        say(format_args!("packet memory: {line}"));
    }
    if let Ok(Some(asked)) = isa::asked() {
        let (asked, used) = (asked.name(), isa::level().name());
        say(format_args!("hot loops are compiled for {used} ({}={asked})", isa::VARIABLE));
    }
    let plan = router.plan();
    for (n, seat) in plan.seats.iter().enumerate() {
        say(format!("thread {n}{}", plan::seat(seat, plan.nodes).trim_end_matches(',')));
    }
    plan::devices(router).iter().chain(&plan.notes).for_each(say);
}

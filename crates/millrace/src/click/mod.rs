//! The program as Click: its options, messages and exit statuses.

mod glob;
mod handlers;
mod hot;
mod options;
mod sockets;
mod stopwatch;

use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;

use millrace_core::memory::limit_heaps;
use millrace_core::router::warn_listener;
use millrace_core::run::{initialize, initialize_beside};
use millrace_core::{Engine, Phase, Router, os_error_text};
use millrace_lang::{Diagnostic, SourceMap, Style, print_flat, render_all};

use self::hot::HotSwap;
use self::options::{Action, Options, Refusal};
use self::stopwatch::Stopwatch;
use crate::config::{Loaded, Origin, load};
use crate::consent;
use crate::dpdk::Running;
use crate::forecast::{Outlook, Verdict};
use crate::messages::complain_as_click as complain;
use crate::output;
use crate::sandbox;
use crate::session::{Affinity, Choices, Reach, configure, services, start_devices};
use crate::signals::Early;

/// Runs Click with the arguments of the process.
pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let args: Vec<String> =
        args.into_iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let options = match options::parse(&args) {
        Ok(options) => options,
        Err(Refusal::Usage(message)) => {
            complain(format_args!("click: {message}"));
            complain("Usage: click [OPTION]... [ROUTERFILE]");
            complain("Try ‘click --help’ for more information.");
            return ExitCode::FAILURE;
        }
        Err(Refusal::Unsupported(message)) => {
            complain(format_args!("click: {message}"));
            return ExitCode::FAILURE;
        }
    };
    match options.action {
        Action::Help => print(HELP),
        Action::Version => print(concat!("click (Millrace) ", env!("CARGO_PKG_VERSION"), "\n")),
        Action::Run => return run(&options).unwrap_or(ExitCode::FAILURE),
    }
    ExitCode::SUCCESS
}

/// A failure that has already been reported.
struct Reported;

fn run(options: &Options) -> Result<ExitCode, Reported> {
    limit_heaps(options.threads.unwrap_or(1));
    let early = Early::start().map_err(refuse)?;
    for name in &options.repeated {
        complain(format_args!("parameter ‘{name}’ multiply defined"));
    }
    let origin = options.origin.as_ref().unwrap_or(&Origin::Stdin);
    let mut loaded = read(options, origin).map_err(refuse)?;
    show(&loaded.diagnostics, &loaded.map);
    sockets::add(options, &mut loaded, "");
    let _dpdk = Running::prepare(options.dpdk.as_deref(), Some(&loaded.graph))
        .map_err(|error| refuse(format_args!("click: {error:#}")))?;
    if !options.quit {
        options.sandbox.announce().map_err(|error| refuse(format_args!("click: {error}")))?;
    }
    let hot = Arc::new(HotSwap::new(options.clone()));
    let engine = build(options, &mut loaded, &hot, None).map_err(refuse)?;
    hot.start(engine.router());
    let mut failed = !write_flat(options.output.as_deref(), &loaded);

    let watch = Stopwatch::start();
    let mut waiting = Some(engine);
    if !options.quit && !hot.router().is_empty() {
        let inbox = early.settle().map_err(refuse)?;
        let entered =
            options.sandbox.enter(&hot.router(), &[], options.reconfigure).map_err(refuse)?;
        if !entered.holds {
            complain(format_args!("click: {}", entered.line()));
        }
        hot.model().begin(&hot.router());
        hot.listen(inbox).map_err(refuse)?;
        let outcome = waiting.take().map(Engine::run).unwrap_or_default();
        outcome.complaints.into_iter().for_each(complain);
        hot.end();
    } else if !options.quit && !options.no_warnings {
        let name = loaded.name();
        complain(format_args!("warning: {name}: configuration has no elements, exiting"));
    }
    if options.time {
        print(watch.report());
    }

    let router = hot.router();
    let mut values = Vec::new();
    let complaints = handlers::read_all(&router, &options.handlers, &mut values);
    failed |= !complaints.is_empty();
    print(values);
    complaints.into_iter().for_each(complain);
    let mut status = u8::from(failed);
    if let Some(path) = &options.exit_handler {
        status = handlers::exit_status(&router, path).unwrap_or_else(|complaint| {
            complain(complaint);
            u8::MAX
        });
    }
    if let Some(engine) = waiting {
        // The router was not to run, but its elements are cleaned up nevertheless.
        router.enter(Phase::Halted);
        engine.run().complaints.into_iter().for_each(complain);
    }
    Ok(ExitCode::from(status))
}

/// Reads a configuration. If the text has syntax errors, only these are reported.
fn read(options: &Options, origin: &Origin) -> Result<Loaded, String> {
    let loaded = load(origin, &options.variables, options.click_path.as_deref())
        .map_err(|error| format!("{error:#}"))?;
    match loaded.has_errors() {
        true => Err(shown(&loaded.diagnostics, &loaded.map)),
        false => Ok(loaded),
    }
}

/// Configures and initialises a router. If `old` is given, the new router is to replace it.
fn build(
    options: &Options,
    loaded: &mut Loaded,
    hot: &Arc<HotSwap>,
    old: Option<&Arc<Router>>,
) -> Result<Engine, String> {
    const REFUSED: &str = "Router could not be initialized!";
    let choices = Choices {
        threads: options.threads,
        affinity: options.first_core.map(Affinity::From),
        simtime: options.simtime,
        simtick: options.simtick,
        ..Choices::default()
    };
    let reach = match options.take_interface || consent::given_by(&loaded.graph) {
        true => Reach::Unguarded,
        false => Reach::Guarded,
    };
    let mut services = services(reach, &hot.model().of_next_router());
    if options.reconfigure {
        services.insert(HotSwap::service(hot));
    }
    let choices = choices.options(services).map_err(|error| format!("click: {error:#}"))?;
    let known = loaded.diagnostics.len();
    let router = configure(loaded, choices);
    let mut found = loaded.diagnostics.split_off(known);
    if found.iter().any(|d| d.is_error() && d.context.is_none()) {
        // Click configures no element of an inconsistent graph.
        found.retain(|d| d.context.is_none());
    }
    let said = shown(&found, &loaded.map);
    let Some(router) = router else { return Err(joined([said, REFUSED.to_owned()])) };
    if old.is_some() {
        sandbox::admits(&router).map_err(|missing| joined([missing, REFUSED.to_owned()]))?;
    }
    tell(said);
    if let (None, Verdict::Tight(why) | Verdict::Impossible(why)) =
        (old, Outlook::of(&router).verdict())
    {
        complain(format_args!("warning: memory: {why}"));
    }
    let initialized = match old {
        Some(old) => initialize_beside(router, seed(), old),
        None => initialize(router, seed()),
    };
    let engine = initialized.map_err(|mut found| {
        // Click initialises no element after the first failure.
        if let Some(first) = found.first().and_then(|d| d.context.clone()) {
            found.retain(|d| d.context.as_ref() == Some(&first));
        }
        let notes = millrace_io::dpdk::notes().iter().cloned();
        let said = std::iter::once(shown(&found, &loaded.map)).chain(notes);
        joined(said.chain([REFUSED.to_owned()]))
    })?;
    show(engine.findings(), &loaded.map);
    if let Err(error) = start_devices(engine.router()) {
        engine.router().enter(Phase::Halted);
        engine.run();
        return Err(joined([error.to_string(), REFUSED.to_owned()]));
    }
    Ok(engine)
}

/// Random numbers differ from run to run, as in Click.
fn seed() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}

/// Joins the texts that are not empty, one per line.
fn joined(texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("\n")
}

/// Writes the flat configuration to `path`; returns true on success.
fn write_flat(path: Option<&str>, loaded: &Loaded) -> bool {
    let Some(path) = path else { return true };
    let text = print_flat(&loaded.graph);
    if path == "-" {
        print(text);
        return true;
    }
    match std::fs::write(path, text) {
        Ok(()) => true,
        Err(error) => {
            complain(format_args!("{path}: {}", os_error_text(&error)));
            false
        }
    }
}

/// Writes to standard output. Like Click, ignores errors.
fn print(text: impl AsRef<[u8]>) {
    let _ = output::print(text);
}

fn show(diagnostics: &[Diagnostic], map: &SourceMap) {
    tell(shown(diagnostics, map));
}

/// Prints warnings. Whoever replaces the configuration through a handler gets them instead.
fn tell(text: String) {
    if !text.is_empty() && !text.lines().all(warn_listener) {
        complain(text);
    }
}

fn shown(diagnostics: &[Diagnostic], map: &SourceMap) -> String {
    render_all(diagnostics, map, Style::Click).trim_end_matches('\n').to_owned()
}

fn refuse(message: impl Display) -> Reported {
    complain(message);
    Reported
}

const HELP: &str = "\
Runs a router written in the Click language until it stops or is interrupted.
This is Millrace, called as Click; `millrace help` shows what else it can do.

Usage: click [OPTION]... [VAR=VALUE]... [ROUTERFILE]

The configuration:
  -f, --file FILE              Read it from FILE, `-` for standard input
  -e, --expression EXPR        Take EXPR itself
  -C, --clickpath PATH         Look for libraries in PATH, not $CLICKPATH
  -o, --output FILE            Write it, flat, to FILE (`-`: standard output)

The run:
  -q, --quit                   Do not run the router
  -j, --threads N              Run on N threads (1 unless given)
  -a, --affinity[=N]           Pin the threads to cores, from N (0) on
      --simtime[=START]        Run on virtual time, from START (1000000000 s)
      --simtick NANOSECONDS    Let virtual time move on each time it is read
      --dpdk EAL-OPTIONS... -- Start DPDK with these options, up to `--`
      --take-interface         Take interfaces that this machine depends on itself:
                               with the default route, or open connections
      --no-sandbox             Keep all privileges while the router runs
      --allow-path PATH        Let the running router use this file or folder,
                               though no element names it
      --allow-unix-sockets     Let it open Unix sockets, and connect to any one
  -p, --port PORT[+]           Serve the control protocol on a TCP port; with
                               a plus sign, on that or the next free one
  -u, --unix-socket FILE       Serve the control protocol on a Unix socket
  -R, --allow-reconfigure      Enable writing the handler `hotconfig`, which replaces
                               the configuration while the router runs
  -w, --no-warnings            Do not warn if there is nothing to run

When the router has stopped:
  -h, --handler ELEMENT.H      Print the value of the handler; ELEMENT may be a
                               pattern such as `*`, or a class
  -x, --exit-handler ELEMENT.H Exit with the value of the handler
  -t, --time                   Print how long the router took

      --help                   Print this
  -v, --version                Print the version
";

//! The program as Click: its options, its messages, its exit statuses.

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

use millrace_core::run::{initialize, initialize_beside};
use millrace_core::{Engine, Phase, Router, os_error_text};
use millrace_lang::{Diagnostic, SourceMap, Style, print_flat, render_all};

use self::hot::HotSwap;
use self::options::{Action, Options, Refusal};
use self::stopwatch::Stopwatch;
use crate::config::{Loaded, Origin, load};
use crate::dpdk::Running;
use crate::messages::complain_as_click as complain;
use crate::output;
use crate::report::Ledger;
use crate::session::{Affinity, Choices, configure, services, start_devices};

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

/// A failure that has been reported.
struct Reported;

fn run(options: &Options) -> Result<ExitCode, Reported> {
    for name in &options.repeated {
        complain(format_args!("parameter ‘{name}’ multiply defined"));
    }
    let origin = options.origin.as_ref().unwrap_or(&Origin::Stdin);
    let mut loaded = read(options, origin).map_err(refuse)?;
    show(&loaded.diagnostics, &loaded.map);
    sockets::add(options, &mut loaded, "");
    let _dpdk = Running::prepare(options.dpdk.as_deref(), Some(&loaded.graph))
        .map_err(|error| refuse(format_args!("click: {error:#}")))?;
    let hot = Arc::new(HotSwap::new(options.clone()));
    let engine = build(options, &mut loaded, &hot, None).map_err(refuse)?;
    hot.start(engine.router());
    let mut failed = !write_flat(options.output.as_deref(), &loaded);

    let watch = Stopwatch::start();
    let mut waiting = Some(engine);
    if !options.quit && !hot.router().is_empty() {
        hot.listen().map_err(refuse)?;
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
        // It was not to run; its elements are cleaned up all the same.
        router.enter(Phase::Halted);
        engine.run().complaints.into_iter().for_each(complain);
    }
    Ok(ExitCode::from(status))
}

/// Reads a configuration. Errors of the language are all that is said of it.
fn read(options: &Options, origin: &Origin) -> Result<Loaded, String> {
    let loaded = load(origin, &options.variables, options.click_path.as_deref())
        .map_err(|error| format!("{error:#}"))?;
    match loaded.has_errors() {
        true => Err(shown(&loaded.diagnostics, &loaded.map)),
        false => Ok(loaded),
    }
}

/// Configures and initialises a router; one that is to replace `old`, if there is one.
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
        ..Choices::default()
    };
    let mut services = services(None, &Ledger::default());
    if options.reconfigure {
        services.insert(HotSwap::service(hot));
    }
    let choices = choices.options(services).map_err(|error| format!("click: {error:#}"))?;
    let known = loaded.diagnostics.len();
    let router = configure(loaded, choices);
    let mut found = loaded.diagnostics.split_off(known);
    if found.iter().any(|d| d.is_error() && d.context.is_none()) {
        // Click configures no element of a graph that does not hold together.
        found.retain(|d| d.context.is_none());
    }
    let said = shown(&found, &loaded.map);
    let Some(router) = router else { return Err(joined([said, REFUSED.to_owned()])) };
    if old.is_none() && !said.is_empty() {
        complain(said);
    }
    let initialized = match old {
        Some(old) => initialize_beside(router, seed(), old),
        None => initialize(router, seed()),
    };
    let engine = initialized.map_err(|mut found| {
        // Click initialises no element after one that failed.
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

/// What is random differs from run to run, as with Click.
fn seed() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}

/// Texts below one another, those that are not empty.
fn joined(texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("\n")
}

/// Writes the flat configuration where it is wanted; returns whether that went well.
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

/// Writes to standard output. Click does not care whether anybody reads it.
fn print(text: impl AsRef<[u8]>) {
    let _ = output::print(text);
}

fn show(diagnostics: &[Diagnostic], map: &SourceMap) {
    let text = shown(diagnostics, map);
    if !text.is_empty() {
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
      --dpdk EAL-OPTIONS... -- Start DPDK with these options, up to `--`
  -p, --port PORT[+]           Serve the control protocol on a TCP port; with
                               a plus sign, on that or the next free one
  -u, --unix-socket FILE       Serve the control protocol on a Unix socket
  -R, --allow-reconfigure      Let the handler `hotconfig` be written: it replaces
                               the configuration while the router runs
  -w, --no-warnings            Do not say that there is nothing to run

When the router has stopped:
  -h, --handler ELEMENT.H      Print what the handler says; ELEMENT may be a
                               pattern such as `*`, or a class
  -x, --exit-handler ELEMENT.H Exit with the status that the handler says
  -t, --time                   Print how long the router took

      --help                   Print this
  -v, --version                Print the version
";

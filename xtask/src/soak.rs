//! `cargo xtask soak`: a router under traffic and faults, for as long as is asked for.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_testkit::find_program;
use millrace_testkit::soak::{Fault, NEEDED, Plan, run as soak};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::shell;

/// What `cargo xtask soak` takes.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long, such as 2h, 10min or 90s.
    #[arg(long = "for", value_name = "TIME", default_value = "10min", value_parser = shell::duration)]
    time: Duration,
    /// The schedule of faults follows from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// These faults alone: swap, recreate, rename, mtu, down, taken, memory, stop, clock, disk, kill, term.
    #[arg(long, value_name = "FAULT,...", value_delimiter = ',')]
    only: Vec<Fault>,
    /// How the router reaches its devices: LINUX, SOCKET or XDP.
    #[arg(long, default_value = "LINUX", value_parser = ["LINUX", "SOCKET", "XDP"])]
    method: String,
    /// Datagrams a second from each of two hosts.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Milliseconds from one hot swap to the next.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    every: u64,
    /// The program `millrace` to run, with `click` beside it; without it, one is built in profile release.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Writes the figures as JSON to this file, too; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Whether the user has pressed Ctrl-C: then what was found so far is printed, and everything is taken away. A second
/// time ends at once.
fn interrupted() -> Result<Arc<AtomicBool>> {
    let pressed = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first one finds that none has come before.
        flag::register_conditional_default(signal, pressed.clone())?;
        flag::register(signal, pressed.clone())?;
    }
    Ok(pressed)
}

/// Soaks a router, and prints what was found.
///
/// # Errors
/// It cannot be built or set up, or the figures cannot be written.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !shell::is_root() {
        bail!("soak makes network namespaces, which needs root");
    }
    if let Some(missing) = NEEDED.iter().find(|program| find_program(program).is_none()) {
        bail!("soak needs the program {missing}");
    }
    let program = match &options.binary {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => {
            let mut command = shell::cargo();
            command.args(["build", "--release", "--package", "millrace", "--bins"]);
            shell::run(&mut command)?;
            shell::target().join("release/millrace")
        }
    };
    let plan = Plan {
        program,
        method: options.method.clone(),
        time: options.time,
        seed: options.seed,
        faults: if options.only.is_empty() { Fault::ALL.to_vec() } else { options.only.clone() },
        rate: options.rate,
        every: Duration::from_millis(options.every),
        interrupted: interrupted()?,
    };
    let report = soak(&plan).map_err(anyhow::Error::msg)?;
    let json = format!("{:#}\n", report.json());
    match &options.json {
        Some(path) if path.as_os_str() == "-" => {
            eprint!("{report}");
            print!("{json}");
        }
        Some(path) => {
            print!("{report}");
            fs::write(path, json).with_context(|| path.display().to_string())?;
        }
        None => print!("{report}"),
    }
    Ok(if report.problems().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

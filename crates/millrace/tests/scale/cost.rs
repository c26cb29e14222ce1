//! What a command takes: processor time and memory.
//!
//! The figures of one process are those that the system gives for all ended children, so each command runs below a
//! process of its own: this program again, called with [`MEASURE`].

use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::time::TimeValLike;

/// The first argument of the process that measures; the limits and the command follow.
pub(crate) const MEASURE: &str = "--measure";

/// What a command took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Processor time, in microseconds.
    pub time: i64,
    /// The most that it had in memory, in KiB.
    pub memory: i64,
}

/// A command that has ended.
pub(crate) struct Done {
    pub cost: Cost,
    /// The exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// What it wrote to standard error.
    pub messages: String,
}

/// The limits of a command, for the case that it needs much more than is right.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Processor time, in seconds.
    pub time: usize,
    /// Private memory, in bytes.
    pub memory: usize,
}

/// Runs `millrace` with these arguments in a folder, under limits; `click` if that is the first one.
///
/// # Errors
/// It could not be run or measured.
pub(crate) fn run(arguments: &[String], folder: &Path, limits: Limits) -> io::Result<Done> {
    let (program, arguments) = match arguments {
        [first, rest @ ..] if first == "click" => (env!("CARGO_BIN_EXE_click"), rest),
        all => (env!("CARGO_BIN_EXE_millrace"), all),
    };
    let output = Command::new(std::env::current_exe()?)
        .args([MEASURE, &limits.time.to_string(), &limits.memory.to_string()])
        .arg(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let figures = String::from_utf8_lossy(&output.stdout);
    let figures: Option<Vec<i64>> =
        figures.split(' ').map(|word| word.trim().parse().ok()).collect();
    let Some([status, time, memory]) = figures.as_deref() else {
        return Err(io::Error::new(ErrorKind::InvalidData, messages));
    };
    let status = i32::try_from(*status).ok().filter(|status| *status >= 0);
    Ok(Done { cost: Cost { time: *time, memory: *memory }, status, messages })
}

/// The process that measures: sets the limits, runs the command, and prints its exit status (-1 for a signal), its
/// processor time and its memory.
pub(crate) fn measure(arguments: &[String]) -> ExitCode {
    let measured = || -> Option<()> {
        let (limits, [program, rest @ ..]) = arguments.split_at_checked(2)? else { return None };
        let limits: Vec<u64> =
            limits.iter().map(|limit| limit.parse().ok()).collect::<Option<_>>()?;
        for (resource, limit) in
            [Resource::RLIMIT_CPU, Resource::RLIMIT_DATA].into_iter().zip(limits)
        {
            setrlimit(resource, limit, limit).ok()?;
        }
        let status = Command::new(program).args(rest).stdout(Stdio::null()).status().ok()?;
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
        let time = (usage.user_time() + usage.system_time()).num_microseconds();
        println!("{} {time} {}", status.code().unwrap_or(-1), usage.max_rss());
        Some(())
    };
    measured().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

//! What the tests of several crates share: leaving a test out aloud, hosts to talk to, programs that run
//! beside the test, rules and traffic made from a seed ([`generate`]), data out of Debian packages
//! ([`data`]), configurations with their expected output, and a router under traffic and faults ([`soak`]).
//!
//! `cargo test` needs no privileges. A test that does need them begins with [`privileged!`], names
//! the programs that it runs, and ends early where it cannot run:
//!
//! ```
//! # fn ping_crosses_the_router() {
//! let Some(_alone) = millrace_testkit::privileged!("ip", "ping") else { return };
//! // network namespaces, raw sockets, real interfaces ...
//! # }
//! ```
//!
//! A test that is left out says so in one line, which the test harness does not swallow, and adds
//! itself to the file named by `MILLRACE_SKIPS`; `cargo xtask test` reads that file and counts.
//! A test that runs holds a lock until it ends, because two tests that rearrange the machine's
//! network at once disturb each other.

pub mod conform;
pub mod data;
mod dpdk;
pub mod generate;
mod namespace;
mod program;
pub mod soak;

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use dpdk::has_dpdk_plugin;
pub use namespace::Namespace;
pub use program::{Ended, Program};

/// The variable that names the file to which each skipped test appends a line: its name, a tab, the reason.
pub const SKIPS_VARIABLE: &str = "MILLRACE_SKIPS";

/// If this variable is set and not empty, every privileged test is skipped, even as root.
pub const FAST_VARIABLE: &str = "MILLRACE_FAST";

/// The variable that names the folder with the packet captures of Debian's tcpdump source package.
pub const CAPTURES_VARIABLE: &str = "MILLRACE_CAPTURES";

/// `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_SYS_ADMIN` (capabilities(7)): they permit to create interfaces, open
/// packet sockets, and enter network namespaces.
const CAPABILITIES: u64 = 1 << 12 | 1 << 13 | 1 << 21;

/// Why a test was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The process lacks root's network privileges.
    Root,
    /// A program that the test needs is not installed.
    Program(String),
    /// [`FAST_VARIABLE`] asks for quick tests only.
    Fast,
    /// The folder with this data is missing.
    Data(data::Data),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Root => f.write_str("needs root"),
            Reason::Program(program) => write!(f, "needs {program}"),
            Reason::Fast => f.write_str("quick run"),
            Reason::Data(data) => {
                write!(f, "needs {} that `cargo xtask test` fetches", data.name())
            }
        }
    }
}

/// Held by a privileged test while it runs, so that no other one runs in this process.
#[derive(Debug)]
pub struct Alone(#[allow(dead_code, reason = "held for its drop")] MutexGuard<'static, ()>);

/// Returns `Some(guard)` if the process may change the network and the named programs are installed. Otherwise,
/// prints that the calling test is skipped, and returns `None`.
///
/// Bind the guard to a name (`_alone`, not `_`), so that it exists until the test ends.
#[macro_export]
macro_rules! privileged {
    ($($program:expr),* $(,)?) => {{
        fn here() {}
        $crate::begin($crate::enclosing(here), &[$($program),*])
    }};
}

/// The function behind [`privileged!`]. `test` is the name to print if the test is skipped.
#[must_use]
pub fn begin(test: &str, programs: &[&str]) -> Option<Alone> {
    match reason_to_skip(programs) {
        None => {
            static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
            // A failed test poisons the lock, which must not stop the next one.
            Some(Alone(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)))
        }
        Some(reason) => {
            announce(test, &reason);
            None
        }
    }
}

/// The capture files of Debian's tcpdump source package, sorted by name, for robustness tests. If they were not
/// fetched, prints that the calling test is skipped, and returns `None`.
#[macro_export]
macro_rules! captures {
    () => {{
        fn here() {}
        $crate::captures_or_skip($crate::enclosing(here))
    }};
}

/// The function behind [`captures!`]. `test` is the name to print if the test is skipped.
#[must_use]
pub fn captures_or_skip(test: &str) -> Option<Vec<PathBuf>> {
    let folder = data::Data::Captures.folder();
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok());
    let paths = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let is_capture = |path: &PathBuf| {
        path.extension()
            .is_some_and(|end| ["pcap", "pcapng", "cap"].iter().any(|kind| end == *kind))
    };
    let mut captures: Vec<PathBuf> = paths.filter(is_capture).collect();
    captures.sort();
    if captures.is_empty() {
        announce(test, &Reason::Data(data::Data::Captures));
        return None;
    }
    Some(captures)
}

/// The path of the function that contains the definition of `_marker`, for [`privileged!`].
#[doc(hidden)]
pub fn enclosing<T>(_marker: T) -> &'static str {
    let name = std::any::type_name::<T>();
    let name = name.strip_suffix("::here").unwrap_or(name);
    name.trim_end_matches("::{{closure}}")
}

/// Prints on standard error that a test is skipped, and appends it to the file of [`SKIPS_VARIABLE`].
///
/// [`privileged!`] calls it. Tests with other needs (a device, a kernel feature) call it themselves.
pub fn announce(test: &str, reason: &dyn fmt::Display) {
    // Writes to the descriptor directly, because the harness hides the output of `eprintln!` if the test passes.
    let _ = writeln!(std::io::stderr().lock(), "skipped ({reason}): {test}");
    if let Some(path) = std::env::var_os(SKIPS_VARIABLE) {
        let line = format!("{test}\t{reason}\n");
        // Writes one line with one call in append mode, because tests in other processes may write too.
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()));
        if let Err(error) = written {
            let _ = writeln!(std::io::stderr().lock(), "{}: {error}", path.display());
        }
    }
}

fn reason_to_skip(programs: &[&str]) -> Option<Reason> {
    if std::env::var_os(FAST_VARIABLE).is_some_and(|value| !value.is_empty()) {
        return Some(Reason::Fast);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !may_rearrange_the_network(&status) {
        return Some(Reason::Root);
    }
    let missing = programs.iter().find(|program| find_program(program).is_none());
    missing.map(|program| Reason::Program((*program).to_string()))
}

/// Reads the effective capabilities from the text of `/proc/self/status`.
fn may_rearrange_the_network(status: &str) -> bool {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & CAPABILITIES == CAPABILITIES)
}

/// The path of a program, searched for in `PATH`, and then in the directories of system tools, which Debian omits
/// from the `PATH` of an ordinary user.
#[must_use]
pub fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status_of_a_process() {
        let cases = [
            ("CapEff:\t000001fffeffffff\n", true),
            ("Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000000000203000\n", true),
            ("CapEff:\t0000000000201000\n", false),
            ("CapEff:\t0000000000000000\n", false),
            ("CapPrm:\t000001ffffffffff\n", false),
            ("CapEff:\tnonsense\n", false),
            ("", false),
        ];
        for (status, expected) in cases {
            assert_eq!(may_rearrange_the_network(status), expected, "{status:?}");
        }
    }

    #[test]
    fn programs_are_found_where_they_are() {
        assert!(find_program("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }

    #[test]
    fn the_enclosing_test_is_named() {
        fn here() {}
        let name = enclosing(here);
        assert!(name.ends_with("tests::the_enclosing_test_is_named"), "{name}");
    }
}

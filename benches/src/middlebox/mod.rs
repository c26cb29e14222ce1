//! Boxes between a client and a server, as `bench firewall` and `bench streams` measure them: hosts, the programs on them,
//! and what a box between them costs.
//!
//! Client, box and server share the cores of one machine. So a rate is that of all three, and depends on what else the
//! machine does; the processor time that a packet or a byte takes is the steadier figure. It is given for the program in
//! the middle alone, and for everything together ([`cost`]), because the kernel does its forwarding in the time of
//! whoever sends.

pub(crate) mod client;
pub(crate) mod cost;
pub(crate) mod hosts;
pub(crate) mod memory;
pub(crate) mod router;
pub(crate) mod sender;
pub(crate) mod server;
pub(crate) mod table;

use std::process::Command;

use anyhow::{Context, bail, ensure};
use millrace_testkit::find_program;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The programs that these benchmarks run, and Debian's packages that have them.
const PACKAGES: &[(&str, &str)] = &[
    ("curl", "curl"),
    ("ethtool", "ethtool"),
    ("ip", "iproute2"),
    ("iperf3", "iperf3"),
    ("nft", "nftables"),
    ("nginx", "nginx-light"),
    ("sysctl", "procps"),
];

/// Open files of a client or a server that are not connections.
const OTHER_FILES: u64 = 1000;

/// Looks whether all can run.
///
/// # Errors
/// This is not root, or programs are missing: how to install them.
pub(crate) fn require(programs: &[&str]) -> anyhow::Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "network namespaces take the rights of root");
    let missing = programs.iter().filter(|program| find_program(program).is_none());
    let missing: Vec<&str> = missing
        .map(|program| PACKAGES.iter().find(|(name, _)| name == program).map_or(*program, |p| p.1))
        .collect();
    if !missing.is_empty() {
        bail!("programs are missing: sudo apt-get install {}", missing.join(" "));
    }
    Ok(())
}

/// Lets this process, and those that it starts, have this many connections open.
///
/// # Errors
/// The system refuses: what allows it.
pub(crate) fn allow_connections(count: u32) -> anyhow::Result<()> {
    let needed = u64::from(count) + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    if enough(limit.current) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(needed));
    let wanted = Rlimit { current: Some(needed), maximum };
    setrlimit(Resource::Nofile, wanted)
        .with_context(|| format!("each connection is an open file: ulimit -n {needed}"))
}

/// Runs a command until it ends, and returns its standard output.
///
/// # Errors
/// It cannot be started, or it fails: what it said.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {said}{why}", output.status);
    Ok(said)
}

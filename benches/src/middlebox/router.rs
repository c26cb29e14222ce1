//! What is in the middle: Millrace, or the kernel.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use millrace_testkit::{Program, soak};
use serde_json::Value;
use tempfile::TempDir;

use super::hosts::{Hosts, Wiring};
use super::output;
use crate::io::rig::millrace;

/// A kind of box.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The kernel forwards packets.
    Kernel,
    /// The kernel forwards packets as these rules of nftables allow.
    Nftables(&'static str),
    /// The kernel's bridge.
    Bridge,
    /// Millrace with a configuration between `eth0`, on the client's side, and `eth1`.
    Millrace(Configuration),
}

/// What Millrace runs.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// A file of `examples/`, or a configuration.
    pub(crate) source: Source,
    /// Values of its variables.
    pub(crate) variables: Vec<String>,
    pub(crate) method: &'static str,
    /// The core that it is pinned to, if any.
    pub(crate) core: Option<usize>,
}

/// Where a configuration is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Example(&'static str),
    Text(&'static str),
}

/// A box that runs, until this is dropped.
pub(crate) struct Running {
    program: Option<(Program, TempDir)>,
}

impl Kind {
    /// How the hosts must be connected.
    pub(crate) const fn wiring(&self) -> Wiring {
        match self {
            Self::Kernel | Self::Nftables(_) => Wiring::Routed,
            Self::Bridge | Self::Millrace(_) => Wiring::Bridged,
        }
    }

    /// Starts it between hosts that were made for it, and waits until it forwards.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(&self, hosts: &Hosts) -> anyhow::Result<Running> {
        match self {
            Self::Kernel => (),
            Self::Nftables(rules) => load(hosts, rules)?,
            Self::Bridge => {
                hosts.between.ip("link add name bridge type bridge");
                hosts.between.ip("link set dev bridge up");
                for port in ["eth0", "eth1"] {
                    hosts.between.ip(&format!("link set dev {port} master bridge"));
                }
            }
            Self::Millrace(configuration) => return configuration.start(hosts),
        }
        Ok(Running { program: None })
    }
}

/// Loads the rules of nftables.
fn load(hosts: &Hosts, rules: &str) -> anyhow::Result<()> {
    let mut command = hosts.between.command("nft");
    let command = command.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut nft = command.spawn().context("nft")?;
    nft.stdin.take().context("nft")?.write_all(rules.as_bytes())?;
    let ended = nft.wait_with_output()?;
    ensure!(ended.status.success(), "nft: {}", String::from_utf8_lossy(&ended.stderr));
    Ok(())
}

impl Configuration {
    fn start(&self, hosts: &Hosts) -> anyhow::Result<Running> {
        let place = tempfile::tempdir()?;
        let mut command = hosts.between.command(&millrace()?);
        command.args(["run", "--no-table", "--json", "--method", self.method, "--unix-socket"]);
        command.arg(socket(place.path()));
        if let Some(core) = self.core {
            command.arg(format!("--affinity={core}"));
        }
        match self.source {
            Source::Text(text) => command.args(["-e", text]),
            Source::Example(file) => {
                command.arg(Path::new(EXAMPLES).join(file)).args(&self.variables)
            }
        };
        let program = Program::start(&mut command).context("millrace")?;
        if let Err(why) = program.wait_for_line("control socket: ") {
            bail!("{command:?}: {why}");
        }
        Ok(Running { program: Some((program, place)) })
    }
}

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

fn socket(place: &Path) -> PathBuf {
    place.join("control")
}

impl Running {
    /// The number of the process, unless the kernel does the work.
    pub(crate) fn id(&self) -> Option<u32> {
        self.program.as_ref().map(|(program, _)| program.id())
    }

    /// Reads a handler of Millrace.
    ///
    /// # Errors
    /// It is not Millrace, or there is no such handler.
    pub(crate) fn read(&self, hosts: &Hosts, handler: &str) -> anyhow::Result<String> {
        let (_, place) = self.program.as_ref().context("the kernel has no handlers")?;
        let mut command = hosts.between.command(&millrace()?);
        let said = output(command.args(["read", "-u"]).arg(socket(place.path())).arg(handler))?;
        Ok(said.trim().to_owned())
    }

    /// Ends it. Millrace must end well, with every packet accounted for.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        let Some((program, _place)) = self.program else { return Ok(()) };
        let ended = program.stop()?;
        let said = ended.stderr.join("\n");
        ensure!(ended.status.success(), "millrace: {}: {said}", ended.status);
        let summary: Value = serde_json::from_str(&ended.stdout).context("the summary")?;
        let unbalanced = soak::unbalanced(&summary);
        ensure!(unbalanced.is_empty(), "packets are not accounted for: {unbalanced:?}");
        Ok(())
    }
}

//! The Debian packages that the tests use, installed when they are missing.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

use anyhow::Result;
use millrace_testkit::find_program;

use crate::shell;

/// A package, a program that it brings, and what the tests do with it.
struct Package {
    name: &'static str,
    program: &'static str,
    purpose: &'static str,
}

/// The one list of what the tests need from the system.
const PACKAGES: &[Package] = &[
    Package { name: "iproute2", program: "ip", purpose: "network namespaces and veth pairs" },
    Package {
        name: "iputils-ping",
        program: "ping",
        purpose: "echo, expiring TTLs, large packets",
    },
    Package { name: "iputils-arping", program: "arping", purpose: "ARP asked for by hand" },
    Package { name: "traceroute", program: "traceroute", purpose: "the hops that answer" },
    Package { name: "tcpdump", program: "tcpdump", purpose: "a second opinion about pcap files" },
    Package { name: "iperf3", program: "iperf3", purpose: "TCP through a router" },
    Package { name: "ethtool", program: "ethtool", purpose: "offloads on and off" },
    Package { name: "dpdk", program: "dpdk-devbind.py", purpose: "DPDK's virtual devices" },
    Package { name: "libdpdk-dev", program: "dpdk-devbind.py", purpose: "DPDK's plugin" },
    Package { name: "pkgconf", program: "pkg-config", purpose: "where the plugin finds DPDK" },
    // It brings no program; where dpkg cannot be asked it counts as missing.
    Package {
        name: "libhyperscan5",
        program: "libhs.so.5",
        purpose: "a second matcher of patterns",
    },
    Package { name: "valgrind", program: "valgrind", purpose: "instructions that hot loops take" },
    Package { name: "procps", program: "sysctl", purpose: "settings of the kernel's network" },
];

/// The packages of the workspace that can be built here, as words for Cargo: the plugin for DPDK
/// where there is a DPDK to build it against.
pub(crate) fn buildable() -> &'static [&'static str] {
    let mut probe = Command::new("pkg-config");
    match shell::succeeds(probe.args(["--exists", "libdpdk >= 22.11"])) {
        true => &["--workspace"],
        false => &["--workspace", "--exclude", "millrace-dpdk"],
    }
}

/// How we become root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Privilege {
    Root,
    Sudo,
}

/// Installs what is missing, saying so first. What cannot be installed is named and left: the
/// tests that need it leave themselves out with a line.
///
/// Returns a remark for the summary.
pub(crate) fn ensure() -> Result<String> {
    let missing: Vec<&Package> = PACKAGES.iter().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(format!("{} present", PACKAGES.len()));
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if let Some(privilege) = find_program("apt-get").and_then(|_| privilege()) {
        let how = if privilege == Privilege::Sudo { "with sudo" } else { "as root" };
        println!("installing Debian packages that the tests need, {how}: {}", names.join(" "));
        match install(privilege, &names) {
            Ok(()) => return Ok(format!("installed {}", names.join(" "))),
            Err(error) => println!("warning: {error:#}"),
        }
    }
    println!("missing, so that the tests which use them are skipped:");
    for package in &missing {
        println!("  {:<15} {}", package.name, package.purpose);
    }
    println!("to have them: sudo apt-get install {}", names.join(" "));
    Ok(format!("missing: {}", names.join(" ")))
}

/// Asks dpkg by the package's name where there is dpkg, because several packages bring an `arping`
/// or a `traceroute` and their options differ; elsewhere the program must do.
fn is_installed(package: &Package) -> bool {
    if find_program("dpkg-query").is_none() {
        return find_program(package.program).is_some();
    }
    let status = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status}", package.name])
        .stderr(Stdio::null())
        .output();
    status.is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}

fn privilege() -> Option<Privilege> {
    if shell::is_root() {
        return Some(Privilege::Root);
    }
    has_sudo().then_some(Privilege::Sudo)
}

/// True when sudo can be used: somebody at a terminal can type a password; elsewhere it must not
/// need one.
pub(crate) fn has_sudo() -> bool {
    find_program("sudo").is_some()
        && (std::io::stdin().is_terminal()
            || shell::succeeds(Command::new("sudo").args(["--non-interactive", "true"])))
}

fn install(privilege: Privilege, names: &[&str]) -> Result<()> {
    // A fresh machine has no package lists yet.
    shell::run(apt_get(privilege).arg("update"))?;
    shell::run(apt_get(privilege).args(["install", "--yes", "--no-install-recommends"]).args(names))
}

fn apt_get(privilege: Privilege) -> Command {
    let mut command = match privilege {
        Privilege::Root => Command::new("env"),
        Privilege::Sudo => {
            let mut command = Command::new("sudo");
            command.arg("env");
            command
        }
    };
    // iperf3 asks whether to start a server at boot unless told not to ask; another apt may hold
    // the lock on a machine that has just started.
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
    command.args(["-o", "DPkg::Lock::Timeout=120"]);
    command
}

//! The Debian packages that the tests use. They are installed if they are missing.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

use anyhow::Result;
use millrace_testkit::find_program;

use crate::shell;

/// A package, a program in it, and what the tests use it for.
struct Package {
    name: &'static str,
    program: &'static str,
    purpose: &'static str,
}

/// All packages that the tests need.
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
    Package { name: "nftables", program: "nft", purpose: "a second opinion about firewalls" },
    Package { name: "ethtool", program: "ethtool", purpose: "offloads on and off" },
    Package { name: "dpdk", program: "dpdk-devbind.py", purpose: "DPDK's virtual devices" },
    Package { name: "libdpdk-dev", program: "dpdk-devbind.py", purpose: "DPDK's plugin" },
    Package { name: "pkgconf", program: "pkg-config", purpose: "where the plugin finds DPDK" },
    // It contains no program; without dpkg it counts as missing.
    Package {
        name: "libhyperscan5",
        program: "libhs.so.5",
        purpose: "a second matcher of patterns",
    },
    Package { name: "valgrind", program: "valgrind", purpose: "instructions that hot loops take" },
    Package { name: "procps", program: "sysctl", purpose: "settings of the kernel's network" },
];

/// The packages of the workspace that can be built here, as arguments for Cargo: the plugin for DPDK, if DPDK is
/// installed.
pub(crate) fn buildable() -> &'static [&'static str] {
    let mut probe = Command::new("pkg-config");
    match shell::succeeds(probe.args(["--exists", "libdpdk >= 22.11"])) {
        true => &["--workspace"],
        false => &["--workspace", "--exclude", "millrace-dpdk"],
    }
}

/// How the process gets root privileges.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Privilege {
    Root,
    Sudo,
}

/// Prints what is missing, and installs it. Packages that cannot be installed are listed, and the tests that need
/// them are skipped with a message.
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
    println!("missing; the tests that use them are skipped:");
    for package in &missing {
        println!("  {:<15} {}", package.name, package.purpose);
    }
    println!("to install them: sudo apt-get install {}", names.join(" "));
    Ok(format!("missing: {}", names.join(" ")))
}

/// Asks dpkg by the package's name if there is dpkg, because several packages contain an `arping` or a `traceroute`,
/// with different options. Otherwise, searches for the program.
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

/// True if sudo can be used: without a password, or at a terminal, where the user can type it.
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
    // iperf3 asks whether to start a server at boot, unless it is told not to ask. On a machine that has just
    // started, another apt may hold the lock.
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
    command.args(["-o", "DPkg::Lock::Timeout=120"]);
    command
}

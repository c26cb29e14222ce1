//! DPDK's example l3fwd, a C program that only routes. It is fetched as Debian's source package dpdk, changed as
//! little as possible, and built against the installed DPDK.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::apt::{Apt, Kind};
use crate::data;
use crate::shell;

/// A line of the sources that is replaced.
struct Edit {
    file: &'static str,
    /// The start of the line, after its indentation. Exactly one line of the file must match.
    start: &'static str,
    line: &'static str,
}

/// The changes: l3fwd requires features that net_pcap lacks, and its table is too small.
const EDITS: &[Edit] = &[
    Edit {
        file: "main.c",
        start: ".offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM,",
        line: ".offloads = 0,",
    },
    Edit {
        file: "l3fwd_lpm.c",
        start: "#define IPV4_L3FWD_LPM_MAX_RULES ",
        line: "#define IPV4_L3FWD_LPM_MAX_RULES (1 << 20)",
    },
    // The number of /24 networks that may contain longer prefixes.
    Edit {
        file: "l3fwd_lpm.c",
        start: "#define IPV4_L3FWD_LPM_NUMBER_TBL8S ",
        line: "#define IPV4_L3FWD_LPM_NUMBER_TBL8S (1 << 14)",
    },
];

/// The path of the program. If it does not exist for the installed DPDK, prints a message, fetches and builds it.
///
/// # Errors
/// There is no DPDK, or its sources cannot be fetched, have unexpected contents, or cannot be built.
pub(crate) fn program() -> Result<PathBuf> {
    let version = shell::output(Command::new("pkg-config").args(["--modversion", "libdpdk"]))
        .context(
            "there is no DPDK to build l3fwd against: apt-get install dpdk-dev libdpdk-dev pkg-config",
        )?;
    // Other changes make another program.
    let place = shell::target().join(format!("xtask/l3fwd-{}-1", version.trim()));
    let folder = data::once(place, |work| {
        data::need(&["tar", "xz", "make", "cc"], "and building DPDK's l3fwd")?;
        println!("fetching and building DPDK's l3fwd (10 MB of lists, 16 MB)");
        let apt = Apt::new(work, Kind::Source, "DPDK's l3fwd")?;
        let archive = apt.fetch("dpdk")?;
        let tree = work.join("dpdk");
        data::unpack(&archive, &tree, &["*/VERSION", "*/examples/l3fwd", "*/examples/common"])?;
        let fetched = fs::read_to_string(tree.join("VERSION"))?;
        ensure!(
            fetched.trim() == version.trim(),
            "DPDK {} is installed, but its sources are of {}",
            version.trim(),
            fetched.trim()
        );
        let sources = tree.join("examples/l3fwd");
        EDITS.iter().try_for_each(|edit| edit.apply(&sources))?;
        // Uses the example's own Makefile: -O3, and the flags of libdpdk from pkg-config.
        shell::run(Command::new("make").arg("--silent").arg("--directory").arg(&sources))?;
        Ok(tree)
    })?;
    Ok(folder.join("examples/l3fwd/build/l3fwd-shared"))
}

impl Edit {
    fn apply(&self, sources: &Path) -> Result<()> {
        let path = sources.join(self.file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let text = self.edited(&text).with_context(|| path.display().to_string())?;
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    fn edited(&self, text: &str) -> Result<String> {
        let mut found = 0;
        let line = |line: &str| match line.trim_start().starts_with(self.start) {
            true => {
                found += 1;
                format!("{}\n", self.line)
            }
            false => format!("{line}\n"),
        };
        let edited = text.lines().map(line).collect();
        match found {
            1 => Ok(edited),
            count => bail!("{count} lines start with ‘{}’, where one should", self.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_replaces_exactly_one_line() {
        let edit = Edit { file: "", start: "#define A ", line: "#define A 2" };
        assert_eq!(edit.edited("b\n  #define A 1\nA\n").unwrap(), "b\n#define A 2\nA\n");
        assert!(edit.edited("#define AB 1\n").is_err());
        assert!(edit.edited("#define A 1\n#define A 1\n").is_err());
    }
}

//! DPDK's plugin, which the program loads and tests build.

#![allow(clippy::expect_used, reason = "what cannot be set up fails the test")]

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Builds the plugin, once, where `program` of the same target folder finds it.
///
/// False, and said in the name of `test`, where there is no DPDK to build it against.
///
/// # Panics
/// The plugin cannot be built although DPDK is there.
pub fn has_dpdk_plugin(program: &Path, test: &str) -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    let there = *BUILT.get_or_init(|| {
        let mut probe = Command::new("pkg-config");
        let there = probe.args(["--exists", "libdpdk >= 22.11"]).status();
        let there = there.is_ok_and(|status| status.success());
        if there {
            build(program);
        }
        there
    });
    if !there {
        crate::announce(test, &"needs libdpdk-dev");
    }
    there
}

fn build(program: &Path) {
    // target/debug/millrace
    let target = program.ancestors().nth(2).expect("a program lies in the folder of its profile");
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", "millrace-dpdk", "--target-dir"]).arg(target);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

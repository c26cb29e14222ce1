//! Builds the plugin once for all tests.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Builds the plugin where the program finds it. False, and said, where there is no DPDK.
pub(crate) fn ready(test: &str) -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    let there = *BUILT.get_or_init(|| {
        let mut probe = Command::new("pkg-config");
        let there = probe.args(["--exists", "libdpdk >= 22.11"]).status();
        let there = there.is_ok_and(|status| status.success());
        if there {
            build();
        }
        there
    });
    if !there {
        millrace_testkit::announce(test, &"needs libdpdk-dev");
    }
    there
}

fn build() {
    // target/debug/millrace
    let target = Path::new(env!("CARGO_BIN_EXE_millrace")).ancestors().nth(2).unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", "millrace-dpdk", "--target-dir"]).arg(target);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Ends the test, aloud, where there is no DPDK.
macro_rules! needs_dpdk {
    () => {{
        fn here() {}
        if !$crate::plugin::ready(millrace_testkit::enclosing(here)) {
            return;
        }
    }};
}

pub(crate) use needs_dpdk;

//! The tests that run under each tool.

use std::process::Command;

use super::tool::Tool;
use super::toolchain::{host, nightly};
use crate::shell;

/// Some of a crate's unit tests.
pub(super) struct Check {
    /// What the summary calls them.
    pub(super) part: &'static str,
    package: &'static str,
    /// Parts of their names.
    words: &'static [&'static str],
    tools: &'static [Tool],
    /// Whether it is for a deep run only.
    is_deep: bool,
}

const MIRI: &[Tool] = &[Tool::Stacked, Tool::Tree];
const SANITIZERS: &[Tool] = &[Tool::Address, Tool::Thread];

/// Each of them, in this order.
pub(super) const ALL: &[Check] = &[
    Check {
        part: "core: memory",
        package: "millrace-core",
        words: &["memory::"],
        tools: MIRI,
        is_deep: false,
    },
    Check {
        part: "core: locks, published values, tasks",
        package: "millrace-core",
        words: &["engine::", "schedule::", "sync::", "stats::", "run::drained"],
        tools: MIRI,
        is_deep: false,
    },
    Check { part: "core", package: "millrace-core", words: &[], tools: SANITIZERS, is_deep: false },
    Check { part: "io", package: "millrace-io", words: &[], tools: SANITIZERS, is_deep: false },
    Check {
        part: "elements: rewriters, flow tables, rings, routing tables",
        package: "millrace-elements",
        words: &["rewrite::", "flows::", "threads::", "ip::lookup::"],
        tools: SANITIZERS,
        is_deep: false,
    },
    Check {
        part: "elements: all",
        package: "millrace-elements",
        words: &[],
        tools: SANITIZERS,
        is_deep: true,
    },
];

impl Check {
    /// Whether a run with this tool has it.
    pub(super) fn is_in(&self, tool: Tool, deep: bool) -> bool {
        self.tools.contains(&tool) && (deep || !self.is_deep)
    }

    pub(super) fn command(&self, tool: Tool) -> Command {
        let mut command = nightly("cargo");
        // Builds for one sanitizer cannot be used for another one.
        command.env("CARGO_TARGET_DIR", shell::target().join("sanitize").join(tool.name()));
        command.env("CARGO_PROFILE_DEV_DEBUG", "0");
        match tool {
            Tool::Stacked | Tool::Tree => self.miri(&mut command, tool),
            _ => self.sanitizer(&mut command, tool),
        }
        command.args(["-p", self.package, "--lib", "--"]).args(self.words);
        command
    }

    fn miri(&self, command: &mut Command, tool: Tool) {
        command.env("CARGO_TARGET_DIR", shell::target());
        // Tests look at the clock, at files of the machine and at their environment.
        let flags = match tool {
            Tool::Tree => "-Zmiri-disable-isolation -Zmiri-tree-borrows",
            _ => "-Zmiri-disable-isolation",
        };
        command.env("MIRIFLAGS", flags).args(["miri", "test"]);
    }

    fn sanitizer(&self, command: &mut Command, tool: Tool) {
        command.env("RUSTFLAGS", format!("-Zsanitizer={}", tool.name()));
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").arg("test");
        if tool == Tool::Thread {
            // Otherwise it does not see how the standard library orders accesses.
            command.arg("-Zbuild-std");
        }
        command.args(["--target", &host()]);
    }
}

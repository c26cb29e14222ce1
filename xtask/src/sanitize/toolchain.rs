//! The nightly compiler and its components.

use std::process::Command;

use anyhow::{Result, bail};
use millrace_testkit::find_program;

use super::tool::Tool;
use crate::shell;

/// The toolchain of Miri and of the sanitizers.
pub(super) const NIGHTLY: &str = "nightly";

/// A program of that toolchain, in the root of the repository.
pub(super) fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", NIGHTLY, program]).current_dir(shell::root());
    // They are those of the toolchain that runs this program.
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

/// Installs what a tool needs.
///
/// # Errors
/// There is no rustup, or it cannot install it.
pub(super) fn need(tool: Tool) -> Result<()> {
    let is_there = match tool {
        Tool::Models => true,
        Tool::Stacked | Tool::Tree => {
            has_source() && shell::succeeds(nightly("cargo").args(["miri", "--version"]))
        }
        Tool::Address => shell::succeeds(nightly("cargo").arg("--version")),
        Tool::Thread => has_source(),
    };
    if is_there {
        return Ok(());
    }
    if find_program("rustup").is_none() {
        bail!("it needs rustup, a nightly toolchain and its components miri and rust-src");
    }
    let install = ["toolchain", "install", NIGHTLY, "--profile", "minimal"];
    let components = ["--component", "miri", "--component", "rust-src"];
    let mut command = Command::new("rustup");
    command.args(install).args(components);
    println!("installing a toolchain: {}", shell::describe(&command));
    shell::run(&mut command)
}

/// Whether the source of the standard library is there, to build it anew.
fn has_source() -> bool {
    let root = shell::output(nightly("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    let source = std::path::Path::new(root.trim_end()).join("lib/rustlib/src/rust/library");
    !root.is_empty() && source.is_dir()
}

/// The machine that the compiler compiles for: sanitizers want to be told.
pub(super) fn host() -> String {
    shell::host(&mut nightly("rustc")).unwrap_or_default()
}

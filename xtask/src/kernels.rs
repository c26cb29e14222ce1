//! `cargo xtask kernels`: compiles the GPU's kernels again.

use anyhow::Result;
use millrace_testkit::data::Data;

use crate::{data, shell};

/// Writes `crates/gpu/kernels/ptx` and `registers.json`. Needs no GPU: it runs the test that normally compares the
/// files, and lets it write them.
///
/// # Errors
/// The compiler is not available, or a kernel does not compile as expected.
pub(crate) fn run() -> Result<()> {
    let compiler = data::fetch(Data::Nvrtc)?;
    let mut command = shell::cargo();
    command.args(["test", "--package", "millrace-gpu", "--test", "nvrtc"]);
    shell::run(command.env(Data::Nvrtc.variable(), compiler).env("MILLRACE_BLESS", "1"))
}

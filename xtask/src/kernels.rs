//! `cargo xtask kernels`: what is kept of the compiled kernels, made anew.

use anyhow::Result;
use millrace_testkit::data::Data;

use crate::{data, shell};

/// Writes `crates/gpu/kernels/ptx` and `registers.json`. Needs no GPU: the test that else compares them writes them.
///
/// # Errors
/// The compiler cannot be had, or a kernel does not compile as it should.
pub(crate) fn run() -> Result<()> {
    let compiler = data::fetch(Data::Nvrtc)?;
    let mut command = shell::cargo();
    command.args(["test", "--package", "millrace-gpu", "--test", "nvrtc"]);
    shell::run(command.env(Data::Nvrtc.variable(), compiler).env("MILLRACE_BLESS", "1"))
}

//! The `millrace` program: one sub-command a module under `commands`, and `click` for those who
//! call it by that name.
//!
//! [`control`] is for elements too: it serves handlers over sockets.

// Elements register themselves when their crate is linked, and it is linked when it is named.
use millrace_elements as _;

mod archive;
mod click;
mod commands;
mod config;
pub mod control;
mod dpdk;
mod drawing;
mod lab;
mod messages;
mod output;
mod report;
mod session;
mod signals;
mod tools;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Runs the program with the arguments of the process. Called as `click` it is Click, and called as
/// one of Click's tools it is that.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == "click") {
        // `ps` and `pkill` know the process by this name, whichever file was started.
        let _ = rustix::thread::set_name(c"click");
        return click::main(args);
    }
    if let Some(tool) = name.and_then(|name| tools::find(name.to_str()?)) {
        return tool.main(args.get(1..).unwrap_or_default());
    }
    match commands::main(args) {
        Ok(code) => code,
        // Whoever read our output has seen enough.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            messages::complain(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

//! The `millrace` program: each sub-command is a module in `commands`. Called as `click`, the program accepts Click's
//! options.
//!
//! The module [`control`] is public because elements use it too: it serves handlers over sockets; of [`sandbox`], what the
//! fuzzer is confined by.

// Elements register themselves when their crate is linked, and a crate is linked only if code names it.
use millrace_elements as _;

millrace_core::declares_needs!();

mod absent;
mod archive;
mod click;
mod commands;
mod config;
mod consent;
pub mod control;
mod dpdk;
mod drawing;
mod forecast;
mod http;
mod lab;
mod manual;
mod messages;
mod model;
mod output;
mod report;
pub mod sandbox;
mod session;
mod signals;
mod tools;
mod top;
mod watch;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Runs the program with the arguments of the process. If it was called as `click` or by the name of one of Click's
/// tools, it behaves as that program.
pub fn main() -> ExitCode {
    if let Err(error) = signals::outlive_long_files() {
        messages::complain(format_args!("signals: {error}"));
    }
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == "click") {
        // `ps` and `pkill` find the process under this name, whatever the name of the file.
        let _ = rustix::thread::set_name(c"click");
        return click::main(args);
    }
    if let Some(tool) = name.and_then(|name| tools::find(name.to_str()?)) {
        return tool.main(args.get(1..).unwrap_or_default());
    }
    match commands::main(args) {
        Ok(code) => code,
        // The reader of the output has closed it, which is not an error.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            messages::complain(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

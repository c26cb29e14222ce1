//! `click`: starts `millrace`, which stands beside it, by the name that this program was called by. So it is not the
//! whole program a second time.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| "click".into());
    // Links are followed: what counts is where the file itself stands.
    let program = match std::env::current_exe() {
        Ok(own) => own.with_file_name("millrace"),
        Err(error) => {
            eprintln!("click: cannot find where it stands itself: {error}");
            return ExitCode::FAILURE;
        }
    };
    // The process becomes the program; exec returns only if it cannot.
    let error = Command::new(&program).arg0(name).args(args).exec();
    eprintln!("click: cannot start {}, which must stand beside it: {error}", program.display());
    ExitCode::FAILURE
}

//! `click`: executes the file `millrace` in the same directory, under the name that this program was called by. So
//! the package contains the program only once.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| "click".into());
    // Symbolic links are followed, because the directory of the file itself matters.
    let program = match std::env::current_exe() {
        Ok(own) => own.with_file_name("millrace"),
        Err(error) => {
            eprintln!("click: cannot find its own path: {error}");
            return ExitCode::FAILURE;
        }
    };
    // The process becomes `millrace`; exec returns only if it fails.
    let error = Command::new(&program).arg0(name).args(args).exec();
    eprintln!(
        "click: cannot start {}, which must be in the same directory: {error}",
        program.display()
    );
    ExitCode::FAILURE
}

//! The description of a tool, and how it is run.

use std::ffi::OsString;
use std::process::ExitCode;

use super::session::Session;

/// A tool.
pub(crate) struct Tool {
    /// The name by which it is called.
    pub(crate) name: &'static str,
    /// What it does, in a line.
    pub(crate) about: &'static str,
    /// The text of its `--help`, after the usage line.
    pub(super) options: &'static str,
    pub(super) run: fn(&mut Session, &[String]) -> Result<(), Stop>,
}

/// The reason why a tool ends early.
pub(super) enum Stop {
    /// It failed, and the error is printed.
    Failed,
    /// The command line is invalid, and the error is printed.
    Usage,
    /// The command line asked for help or the version.
    Answered,
}

impl Tool {
    /// Runs it with the arguments after its name.
    pub(crate) fn main(&'static self, args: &[OsString]) -> ExitCode {
        let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let mut session = Session::new(self);
        match (self.run)(&mut session, &args) {
            Ok(()) if session.errors() == 0 => ExitCode::SUCCESS,
            Ok(()) | Err(Stop::Failed) => ExitCode::FAILURE,
            Err(Stop::Answered) => ExitCode::SUCCESS,
            Err(Stop::Usage) => {
                session.say(format_args!("Usage: {} [OPTION]... [ROUTERFILE]", self.name));
                session.say(format_args!("Try ‘{} --help’ for more information.", self.name));
                ExitCode::FAILURE
            }
        }
    }
}

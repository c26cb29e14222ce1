//! What a tool is, and how it runs.

use std::ffi::OsString;
use std::process::ExitCode;

use super::session::Session;

/// A tool.
pub(crate) struct Tool {
    /// What it is called by.
    pub(crate) name: &'static str,
    /// What it does, in a line.
    pub(crate) about: &'static str,
    /// What it prints when asked for help, after the line that says how to use it.
    pub(super) options: &'static str,
    pub(super) run: fn(&mut Session, &[String]) -> Result<(), Stop>,
}

/// Why a tool ends before its time.
pub(super) enum Stop {
    /// What is wrong has been said.
    Failed,
    /// The command line makes no sense; that has been said, too.
    Usage,
    /// It was asked for help or its version.
    Answered,
}

impl Tool {
    /// Runs it with the arguments behind its name.
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

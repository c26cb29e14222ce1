//! Click's companion tools: each the program under another name (`click-flatten`), and a
//! sub-command (`millrace click-flatten`).

mod align;
mod buildtool;
mod check;
mod clp;
mod combine;
mod flatten;
mod links;
mod pretty;
mod processing;
mod router;
mod same;
mod session;
mod traits;
mod uncombine;
mod undead;
mod xform;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use links::install_links;
use session::Session;

/// A tool.
pub(crate) struct Tool {
    /// What it is called by.
    pub(crate) name: &'static str,
    /// What it does, in a line.
    pub(crate) about: &'static str,
    /// What it prints when asked for help, after the line that says how to use it.
    options: &'static str,
    run: fn(&mut Session, &[String]) -> Result<(), Stop>,
}

/// Why a tool ends before its time.
enum Stop {
    /// What is wrong has been said.
    Failed,
    /// The command line makes no sense; that has been said, too.
    Usage,
    /// It was asked for help or its version.
    Answered,
}

/// Every tool.
pub(crate) const TOOLS: &[Tool] = &[
    align::TOOL,
    buildtool::TOOL,
    check::TOOL,
    combine::TOOL,
    flatten::TOOL,
    same::DEVIRTUALIZE,
    same::FASTCLASSIFIER,
    same::INSTALL,
    same::UNINSTALL,
    same::MKMINDRIVER,
    pretty::TOOL,
    uncombine::TOOL,
    undead::TOOL,
    xform::TOOL,
];

/// The tool that a program's name means.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_links_every_tool() {
        let mut names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        names.sort_unstable();
        assert_eq!(include_str!("names.txt").lines().collect::<Vec<_>>(), names);
    }
}

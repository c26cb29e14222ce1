//! The sub-commands, one module each.

mod capture;
mod check;
mod elements;
mod flatten;
mod fmt;
mod graph;
mod handlers;
mod links;
mod plan;
mod remote;
mod run;
mod top;
mod trace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::tools;

/// Runs routers written in the Click language: fast, in batches of packets.
#[derive(Parser)]
#[command(name = "millrace", version, max_term_width = 100)]
#[command(after_help = "Click's tools are sub-commands, too: click-flatten, click-pretty, \
    click-check, click-align, click-undead, click-xform, click-combine, click-uncombine, \
    click-buildtool; each explains itself with --help.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(run::Run),
    Check(check::Check),
    Flatten(flatten::Flatten),
    Fmt(fmt::Fmt),
    Graph(graph::Graph),
    Plan(plan::Plan),
    Elements(elements::Elements),
    Handlers(handlers::Handlers),
    Top(top::Top),
    Read(remote::Read),
    Write(remote::Write),
    Hotswap(remote::Hotswap),
    Capture(capture::Capture),
    Trace(trace::Trace),
    InstallLinks(links::InstallLinks),
}

/// Runs the sub-command that the arguments name.
pub(crate) fn main(args: Vec<OsString>) -> anyhow::Result<ExitCode> {
    if let Some((name, args)) = args.get(1..).and_then(<[OsString]>::split_first)
        && let Some(tool) = name.to_str().and_then(tools::find)
    {
        return Ok(tool.main(args));
    }
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output, errors go to standard error. A closed output is ignored.
            let _ = error.print();
            return Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)));
        }
    };
    match cli.command {
        Command::Run(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Flatten(command) => command.run(),
        Command::Fmt(command) => command.run(),
        Command::Graph(command) => command.run(),
        Command::Plan(command) => command.run(),
        Command::Elements(command) => command.run(),
        Command::Handlers(command) => command.run(),
        Command::Top(command) => command.run(),
        Command::Read(command) => command.run(),
        Command::Write(command) => command.run(),
        Command::Hotswap(command) => command.run(),
        Command::Capture(command) => command.run(),
        Command::Trace(command) => command.run(),
        Command::InstallLinks(command) => command.run(),
    }
}

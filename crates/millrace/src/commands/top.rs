//! `millrace top`: shows a running router on the terminal.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;

use super::remote::Place;
use super::run::duration;
use crate::output;
use crate::top::{Remote, once, watch};

/// Shows a running router on the terminal: rates, loads, drops, queues, elements and their handlers
#[derive(clap::Args)]
pub(crate) struct Top {
    #[command(flatten)]
    place: Place,

    /// Prints one page of plain text, and ends
    #[arg(long)]
    once: bool,

    /// The time between two refreshes, such as `500ms`
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    every: Duration,
}

/// More often, the router would work for nobody but its viewers.
const SHORTEST: Duration = Duration::from_millis(100);

impl Top {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let every = self.every.max(SHORTEST);
        if !self.once && !std::io::stdout().is_terminal() {
            bail!("standard output is no terminal: --once prints one page of text");
        }
        let client = self.place.connect()?;
        let place = self.place;
        let mut remote = Remote::new(client, move || place.connect());
        match self.once {
            true => output::print(once(&mut remote, every)?)?,
            false => watch(Box::new(remote), every)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

//! `millrace flatten`: prints a configuration without compound elements.

use std::process::ExitCode;

use millrace_lang::print_flat;

use crate::config::{Input, load};
use crate::messages::show;
use crate::output;

/// Prints a configuration with its compound elements expanded and its variables replaced
#[derive(clap::Args)]
pub(crate) struct Flatten {
    #[command(flatten)]
    input: Input,
}

impl Flatten {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (origin, variables) = self.input.resolve()?;
        let loaded = load(&origin, &variables, None)?;
        show(&loaded.diagnostics, &loaded.map);
        if loaded.has_errors() {
            return Ok(ExitCode::FAILURE);
        }
        output::print(print_flat(&loaded.graph))?;
        Ok(ExitCode::SUCCESS)
    }
}

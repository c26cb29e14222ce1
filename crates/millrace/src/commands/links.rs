//! `millrace install-links`: the names of Click's programs.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::output;
use crate::tools;

/// Links the names of Click and of its tools to this program, in a directory
#[derive(clap::Args)]
pub(crate) struct InstallLinks {
    /// The directory; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl InstallLinks {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        for name in tools::install_links(&self.folder)? {
            output::print(format!("{}\n", self.folder.join(name).display()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

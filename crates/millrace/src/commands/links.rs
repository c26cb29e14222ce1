//! `millrace install-links`: creates links with the names of Click's programs.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::output;
use crate::tools;

/// Creates symbolic links with the names of click and of its tools in a directory
#[derive(clap::Args)]
pub(crate) struct InstallLinks {
    /// The directory; it is created if it does not exist
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

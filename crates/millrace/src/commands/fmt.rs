//! `millrace fmt`: formats configurations in the standard layout.

use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::config::{Input, Origin, read};
use crate::messages::{complain, say, show};
use crate::output;

/// Formats configurations, and prints the result unless --check or --write is given
#[derive(clap::Args)]
pub(crate) struct Fmt {
    #[command(flatten)]
    input: Input,

    /// Only reports the files that are formatted differently; the exit status is 1 if there are any
    #[arg(long, conflicts_with = "write")]
    check: bool,

    /// Writes the result back to the files
    #[arg(long)]
    write: bool,
}

impl Fmt {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (origins, variables) = self.input.resolve_all()?;
        if let Some((name, _)) = variables.first() {
            bail!("formatting does not use values of variables: remove the one for ‘{name}’");
        }
        if origins.is_empty() {
            bail!("no configuration is given: name files, `-` for standard input, or `-e EXPR`");
        }
        let mut fine = true;
        for origin in &origins {
            fine &= match self.lay_out(origin) {
                Ok(fine) => fine,
                Err(error) if output::is_broken_pipe(&error) => return Err(error),
                // The other files are formatted nevertheless.
                Err(error) => {
                    complain(format_args!("{error:#}"));
                    false
                }
            };
        }
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Formats one text. Returns true if it has no errors and, with `--check`, is formatted already.
    fn lay_out(&self, origin: &Origin) -> anyhow::Result<bool> {
        let (mut map, source) = read(origin)?;
        let text = match millrace_lang::format(&mut map, source) {
            Ok(text) => text,
            Err(diagnostics) => {
                show(&diagnostics, &map);
                return Ok(false);
            }
        };
        let before = map.get(source).map_or("", |source| &source.text);
        let changed = text != before;
        if self.check {
            if changed {
                say(map.get(source).map_or("", |source| &source.name));
            }
            return Ok(!changed);
        }
        match origin {
            Origin::File(path) if self.write => {
                if changed {
                    std::fs::write(path, text).with_context(|| path.display().to_string())?;
                }
            }
            _ if self.write => bail!("--write needs files to write to"),
            _ => output::print(text)?,
        }
        Ok(true)
    }
}

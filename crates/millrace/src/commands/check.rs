//! `millrace check`: says what is wrong with configurations and touches no device.

use std::process::ExitCode;

use millrace_lang::Diagnostic;

use crate::config::{Input, Loaded, Origin, Variable, load};
use crate::dpdk::DpdkOptions;
use crate::messages::{complain, say, show, tally};
use crate::report::Ledger;
use crate::session::{Choices, configure, services};

/// Says all that is wrong with configurations, without touching a device
#[derive(clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    input: Input,

    /// What DPDK would be started with; it is not, for no device is touched
    #[command(flatten)]
    dpdk: DpdkOptions,
}

impl Check {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.dpdk.leave(&self.input)?;
        let (origins, variables) = self.input.resolve_all()?;
        if origins.is_empty() {
            anyhow::bail!("which configuration? Name files, `-` or `-e EXPR`");
        }
        let mut fine = true;
        for origin in &origins {
            fine &= match check(origin, &variables) {
                Ok(fine) => fine,
                // The other files are checked all the same.
                Err(error) => {
                    complain(format_args!("{error:#}"));
                    false
                }
            };
        }
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Checks one configuration; returns whether it could run.
fn check(origin: &Origin, variables: &[Variable]) -> anyhow::Result<bool> {
    let mut loaded = load(origin, variables, None)?;
    let options = Choices::default().options(services(None, &Ledger::default()))?;
    let router = configure(&mut loaded, options);
    let advice = router.iter().flat_map(|router| router.advice());
    let findings: Vec<Diagnostic> = loaded.diagnostics.iter().chain(advice).cloned().collect();
    show(&findings, &loaded.map);
    say(verdict(&loaded));
    Ok(router.is_some())
}

fn verdict(loaded: &Loaded) -> String {
    let name = loaded.name();
    match tally(&loaded.diagnostics).as_str() {
        "" => format!("{name}: {} elements, no errors", loaded.graph.elements.len()),
        counts => format!("{name}: {counts}"),
    }
}

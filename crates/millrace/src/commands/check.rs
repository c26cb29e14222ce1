//! `millrace check`: reports all errors of configurations. It opens no device.

use std::process::ExitCode;

use millrace_lang::Diagnostic;

use crate::config::{Input, Loaded, Origin, Variable, load};
use crate::dpdk::DpdkOptions;
use crate::forecast::Outlook;
use crate::messages::{complain, say, show, tally};
use crate::model::Model;
use crate::session::{Choices, Reach, configure, services};

/// Reports all errors of configurations, without opening a device
#[derive(clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    input: Input,

    /// Options for DPDK, as for `millrace run`. They are checked only: DPDK is not started
    #[command(flatten)]
    dpdk: DpdkOptions,
}

impl Check {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.dpdk.leave(&self.input)?;
        let (origins, variables) = self.input.resolve_all()?;
        if origins.is_empty() {
            anyhow::bail!(
                "no configuration is given: name files, `-` for standard input, or `-e \
                           EXPR`"
            );
        }
        let mut fine = true;
        for origin in &origins {
            fine &= match check(origin, &variables) {
                Ok(fine) => fine,
                // The other files are checked nevertheless.
                Err(error) => {
                    complain(format_args!("{error:#}"));
                    false
                }
            };
        }
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Checks one configuration; returns true if it could run.
fn check(origin: &Origin, variables: &[Variable]) -> anyhow::Result<bool> {
    let mut loaded = load(origin, variables, None)?;
    let options = Choices::default().options(services(Reach::Guarded, &Model::default()))?;
    let router = configure(&mut loaded, options);
    let advice = router.iter().flat_map(|router| router.advice());
    let memory = router.as_ref().map(|router| Outlook::of(router).line());
    let findings: Vec<Diagnostic> = loaded.diagnostics.iter().chain(advice).cloned().collect();
    show(&findings, &loaded.map);
    memory.iter().for_each(say);
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

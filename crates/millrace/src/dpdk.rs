//! DPDK around a run: `--dpdk EAL-OPTIONS --`, its start before threads are there, its end after
//! the last packet.

use anyhow::bail;
use millrace_io::dpdk;
use millrace_lang::Graph;

use crate::config::Input;
use crate::messages::complain;

/// `--dpdk`, for the sub-commands that have it.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct DpdkOptions {
    /// Options for DPDK, up to `--`: `--dpdk -l 0-3 -a 0000:03:00.0 -- FILE`
    #[arg(
        long,
        value_name = "EAL-OPTIONS... --",
        num_args = 0..,
        value_terminator = "--",
        allow_hyphen_values = true
    )]
    pub(crate) dpdk: Option<Vec<String>>,
}

impl DpdkOptions {
    /// Looks whether the options have an end.
    ///
    /// # Errors
    /// They have swallowed the rest of the command line, the configuration with it.
    pub(crate) fn leave(&self, input: &Input) -> anyhow::Result<()> {
        if self.dpdk.is_some() && input.expression.is_none() && input.words.is_empty() {
            bail!(
                "which configuration? The options of --dpdk end with `--`; FILE or `-e EXPR` follows"
            );
        }
        Ok(())
    }
}

/// Classes whose elements are of no use without DPDK.
const CLASSES: &[&str] = &["FromDPDKDevice", "ToDPDKDevice"];

/// DPDK for as long as a router needs it. Make it before the router is configured and keep it until the
/// last packet is gone.
pub(crate) struct Running(());

impl Running {
    /// Starts DPDK if options for it were given or the configuration is of no use without.
    ///
    /// # Errors
    /// It was asked for and does not start. Elements that need it say so themselves.
    pub(crate) fn prepare(
        options: Option<&[String]>,
        graph: Option<&Graph>,
    ) -> anyhow::Result<Self> {
        let needed = |graph: &Graph| {
            graph.elements.iter().any(|element| CLASSES.contains(&element.class.as_str()))
        };
        if let Some(options) = options {
            dpdk::choose_options(options.to_vec());
            if let Err(problem) = dpdk::start() {
                bail!("--dpdk: {problem}");
            }
        } else if graph.is_some_and(needed) {
            // The elements report a failure, each at its place.
            let _ = dpdk::start();
        }
        Ok(Self(()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        dpdk::finish().iter().for_each(complain);
    }
}

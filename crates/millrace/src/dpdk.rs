//! The option `--dpdk EAL-OPTIONS --`. DPDK is started before the router's threads, and ended after the last packet
//! is freed.

use anyhow::bail;
use millrace_io::dpdk;
use millrace_lang::Graph;

use crate::config::Input;
use crate::messages::complain;

/// The option `--dpdk`, for the sub-commands that have it.
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
    /// Checks that the options end with `--`.
    ///
    /// # Errors
    /// The options contain the rest of the command line, including the configuration.
    pub(crate) fn leave(&self, input: &Input) -> anyhow::Result<()> {
        if self.dpdk.is_some() && input.expression.is_none() && input.words.is_empty() {
            bail!(
                "no configuration is given: end the options of --dpdk with `--`, then name FILE \
                 or `-e EXPR`"
            );
        }
        Ok(())
    }
}

/// Classes whose elements need DPDK.
const CLASSES: &[&str] = &["FromDPDKDevice", "ToDPDKDevice"];

/// DPDK, as long as a router needs it. It is created before the router is configured, and dropped after the last
/// packet is freed.
pub(crate) struct Running(());

impl Running {
    /// Starts DPDK if the command line has options for it, or if the configuration has elements that need it.
    ///
    /// # Errors
    /// The command line asks for DPDK, and it does not start. Elements that need DPDK report the failure themselves.
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
            // Each element reports the failure with its own place.
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

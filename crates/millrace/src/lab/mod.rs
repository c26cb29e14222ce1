//! The lab: a virtual network for every device of a configuration, so that any router file runs
//! on a laptop without privileges.

use std::path::PathBuf;
use std::sync::Arc;

use millrace_io::Backend;
use millrace_lang::Graph;
use serde_json::Value;

/// What the user wants of the lab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spec {
    /// Devices that replay a capture file; all others get hosts.
    pub(crate) traces: Vec<(String, PathBuf)>,
}

impl Spec {
    /// Reads `DEVICE=FILE,...`.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let traces = pairs.map(|pair| match pair.split_once('=') {
            Some((device, file)) if !device.is_empty() && !file.is_empty() => {
                Ok((device.to_owned(), PathBuf::from(file)))
            }
            _ => Err(format!("expected DEVICE=FILE, not ‘{pair}’")),
        });
        Ok(Self { traces: traces.collect::<Result<_, _>>()? })
    }
}

/// A virtual network that stands.
pub(crate) struct Lab {
    /// The devices.
    pub(crate) backend: Arc<dyn Backend>,
    /// What was set up, in sentences.
    pub(crate) announcement: Vec<String>,
    /// What arrived where, once the router has stopped.
    pub(crate) report: Box<dyn Fn() -> Report + Send>,
}

/// What the hosts of a lab saw.
pub(crate) struct Report {
    /// For people.
    pub(crate) text: String,
    /// For programs.
    pub(crate) json: Value,
    /// Whether all arrived that should have.
    pub(crate) complete: bool,
}

/// Builds the network around the devices of a configuration.
///
/// # Errors
/// A trace cannot be read, or a device of `spec` is not in the configuration.
pub(crate) fn backend(_spec: &Spec, _graph: &Graph, _seed: u64) -> anyhow::Result<Lab> {
    anyhow::bail!("--lab: the virtual network is not part of this build yet")
}

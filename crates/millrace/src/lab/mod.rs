//! The lab: a virtual network for every device of a configuration, so that any router file runs
//! on a laptop without privileges.

mod backend;
mod exchange;
mod frame;
mod host;
mod network;
mod trace;
mod world;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::bail;
use millrace_core::{Lock, Router};
use millrace_io::Backend;
use millrace_lang::Graph;

use backend::LabBackend;
use trace::Trace;
pub(crate) use world::Report;
use world::World;

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
    router: Arc<OnceLock<Arc<Router>>>,
}

impl Lab {
    /// Says which router stands in the lab: it is stopped when everything has been tried.
    pub(crate) fn attach(&self, router: &Arc<Router>) {
        // A lab has one router.
        let _ = self.router.set(router.clone());
    }
}

/// Builds the network around the devices of a configuration.
///
/// # Errors
/// A trace cannot be read, or a device of `spec` is not in the configuration.
pub(crate) fn backend(spec: &Spec, graph: &Graph, seed: u64) -> anyhow::Result<Lab> {
    let devices = network::devices(graph);
    for (device, _) in &spec.traces {
        if !devices.iter().any(|known| known.name == *device) {
            bail!("--lab: the configuration has no device ‘{device}’");
        }
    }
    let traces = devices.iter().map(|device| {
        let named = spec.traces.iter().find(|(name, _)| *name == device.name);
        named.map(|(_, path)| Trace::open(path)).transpose()
    });
    let attacks = network::looks_for_attacks(graph);
    let world = World::new(&devices, traces.collect::<anyhow::Result<_>>()?, attacks, seed);
    let announcement = devices
        .iter()
        .map(|device| match device.router {
            Some(network) => format!("lab: {} is on {}", device.name, network.truncated()),
            None => format!(
                "lab: {} is on the network that devices without an address share",
                device.name
            ),
        })
        .collect();
    let router = world.router();
    let world = Arc::new(Lock::new(world));
    let backend = LabBackend(world.clone());
    Ok(Lab {
        backend: Arc::new(backend),
        announcement,
        report: Box::new(move || world.lock().report()),
        router,
    })
}

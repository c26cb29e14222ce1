//! The lab: a virtual network for every device of a configuration, so that any router file runs
//! on a laptop without privileges.

mod devices;
mod exchange;
mod frame;
mod host;
mod link;
mod trace;
mod world;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use anyhow::bail;
use millrace_core::{Lock, Router};
use millrace_io::memory::{Interface, Network};
use millrace_lang::Graph;

use link::{Cable, Silent};
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
    pub(crate) network: Network,
    /// What was set up, in sentences.
    pub(crate) announcement: Vec<String>,
    /// What arrived where, once the router has stopped.
    pub(crate) report: Box<dyn Fn() -> Report + Send>,
    router: Arc<OnceLock<Weak<Router>>>,
}

impl Lab {
    /// Says which router stands in the lab: it is stopped when everything has been tried.
    pub(crate) fn attach(&self, router: &Arc<Router>) {
        // A lab has one router.
        let _ = self.router.set(Arc::downgrade(router));
    }
}

/// Builds the network around the devices of a configuration.
///
/// # Errors
/// A trace cannot be read, or a device of `spec` is not in the configuration.
pub(crate) fn build(spec: &Spec, graph: &Graph, seed: u64) -> anyhow::Result<Lab> {
    let devices = devices::of(graph);
    for (device, _) in &spec.traces {
        if !devices.iter().any(|known| known.name == *device) {
            bail!("--lab: the configuration has no device ‘{device}’");
        }
    }
    let traces = devices.iter().map(|device| {
        let named = spec.traces.iter().find(|(name, _)| *name == device.name);
        named.map(|(_, path)| Trace::open(path)).transpose()
    });
    let attacks = devices::looks_for_attacks(graph);
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
    let network = Network::new("lab", Arc::new(Silent));
    for (wire, device) in devices.into_iter().enumerate() {
        let cable = Cable { world: world.clone(), wire };
        network.attach(Interface::new(device.name), Arc::new(cable));
    }
    Ok(Lab { network, announcement, report: Box::new(move || world.lock().report()), router })
}

#[cfg(test)]
mod tests {
    use millrace_core::run::initialize;
    use millrace_core::testing::Remains;

    use super::*;
    use crate::config::{Origin, load};
    use crate::model::Model;
    use crate::session::{Choices, Reach, configure, services};

    #[test]
    fn a_router_that_ends_leaves_nothing_while_its_lab_stands() {
        let text =
            "FromDevice(eth0) -> Queue -> ToDevice(eth0); KernelTap(10.0.0.1/24) -> Discard;";
        let mut loaded = load(&Origin::Expression(text.to_owned()), &[], None).unwrap();
        let lab = build(&Spec::default(), &loaded.graph, 1).unwrap();
        let services = services(Reach::Network(lab.network.clone()), &Model::default());
        let options = Choices::default().options(services).unwrap();
        let engine = initialize(configure(&mut loaded, options).unwrap(), 1).unwrap();
        lab.attach(engine.router());
        let remains = Remains::of(engine.router());
        // The lab ends it.
        engine.run();
        assert_eq!(remains.names(), [""; 0]);
        assert!((lab.report)().text.contains("eth0: 0 frames to the router"));
    }
}

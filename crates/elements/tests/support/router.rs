//! Whole routers from their text: for tests and for fuzzing.

#![allow(dead_code, unreachable_pub, reason = "a module of several programs")]

use millrace_core::clock::Clock;
use millrace_core::run::{Options, check, initialize};
use millrace_core::services::Services;
use millrace_core::testing::Remains;
use millrace_core::{Engine, Packet, Registry, Timestamp};
use millrace_elements as _;
use millrace_io::Devices;
use millrace_io::memory::{End, Interface, Network};
use millrace_lang::SourceMap;

/// The engine of a configuration; or what is wrong with it, as messages.
pub fn engine(config: &str, options: Options) -> Result<Engine, Vec<String>> {
    let mut map = SourceMap::default();
    let source = map.add("router.click", config);
    let classes: Vec<String> = Registry::linked().iter().map(|(name, _)| name.to_owned()).collect();
    let known = millrace_lang::Options { classes: Some(&classes), ..Default::default() };
    let (graph, mut diagnostics) = millrace_lang::compile(&mut map, source, &known);
    let sound = !diagnostics.iter().any(|diagnostic| diagnostic.is_error());
    let (router, found) = check(&graph, &Registry::linked(), options);
    diagnostics.extend(found);
    let messages = |diagnostics: Vec<millrace_lang::Diagnostic>| {
        diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect::<Vec<_>>()
    };
    match router.filter(|_| sound) {
        Some(router) => initialize(router, 1).map_err(messages),
        None => Err(messages(diagnostics)),
    }
}

/// The router of a configuration that compiles, unless something else is wrong with it, and what is.
pub fn check_text(
    config: &str,
) -> (Option<millrace_core::run::Configured>, Vec<millrace_lang::Diagnostic>) {
    let mut map = SourceMap::default();
    let source = map.add("router.click", config);
    let (graph, diagnostics) =
        millrace_lang::compile(&mut map, source, &millrace_lang::Options::default());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    check(&graph, &Registry::linked(), Options::default())
}

/// A router with devices eth0 to eth3 in memory, and the far ends of these.
pub struct Bench {
    pub engine: Engine,
    pub ends: Vec<End>,
}

impl Bench {
    /// A router with this configuration, which must be right.
    pub fn new(config: &str) -> Self {
        Self::with(config, Options::default())
    }

    /// A router with this configuration, which must be right, and these options but for clock and devices.
    pub fn with(config: &str, options: Options) -> Self {
        let network = Network::default();
        let ends = (0..4).map(|n| {
            let near = Interface::new(format!("eth{n}"));
            network.connect(near, Interface::new(format!("host{n}")))
        });
        let ends = ends.collect();
        let mut services = Services::default();
        services.insert(Devices(Box::new(network)));
        let options = Options { clock: Clock::virtual_(), services, ..options };
        let engine = engine(config, options).unwrap_or_else(|messages| panic!("{messages:#?}"));
        Self { engine, ends }
    }

    /// Lets frames arrive and the router run; returns how many frames left.
    pub fn feed(&mut self, port: usize, frames: &[Vec<u8>]) -> usize {
        self.exchange(port, frames).iter().map(Vec::len).sum()
    }

    /// Lets frames arrive and the router run; returns the frames that left, by device.
    pub fn exchange(&mut self, port: usize, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        for frame in frames {
            if let Some(packet) = Packet::from_bytes(frame) {
                // A full wire loses frames, as wires do.
                let _ = self.ends[port % self.ends.len()].send(packet);
            }
        }
        self.engine.settle();
        let take = |end: &End| end.receive().map(|packet| packet.data().to_vec());
        self.ends.iter().map(|end| std::iter::from_fn(|| take(end)).collect()).collect()
    }

    /// Lets virtual time pass, timers and all.
    pub fn pass(&mut self, time: Timestamp) {
        let until = self.engine.router().clock().now() + time;
        self.engine.run_until(until);
    }

    /// Every element accounts for its packets.
    pub fn assert_balanced(&self) {
        let router = self.engine.router();
        for (id, element) in router.elements().enumerate() {
            let stats = router.stats_of(id);
            assert!(stats.balanced(), "{}: {stats:?}", element.name);
        }
    }

    /// Every element accounts for its packets, and nothing of the router stays in memory.
    pub fn end(self) {
        self.assert_balanced();
        let remains = Remains::of(self.engine.router());
        drop(self);
        assert_eq!(remains.names(), [""; 0]);
    }
}

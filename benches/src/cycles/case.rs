//! A configuration that is measured with bursts of one length, and a run of it.

use std::collections::BTreeMap;

use anyhow::ensure;
use millrace_core::Router;
use millrace_core::run::Options;
use millrace_core::services::Services;
use millrace_io::Devices;

use super::devices::{BenchDevices, Length, Manner, Slice, Trace, Transmitted};
use crate::graph::{Graph, drops};

/// A configuration, and what is done with it before it runs.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// Its graph. The variable `$burst` is the length of bursts.
    pub(crate) graph: Graph,
    /// The class whose cost is measured; `None` for the whole configuration.
    pub(crate) class: Option<&'static str>,
}

/// The results of a run.
#[derive(Default)]
pub(crate) struct Run {
    /// The slices, in order.
    pub(crate) slices: Vec<Slice>,
    /// What was transmitted, if it was kept.
    pub(crate) transmitted: Transmitted,
    /// Each element's class, by its index.
    pub(crate) classes: Vec<&'static str>,
    /// The mean number of packets in a batch that arrived at each element.
    pub(crate) batches: Vec<f64>,
    /// Each element's name, and the number of packets that arrived there.
    pub(crate) arrived: Vec<(String, u64)>,
    /// The numbers of packets that the device delivered, and that came out.
    pub(crate) counts: (u64, u64),
    /// The maximum number of packets that the receiving element asked for.
    pub(crate) wanted: u64,
    /// Packets that were dropped, by element and reason.
    pub(crate) dropped: BTreeMap<String, u64>,
}

/// How a configuration is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// How its devices behave.
    pub(crate) manner: Manner,
    /// The maximum number of packets at a time, as set in the configuration.
    pub(crate) burst: usize,
    /// The core to run on.
    pub(crate) core: usize,
    /// True if packets may pass elements in one go.
    pub(crate) optimise: bool,
}

impl Configuration {
    /// Runs it once, on the calling thread, pinned to `core`.
    ///
    /// # Errors
    /// The configuration is wrong, or not every packet comes out.
    pub(crate) fn run(
        &self,
        burst: usize,
        core: usize,
        trace: &Trace,
        length: Length,
    ) -> anyhow::Result<Run> {
        self.run_in(Manner::default(), burst, core, trace, length)
    }

    /// [Runs](Self::run) it on devices with other behaviour.
    ///
    /// # Errors
    /// As `run`.
    pub(crate) fn run_in(
        &self,
        manner: Manner,
        burst: usize,
        core: usize,
        trace: &Trace,
        length: Length,
    ) -> anyhow::Result<Run> {
        let way = Way { manner, burst, core, optimise: true };
        let run = self.observe(way, trace, length, |_| Ok(()))?;
        let ((received, transmitted), dropped) = (run.counts, &run.dropped);
        ensure!(
            received == transmitted,
            "{}: of {received} packets {transmitted} came out; dropped: {dropped:?}",
            self.graph.name,
        );
        Ok(run)
    }

    /// Runs it in a given way, after `prepare` was called with the router. Not all packets need to come out.
    ///
    /// # Errors
    /// The configuration is wrong, or cannot be prepared.
    pub(crate) fn observe(
        &self,
        way: Way,
        trace: &Trace,
        length: Length,
        prepare: impl FnOnce(&Router) -> anyhow::Result<()>,
    ) -> anyhow::Result<Run> {
        let devices = BenchDevices::new(trace.clone(), length, way.manner);
        let mut services = Services::default();
        services.insert(Devices(Box::new(devices.clone())));
        let (cores, optimise) = (vec![way.core], way.optimise);
        let options = Options { cores, optimise, services, ..Options::default() };
        let engine = self.graph.engine(&[("burst", way.burst.to_string())], options)?;
        let router = engine.router().clone();
        prepare(&router)?;

        devices.attach(&router);
        let outcome = engine.run();
        ensure!(outcome.complaints.is_empty(), "{}", outcome.complaints.join("; "));
        let stats = || (0..router.len()).map(|id| router.stats_of(id));
        Ok(Run {
            slices: devices.take_slices(),
            transmitted: devices.take_kept(),
            classes: router.elements().map(|element| element.class.name).collect(),
            batches: stats()
                .map(|stats| stats.received as f64 / stats.batches.max(1) as f64)
                .collect(),
            arrived: router
                .elements()
                .zip(stats())
                .map(|(element, stats)| (element.name.to_owned(), stats.received))
                .collect(),
            counts: devices.counts(),
            wanted: devices.wanted(),
            dropped: drops(&router),
        })
    }

    /// Checks that the configuration gives the same results with bursts as with single packets: every device
    /// transmits the same packets, in any order.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn gate(&self, burst: usize, core: usize, trace: &Trace) -> anyhow::Result<()> {
        let length = Length { warm_up: 0, slice: GATE_PACKETS, slices: 1, keep: true };
        let mut reference = self.run(1, core, trace, length)?.transmitted;
        let mut measured = self.run(burst, core, trace, length)?.transmitted;
        for frames in reference.values_mut().chain(measured.values_mut()) {
            frames.sort_unstable();
        }
        ensure!(!reference.is_empty(), "{}: nothing was transmitted", self.graph.name);
        ensure!(
            reference == measured,
            "{}: bursts of {burst} give other packets than bursts of 1: {}",
            self.graph.name,
            difference(&reference, &measured)
        );
        Ok(())
    }
}

/// Packets that the gate compares.
const GATE_PACKETS: u64 = 3000;

/// The first device whose packets differ.
fn difference(reference: &Transmitted, measured: &Transmitted) -> String {
    let devices = reference.keys().chain(measured.keys());
    let differs = |device: &&String| reference.get(*device) != measured.get(*device);
    let Some(device) = devices.into_iter().find(differs) else { return String::new() };
    let count = |from: &Transmitted| from.get(device).map_or(0, Vec::len);
    format!("{device} transmits {} packets, not {}", count(measured), count(reference))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic;

    /// The result of the gate for a chain between two devices.
    fn gate(chain: &str) -> Result<(), String> {
        let text = format!("FromDevice(eth0, BURST $burst) -> {chain} -> ToDevice(eth1);");
        let graph = Graph::new("x", text);
        let configuration = Configuration { graph, class: None };
        let trace: Trace = traffic::trace(&traffic::routes(100)).unwrap().into();
        let core = crate::machine::last_core().unwrap();
        configuration.gate(32, core, &trace).map_err(|error| error.to_string())
    }

    #[test]
    fn the_gate_lets_through_what_bursts_do_not_change() {
        assert_eq!(gate("EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)"), Ok(()));
    }

    #[test]
    fn the_gate_stops_what_bursts_change() {
        let error = gate("EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:$burst)").unwrap_err();
        assert!(error.contains("give other packets"), "{error}");
        let error = gate("Queue(10) -> Unqueue").unwrap_err();
        assert!(error.contains("queue full"), "{error}");
        assert!(gate("NoSuchElement").unwrap_err().contains("NoSuchElement"));
    }
}

//! A configuration that is measured with bursts of one length, and one run of it on the engine.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use millrace_core::router::{Options, check, initialize};
use millrace_core::services::Services;
use millrace_core::{Registry, Router};
use millrace_io::Devices;
use millrace_lang::{Diagnostic, SourceMap, Style, compile, render_all};
// Names the crate so that its classes are linked.
use millrace_elements as _;

use crate::devices::{BenchDevices, Length, Slice, Trace, Transmitted};

/// A configuration with what is done to it before it runs.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// Its name in reports.
    pub(crate) name: String,
    /// Its text. The variable `$burst` is the length of bursts.
    pub(crate) text: String,
    /// What is written to handlers before the run.
    pub(crate) writes: Vec<(String, String)>,
    /// The class whose cost is wanted; none for that of the whole.
    pub(crate) class: Option<&'static str>,
}

/// A run of a configuration.
pub(crate) struct Run {
    /// The slices, in order.
    pub(crate) slices: Vec<Slice>,
    /// What was transmitted, if it was to be kept.
    pub(crate) transmitted: Transmitted,
    /// Each element's class, by its index.
    pub(crate) classes: Vec<&'static str>,
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
        let mut map = SourceMap::default();
        let source = map.add(self.name.as_str(), self.text.as_str());
        let params = [("burst".to_owned(), burst.to_string())];
        let language = millrace_lang::Options { params: &params, classes: None, library: None };
        let (graph, found) = compile(&mut map, source, &language);
        refuse(&found, &map)?;

        let devices = BenchDevices::new(trace.clone(), length);
        let mut services = Services::default();
        services.insert(Devices(Box::new(devices.clone())));
        let options = Options { cores: vec![core], services, ..Options::default() };
        let (router, found) = check(&graph, &Registry::linked(), options);
        refuse(&found, &map)?;
        let Some(router) = router else { bail!("{}: no router", self.name) };
        let engine = initialize(router, 1).map_err(|found| wrong(&found, &map))?;
        let router = engine.router().clone();
        for (handler, text) in &self.writes {
            if let Err(error) = router.write(handler, text.as_bytes()) {
                bail!("{}: {handler}: {error}", self.name);
            }
        }

        devices.attach(&router);
        let outcome = engine.run();
        ensure!(outcome.complaints.is_empty(), "{}", outcome.complaints.join("; "));
        let (received, transmitted) = devices.counts();
        ensure!(
            received == transmitted,
            "{}: of {received} packets {transmitted} came out; dropped: {:?}",
            self.name,
            drops(&router)
        );
        Ok(Run {
            slices: devices.take_slices(),
            transmitted: devices.take_kept(),
            classes: router.elements().map(|element| element.class.name).collect(),
        })
    }

    /// Checks that the configuration does with bursts what it does with one packet at a time:
    /// every device transmits the same packets, in whatever order.
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
        ensure!(!reference.is_empty(), "{}: nothing was transmitted", self.name);
        ensure!(
            reference == measured,
            "{}: bursts of {burst} give other packets than bursts of 1: {}",
            self.name,
            difference(&reference, &measured)
        );
        Ok(())
    }
}

/// Packets that the gate compares.
const GATE_PACKETS: u64 = 3000;

fn refuse(found: &[Diagnostic], map: &SourceMap) -> anyhow::Result<()> {
    match found.iter().any(Diagnostic::is_error) {
        true => Err(wrong(found, map)),
        false => Ok(()),
    }
}

fn wrong(found: &[Diagnostic], map: &SourceMap) -> anyhow::Error {
    anyhow::anyhow!("{}", render_all(found, map, Style::Snippet { color: false }))
}

/// Drops by element and reason.
fn drops(router: &Router) -> BTreeMap<String, u64> {
    let dropped = |id| {
        let drops = router.stats_of(id).drops.into_iter();
        drops.map(move |(reason, n)| (format!("{}: {}", router.name_of(id), reason.name()), n))
    };
    (0..router.len()).flat_map(dropped).collect()
}

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

    /// What the gate says of a chain between two devices.
    fn gate(chain: &str) -> Result<(), String> {
        let configuration = Configuration {
            name: "x".to_owned(),
            text: format!("FromDevice(eth0, BURST $burst) -> {chain} -> ToDevice(eth1);"),
            writes: Vec::new(),
            class: None,
        };
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

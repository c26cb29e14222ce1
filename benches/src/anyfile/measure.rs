//! Measures files and single elements, in instructions and in cycles.

use std::collections::BTreeMap;

use anyhow::Context;
use millrace_core::isa::Level;

use super::classes::Stage;
use super::draw::{Drawing, Kind, without};
use crate::callgrind;
use crate::cycles::{Configuration, Length, Manner, Run, Trace, Way};
use crate::graph::Graph;
use crate::report::median;
use crate::rules::drawn::Drawn;
use crate::{machine, own};

/// The length of bursts for single elements, so that costs per batch do not matter.
pub(super) const ALONE: u16 = 256;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// The file with this number, and the length of bursts.
    File(usize, u16),
    /// The smallest file with an element, or the same file without it.
    Alone(Kind),
    Without(Stage),
    /// From a device to a device, and to none.
    Forward(u16),
    Nowhere(u16),
}

/// All measurements for files with bursts of these lengths.
pub(super) struct Work<'a> {
    pub(super) drawings: &'a [Drawing],
    pub(super) bursts: &'a [u16],
    /// The number of packets that are counted or timed at a time.
    pub(super) packets: u64,
}

impl Work<'_> {
    /// The subjects, each once, always in the same order.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let bursts = || self.bursts.iter().copied();
        let mut subjects = Vec::new();
        for burst in bursts() {
            subjects.extend([Subject::Forward(burst), Subject::Nowhere(burst)]);
            subjects.extend((0..self.drawings.len()).map(|file| Subject::File(file, burst)));
        }
        let kinds = Drawing::kinds(self.drawings);
        let mut stages: Vec<Stage> = kinds.iter().map(|kind| kind.stage).collect();
        stages.dedup();
        subjects.extend(stages.into_iter().map(Subject::Without));
        subjects.extend(kinds.into_iter().map(Subject::Alone));
        subjects
    }

    /// A run under callgrind.
    fn counted(&self) -> Length {
        Length { warm_up: 1024, slice: self.packets, slices: 1, keep: false }
    }

    /// A run that is timed.
    fn timed(&self) -> Length {
        Length { warm_up: 4096, slice: self.packets, slices: 8, keep: false }
    }

    /// Runs a subject once.
    fn run(&self, subject: &Subject, trace: &Trace, length: Length) -> anyhow::Result<Run> {
        let (text, burst) = match subject {
            Subject::File(file, burst) => {
                (self.drawings.get(*file).context("no such file")?.text.clone(), *burst)
            }
            Subject::Alone(kind) => (kind.alone(), ALONE),
            Subject::Without(stage) => (without(*stage), ALONE),
            Subject::Forward(burst) => (without(Stage::Frame), *burst),
            Subject::Nowhere(burst) => {
                ("FromDevice(eth0, BURST $burst) -> Discard;".to_owned(), *burst)
            }
        };
        let configuration = Configuration { graph: Graph::new("x", text.as_str()), class: None };
        let core = machine::last_core()?;
        let manner = Manner::default();
        let way = Way { manner, burst: burst.into(), core, optimise: true };
        configuration.observe(way, trace, length, |_| Ok(())).with_context(|| text)
    }

    /// Counts the instructions of all subjects, in the worker.
    ///
    /// # Errors
    /// A file is wrong.
    pub(super) fn tell(&self) -> anyhow::Result<()> {
        let trace = trace()?;
        for subject in self.subjects() {
            let run = self.run(&subject, &trace, self.counted())?;
            let packets = run.slices.iter().map(|slice| slice.packets).sum();
            callgrind::tell(&format!("{subject:?}"), packets);
        }
        Ok(())
    }

    /// Instructions per packet of each subject, without those of devices, as a worker with these arguments counts
    /// them.
    ///
    /// # Errors
    /// The worker fails.
    pub(super) fn instructions(&self, words: &[String]) -> anyhow::Result<BTreeMap<Subject, f64>> {
        let level = Level::of_processor().min(Level::Avx2);
        let mut counts = BTreeMap::new();
        callgrind::count_with(words, level, false, |stretch, record| {
            counts.insert(stretch.name.clone(), own::own(stretch, record));
        })?;
        let count = |subject: Subject| {
            let count = counts.get(&format!("{subject:?}")).copied().flatten();
            let count = count.with_context(|| format!("{subject:?} was not counted"))?;
            Ok((subject, count))
        };
        self.subjects().into_iter().map(count).collect()
    }

    /// Cycles per packet of each subject; and for each file, the fraction of packets that reach each element.
    ///
    /// # Errors
    /// A file is wrong.
    pub(super) fn cycles(
        &self,
        rounds: u32,
    ) -> anyhow::Result<(BTreeMap<Subject, f64>, Vec<Shares>)> {
        let trace = trace()?;
        let mut cycles: BTreeMap<Subject, Vec<f64>> = BTreeMap::new();
        let mut shares = BTreeMap::new();
        for _ in 0..rounds {
            for subject in self.subjects() {
                let run = self.run(&subject, &trace, self.timed())?;
                if let Subject::File(file, _) = subject {
                    shares.entry(file).or_insert_with(|| Shares::of(&run));
                }
                cycles.entry(subject).or_default().extend(run.cycles());
            }
        }
        let middle = |(subject, cycles)| Some((subject, median(cycles)?));
        Ok((cycles.into_iter().filter_map(middle).collect(), shares.into_values().collect()))
    }
}

/// The fractions of packets that reach each element.
pub(super) struct Shares {
    elements: Vec<(String, f64)>,
    /// The fraction that leaves by a device.
    pub(super) sent: f64,
}

impl Shares {
    fn of(run: &Run) -> Self {
        let (received, sent) = run.counts;
        let part = |count: u64| count as f64 / received.max(1) as f64;
        let elements = run.arrived.iter().map(|(name, count)| (name.clone(), part(*count)));
        Self { elements: elements.collect(), sent: part(sent) }
    }

    /// The fraction that reaches an element, or the first one with this prefix.
    pub(super) fn at(&self, name: &str) -> f64 {
        let is_part = |other: &str| {
            other.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let shares = self.elements.iter().filter(|(other, _)| is_part(other));
        shares.map(|(_, share)| *share).fold(0.0, f64::max)
    }
}

/// TCP, UDP and ICMP between random hosts.
fn trace() -> anyhow::Result<Trace> {
    let frames = Drawn { count: 0, seed: 1, hits: false }.frames(1024)?;
    Ok(frames.into_iter().map(|(frame, _)| frame).collect())
}

#[cfg(test)]
mod tests {
    use millrace_core::run::Options;
    use millrace_core::services::Services;
    use millrace_io::Devices;
    use millrace_io::memory::{Interface, Network};

    use super::*;
    use crate::anyfile::classes::{MAKERS, TRANSLATORS};

    #[test]
    fn every_element_stands_by_itself() {
        let makers = MAKERS.iter().chain(TRANSLATORS);
        for (maker, text) in
            makers.flat_map(|maker| maker.texts.iter().map(move |text| (maker, text)))
        {
            for &stage in maker.from {
                let kind = Kind { stage, text, outputs: maker.outputs };
                let network = Network::default();
                let _end = network.connect(Interface::new("eth0"), Interface::new("eth1"));
                let mut services = Services::default();
                services.insert(Devices(Box::new(network)));
                let options = Options { services, ..Options::default() };
                let engine =
                    Graph::new("x", kind.alone()).engine(&[("burst", "8".into())], options);
                assert!(engine.is_ok(), "{:#}", engine.err().unwrap());
            }
        }
    }
}

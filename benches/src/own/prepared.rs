//! A configuration of any kind, prepared to run: its variables, tables and sources.

use anyhow::Context;
use millrace_core::Router;
use millrace_elements::ip::lookup::Route;
use tempfile::TempDir;

use super::Subject;
use crate::cycles::{Configuration, Length, Manner, Run, Trace, Way};
use crate::graph::Graph;
use crate::rules::drawn::Drawn;
use crate::{machine, traffic};

/// A run that is counted.
const LENGTH: Length = Length { warm_up: 2048, slice: 4096, slices: 1, keep: false };

/// A configuration, and what is done with it before packets arrive.
pub(super) struct Prepared {
    configuration: Configuration,
    routes: Vec<Route>,
    trace: Trace,
    optimise: bool,
    /// The folder of the files that it reads.
    _folder: Option<TempDir>,
}

impl Prepared {
    /// Makes what the configuration needs.
    ///
    /// # Errors
    /// There is no traffic for it, or `--write` names no handler.
    pub(super) fn new(name: &str, text: &str, subject: &Subject) -> anyhow::Result<Self> {
        let mut graph = Graph::new(name, text);
        graph.set("mbufs", "8576".to_owned());
        graph.set("ring", "512".to_owned());
        if let Some(rules) = &subject.rules {
            graph.set("rules", rules.display().to_string());
        }
        for write in &subject.write {
            let (handler, text) = write.split_once(' ').context("--write: HANDLER TEXT")?;
            graph.writes.push((handler.to_owned(), text.to_owned()));
        }
        let routes = traffic::routes(subject.routes as usize);
        let trace = traffic::trace(&routes)?.into();
        let configuration = Configuration { graph, class: None };
        let optimise = !subject.no_optimise;
        Ok(Self { configuration, routes, trace, optimise, _folder: None })
    }

    /// The plain filter with random rules, and packets for them.
    ///
    /// # Errors
    /// As `new`; or the rules cannot be written.
    pub(super) fn filter(drawn: Drawn, subject: &Subject) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("a directory for rules")?;
        let rules = folder.path().join("rules");
        std::fs::write(&rules, drawn.text())?;
        let subject = Subject { rules: Some(rules), ..subject.clone() };
        let text = include_str!("../../configs/dpdk/plain-filter.click");
        let plain = Self::new(&drawn.name(), text, &subject)?;
        let frames = drawn.frames(plain.trace.len())?.into_iter();
        Ok(Self { trace: frames.map(|(frame, _)| frame).collect(), _folder: Some(folder), ..plain })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.configuration.graph.name
    }

    /// Runs it with bursts of this length, or shorter ones if its BURST is smaller.
    ///
    /// # Errors
    /// The configuration is wrong.
    pub(super) fn run(&self, burst: usize) -> anyhow::Result<Run> {
        let manner = Manner { anywhere: true, most: burst, ..Manner::default() };
        let way = Way { manner, burst, core: machine::last_core()?, optimise: self.optimise };
        self.configuration.observe(way, &self.trace, LENGTH, |router| self.prepare(router))
    }

    /// Fills tables of routes and starts sources.
    fn prepare(&self, router: &Router) -> anyhow::Result<()> {
        for id in 0..router.len() {
            let class = router.class_of(id);
            let is_table = class.ends_with("IPLookup") || class.ends_with("IPRoute");
            let outputs = router.connections().iter().filter(|((from, _), _)| *from == id);
            let outputs = outputs.map(|((_, port), _)| port + 1).max().unwrap_or_default();
            if is_table && outputs > 0 && router.access_of(Some(id), "ctrl").is_some() {
                let spread = traffic::spread(&self.routes, outputs);
                router
                    .write_of(id, "ctrl", traffic::commands(&spread).as_bytes())
                    .with_context(|| format!("routes for {}", router.name_of(id)))?;
            }
        }
        let receivers = router.plan().receivers.iter().map(|receiver| receiver.element);
        for id in receivers.filter(|&id| router.access_of(Some(id), "active").is_some()) {
            router.write_of(id, "active", b"true")?;
        }
        Ok(())
    }
}

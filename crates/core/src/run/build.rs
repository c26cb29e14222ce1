//! Builds a configured router from a flat graph.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millrace_lang::{Diagnostic, Graph, Severity, Suggestions, print_flat, variables};

use super::elements::{Configured, Elements};
use super::files;
use crate::args::{Args, ElementLookup, Scope};
use crate::capability::Offers;
use crate::clock::Clock;
use crate::element::{AnyElement, Inspection, Setup};
use crate::graph::{self, Class, Counts, Kinds};
use crate::names::NameTable;
use crate::needs::{self, Need};
use crate::plan::{self, Draft, Plan};
use crate::registry::{ClassInfo, Registry};
use crate::router::{Handler, Member, Parts, Router, Texts};
use crate::services::{DeviceBook, Services};
use crate::topology::Topology;

/// What a router is built with, in addition to its graph.
pub struct Options {
    /// The number of threads that run it.
    pub threads: usize,
    /// The cores that the threads are pinned to, in order. If there are fewer cores than threads, they
    /// repeat.
    pub cores: Vec<usize>,
    /// Whether to pin the threads near the devices that they receive from, when no cores are given.
    pub pin: bool,
    /// The machine that it runs on.
    pub topology: Topology,
    /// Whether packets may pass elements in one go.
    pub optimise: bool,
    /// The clock.
    pub clock: Clock,
    /// The services that the program provides to elements.
    pub services: Services,
    /// The configuration as its author wrote it, for the handler `config`. If it is empty, the handler
    /// returns the flat configuration.
    pub written: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            cores: Vec::new(),
            pin: false,
            topology: Topology::machine().clone(),
            optimise: true,
            clock: Clock::real(),
            services: Services::default(),
            written: String::new(),
        }
    }
}

/// What the engine provides besides classes: words for `require(...)`, and for `click-buildtool provides`.
pub const FEATURES: &[&str] = &[
    "batch",
    "batching",
    "click",
    "dpdk",
    "dpdk-packet",
    "flow",
    "int64",
    "ip6",
    "linux",
    "millrace",
    "multithread",
    "netmap",
    "pcap",
    "simtime",
    "tools",
    "umultithread",
    "userlevel",
];

/// Configures a router and checks everything that can be checked without opening a device. Reports all
/// diagnostics; returns no router when one of them is an error.
pub fn check(
    graph: &Graph,
    registry: &Registry,
    options: Options,
) -> (Option<Configured>, Vec<Diagnostic>) {
    let mut builder = Builder::new(graph, registry, &options.services);
    let counts = builder.check_ports();
    let (inputs, outputs) = builder.kinds(&counts);
    builder.check_requirements(registry);
    let parts = builder.configure(&counts);
    let Builder { names, mut draft, mut diagnostics, infos, connections: written, .. } = builder;
    if diagnostics.iter().any(Diagnostic::is_error) {
        diagnostics.retain(|finding| !is_advice(finding));
        return (None, diagnostics);
    }

    let connections: Vec<_> = written.iter().map(|c| (c.from, c.to)).collect();
    let infos: Vec<&'static ClassInfo> = infos.into_iter().flatten().collect();
    let element_names: Vec<String> = graph.elements.iter().map(|e| e.name.clone()).collect();
    let view = plan::Graph {
        names: &element_names,
        classes: &infos.iter().map(|info| &info.class).collect::<Vec<_>>(),
        per_packet: &infos.iter().map(|info| info.is_per_packet()).collect::<Vec<_>>(),
        inputs: &inputs,
        outputs: &outputs,
        connections: &connections,
    };
    let means = plan::Means {
        threads: options.threads,
        pinning: match (options.cores.is_empty(), options.pin) {
            (false, _) => plan::Pinning::Cores(options.cores),
            (true, true) => plan::Pinning::Planned,
            (true, false) => plan::Pinning::Free,
        },
        topology: &options.topology,
        optimise: options.optimise,
    };
    let plan = Plan::new(&view, &mut draft, &means);
    let mut elements = Vec::new();
    let mut members = Vec::new();
    let kinds = inputs.into_iter().zip(outputs);
    for (((declared, info), (element, handlers)), (inputs, outputs)) in
        graph.elements.iter().zip(infos).zip(parts).zip(kinds)
    {
        members.push(Member {
            name: declared.name.clone(),
            class: &info.class,
            config: declared.config.text.clone(),
            landmark: declared.landmark.clone(),
            span: declared.span,
            element: element.clone(),
            handlers,
            inputs,
            outputs,
        });
        elements.push((info, element));
    }
    let texts = Texts {
        flat: print_flat(graph),
        written: options.written,
        requirements: graph.requirements.iter().map(|r| r.text.clone()).collect(),
        classes: registry.iter().map(|(name, _)| name).collect(),
    };
    let (services, clock) = (options.services, options.clock);
    let mut router =
        Router::from(Parts { members, connections, texts, names, services, clock, plan, draft });
    let elements = Elements(elements);
    inspect(&router, &elements, &written, &mut diagnostics);
    diagnostics.extend(files::spoiled(&router));
    router.set_advice(diagnostics.extract_if(.., |finding| is_advice(finding)).collect());
    let sound = !diagnostics.iter().any(Diagnostic::is_error);
    (sound.then_some(Configured { router, elements }), diagnostics)
}

fn is_advice(finding: &Diagnostic) -> bool {
    finding.severity == Severity::Advice
}

/// Lets every element inspect the graph.
fn inspect(
    router: &Router,
    elements: &Elements,
    connections: &[millrace_lang::Connection],
    found: &mut Vec<Diagnostic>,
) {
    for (id, element) in elements.iter() {
        let mut inspection = Inspection { id, router, connections, found };
        element.inspect(&mut inspection);
        if router.shows_packets(id) {
            inspection.advise(
                "while it shows packets, every packet goes through the whole router by itself instead of in a batch",
            );
        }
    }
}

/// A router while it is being built from the graph.
struct Builder<'a> {
    graph: &'a Graph,
    services: &'a Services,
    infos: Vec<Option<&'static ClassInfo>>,
    connections: Vec<millrace_lang::Connection>,
    names: NameTable,
    draft: Draft,
    diagnostics: Vec<Diagnostic>,
}

type Part = (Arc<dyn AnyElement>, Vec<Handler>);

impl<'a> Builder<'a> {
    fn new(graph: &'a Graph, registry: &Registry, services: &'a Services) -> Self {
        let mut diagnostics = Vec::new();
        let mut suggestions = Suggestions::default();
        let infos = graph
            .elements
            .iter()
            .map(|element| {
                let info = registry.get(&element.class);
                if info.is_none() {
                    let message = format!("unknown element class ‘{}’", element.class);
                    let mut diagnostic = Diagnostic::error(element.class_span, message);
                    diagnostic.help = suggestions
                        .nearest(&element.class, registry.iter().map(|(name, _)| name))
                        .map(|name| format!("there is a class ‘{name}’"));
                    diagnostics.push(diagnostic);
                }
                info
            })
            .collect();
        let mut seen = std::collections::HashSet::new();
        let connections = graph.connections.iter().filter(|c| seen.insert((c.from, c.to)));
        Self {
            graph,
            services,
            infos,
            connections: connections.copied().collect(),
            names: NameTable::new(),
            draft: Draft::default(),
            diagnostics,
        }
    }

    fn check_ports(&mut self) -> Vec<Counts> {
        let classes = self.classes();
        graph::count(self.graph, &classes, &mut self.connections, &mut self.diagnostics)
    }

    fn kinds(&mut self, counts: &[Counts]) -> Kinds {
        let classes = &self.classes();
        let (graph, connections, found) = (self.graph, &self.connections, &mut self.diagnostics);
        let (inputs, outputs) = graph::resolve(graph, classes, counts, connections, found);
        graph::check_use(graph, classes, connections, &inputs, &outputs, found);
        graph::check_depth(graph, connections, &outputs, found);
        (inputs, outputs)
    }

    fn classes(&self) -> Vec<Option<&'static Class>> {
        self.infos.iter().map(|info| info.map(|info| &info.class)).collect()
    }

    fn check_requirements(&mut self, registry: &Registry) {
        for requirement in &self.graph.requirements {
            let word = requirement.text.trim();
            // These ask for no package but tell what to do with the configuration.
            let asks = word != "compact_config" && word != "take_interface";
            if asks && registry.get(word).is_none() && !FEATURES.contains(&word) {
                let message = format!("requirement ‘{word}’ is not available");
                self.diagnostics.push(Diagnostic::error(requirement.span, message));
            }
        }
    }

    /// Configures every element of a known class, in order of the phases. The parts are in the order of the
    /// graph, and complete unless an error is reported.
    fn configure(&mut self, counts: &[Counts]) -> Vec<Part> {
        let index = NameIndex::new(self.graph);
        let devices = self.services.get::<DeviceBook>();
        let known: Vec<_> =
            self.infos.iter().enumerate().filter_map(|(id, info)| Some((id, (*info)?))).collect();
        let mut order = known;
        order.sort_by_key(|(_, info)| info.class.phase);
        let mut parts: Vec<Option<Part>> = self.graph.elements.iter().map(|_| None).collect();
        for (id, info) in order {
            let declared = &self.graph.elements[id];
            let lookup = NamesOf { graph: self.graph, index: &index, parts: &parts };
            let called = RefCell::default();
            let mut scope = Scope::new(&declared.name, &self.names, &lookup).with_called(&called);
            if let Some(devices) = &devices {
                scope = scope.with_devices(&*devices.0);
            }
            let mut definitions = NameTable::default();
            let mut setup = Setup {
                args: Args::new(&declared.config, scope),
                id,
                name: &declared.name,
                inputs: counts[id].inputs,
                outputs: counts[id].outputs,
                services: self.services,
                draft: &mut self.draft,
                definitions: &mut definitions,
            };
            let context = format!("While configuring ‘{} :: {}’", declared.name, declared.class);
            if !info.class.own_variables
                && let Some(name) = variables::first_name(&declared.config.text)
            {
                let message = format!("variable ‘{name}’ has no value");
                let help = format!(
                    "`{name}=VALUE` on the command line gives it one, or `define(${name} VALUE)`"
                );
                let found = Diagnostic::error(declared.config.span, message).help(help);
                self.diagnostics.push(found.context(context));
                continue;
            }
            let element = (info.configure)(&mut setup);
            let needs = setup.args.take_needs();
            let mut found = setup.args.into_diagnostics();
            let needs = needs.into_iter().chain(called.take());
            self.draft.needs.extend(needs.map(|need| (id, need)));
            if !needs::are_declared(info.module) {
                let why = format!("class ‘{}’ does not declare what it needs", info.class.name);
                self.draft.needs.push((id, Need::Unknown(why)));
            }
            if element.is_err() && !found.iter().any(Diagnostic::is_error) {
                found.push(Diagnostic::error(declared.span, "unspecified error"));
            }
            self.diagnostics.extend(found.into_iter().map(|d| d.context(context.clone())));
            self.names.extend(definitions);
            parts[id] = element.ok().map(|element| (element, (info.handlers)()));
        }
        parts.into_iter().flatten().collect()
    }
}

/// The names of a graph's elements, to be found.
struct NameIndex<'a> {
    elements: HashMap<&'a str, usize>,
    /// The names of elements and of compound elements.
    groups: OnceCell<HashSet<&'a str>>,
    /// How many names were listed for suggestions.
    listed: Cell<usize>,
}

impl<'a> NameIndex<'a> {
    /// So many names are listed in all: a file with many mistakes is not compared with all of itself for each.
    const MOST_LISTED: usize = 100_000;

    fn new(graph: &'a Graph) -> Self {
        let elements = graph.elements.iter().enumerate().map(|(id, e)| (&*e.name, id)).collect();
        Self { elements, groups: OnceCell::new(), listed: Cell::new(0) }
    }

    fn groups(&self) -> &HashSet<&'a str> {
        self.groups.get_or_init(|| {
            let mut groups = HashSet::new();
            for &name in self.elements.keys() {
                let around = name.match_indices('/').filter_map(|(slash, _)| name.get(..slash));
                groups.extend(around.chain([name]));
            }
            groups
        })
    }
}

/// The elements by name, and those that are configured so far.
struct NamesOf<'n, 'g> {
    graph: &'g Graph,
    index: &'n NameIndex<'g>,
    parts: &'n [Option<Part>],
}

impl ElementLookup for NamesOf<'_, '_> {
    fn find(&self, name: &str) -> Option<usize> {
        self.index.elements.get(name).copied()
    }

    fn names(&self) -> Vec<String> {
        let listed = &self.index.listed;
        if listed.get() > NameIndex::MOST_LISTED {
            return Vec::new();
        }
        listed.set(listed.get() + self.graph.elements.len());
        self.graph.elements.iter().map(|element| element.name.clone()).collect()
    }

    fn has_group(&self, name: &str) -> bool {
        self.index.groups().contains(name)
    }

    fn offer(&self, id: usize, offers: &mut Offers<'_>) {
        if let Some(Some((element, _))) = self.parts.get(id) {
            element.clone().offer(offers);
        }
    }
}

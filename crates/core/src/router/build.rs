//! Builds a router from a flat graph, and an engine from a router.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_lang::{Diagnostic, Graph, nearest, print_flat, variables};

use super::ports::Counts;
use super::wiring::NOWHERE;
use super::{Draft, Member, Plan, Router, Signals, Stop, plan, ports, processing, wiring};
use crate::Lock;
use crate::args::{Args, ElementLookup, Scope};
use crate::clock::Clock;
use crate::element::node::AnyElement;
use crate::element::{ClassInfo, Handler, Init, Inspection, Registry, Setup};
use crate::engine::{Context, Engine, Layout, Parts, Program, Waker, Wiring};
use crate::names::NameTable;
use crate::services::{DeviceBook, Services};
use crate::stats::NodeStats;
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
) -> (Option<Router>, Vec<Diagnostic>) {
    let mut builder = Builder::new(graph, registry, &options.services);
    let counts = builder.check_ports();
    let (inputs, outputs) = builder.kinds(&counts);
    builder.check_requirements(registry);
    let parts = builder.configure(&counts);
    let Builder { names, mut draft, mut diagnostics, infos, connections: written, .. } = builder;
    if diagnostics.iter().any(Diagnostic::is_error) {
        return (None, diagnostics);
    }

    let connections: Vec<_> = written.iter().map(|c| (c.from, c.to)).collect();
    let infos: Vec<&'static ClassInfo> = infos.into_iter().flatten().collect();
    let element_names: Vec<String> = graph.elements.iter().map(|e| e.name.clone()).collect();
    let view = plan::Graph {
        names: &element_names,
        classes: &infos,
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
    let elements: Vec<Member> = graph
        .elements
        .iter()
        .zip(infos)
        .zip(parts)
        .zip(inputs.into_iter().zip(outputs))
        .map(|(((declared, info), (element, handlers)), (inputs, outputs))| Member {
            name: declared.name.clone(),
            info,
            config: declared.config.text.clone(),
            landmark: declared.landmark.clone(),
            span: declared.span,
            element,
            handlers,
            inputs,
            outputs,
        })
        .collect();
    let n = elements.len();
    let router = Router {
        by_name: elements.iter().enumerate().map(|(id, e)| (e.name.clone(), id)).collect(),
        elements,
        connections,
        flat: print_flat(graph),
        written: options.written,
        requirements: graph.requirements.iter().map(|r| r.text.clone()).collect(),
        names,
        devices: options.services.get(),
        services: options.services,
        clock: options.clock,
        wakers: (0..plan.threads).map(|_| Arc::new(Waker::new())).collect(),
        stats: (0..plan.threads).map(|_| (0..=n).map(|_| NodeStats::default()).collect()).collect(),
        plan,
        draft,
        stop: Stop::default(),
        complaints: Lock::default(),
        random: Lock::default(),
        signals: Signals::default(),
        goes_singly: false.into(),
        findings: Lock::default(),
        predecessor: Lock::default(),
        successor: Lock::default(),
    };
    inspect(&router, &written, &mut diagnostics);
    let sound = !diagnostics.iter().any(Diagnostic::is_error);
    (sound.then_some(router), diagnostics)
}

/// Lets every element inspect the graph.
fn inspect(
    router: &Router,
    connections: &[millrace_lang::Connection],
    found: &mut Vec<Diagnostic>,
) {
    for (id, member) in router.elements.iter().enumerate() {
        let mut inspection = Inspection { id, router, connections, found };
        member.element.inspect(&mut inspection);
    }
}

/// Initialises the elements of a router, in order of their phases, and creates its threads' state.
///
/// # Errors
/// Elements refused; those that were initialised have been cleaned up again.
pub fn initialize(router: Router, seed: u64) -> Result<Engine, Vec<Diagnostic>> {
    initialize_shared(Arc::new(router), seed)
}

/// Like [`initialize`], for a router that replaces a running one ([`Router::replace`](Router::replace)). On
/// virtual time it begins at the other's time.
///
/// # Errors
/// See [`initialize`].
pub fn initialize_beside(
    router: Router,
    seed: u64,
    old: &Arc<Router>,
) -> Result<Engine, Vec<Diagnostic>> {
    let router = Arc::new(router);
    router.clock().advance(old.clock().now());
    router.set_predecessor(Some(old.clone()));
    initialize_shared(router, seed)
}

fn initialize_shared(router: Arc<Router>, seed: u64) -> Result<Engine, Vec<Diagnostic>> {
    let seed = router.draft.seed.unwrap_or(seed);
    router.random().seed(seed);
    let mut order: Vec<usize> = (0..router.len()).collect();
    order.sort_by_key(|&id| router.elements[id].info.class.phase);
    let mut diagnostics = Vec::new();
    let mut silent = false;
    for id in order {
        let member = &router.elements[id];
        let mut init = Init { id, router: &router, findings: Vec::new() };
        let refused = member.element.initialize(&mut init).err();
        if member.class() == "Error" {
            // It fails without a word: there are other messages.
            silent = true;
            continue;
        }
        let mut found = init.findings;
        // What a place was given for is among the findings already.
        let refused = refused
            .filter(|refused| !refused.0.is_empty() || !found.iter().any(Diagnostic::is_error));
        found.extend(refused.map(|refused| Diagnostic::error(None, refused.0)));
        let context = format!("While initializing ‘{} :: {}’", member.name, member.class());
        diagnostics.extend(found.into_iter().map(|mut finding| {
            finding.span.get_or_insert(member.span);
            finding.context(&context)
        }));
    }
    if !diagnostics.iter().any(Diagnostic::is_error) {
        router.findings.lock().append(&mut diagnostics);
    }
    if silent || !diagnostics.is_empty() {
        let complaints = router.cleanup();
        diagnostics.extend(complaints.into_iter().map(|text| Diagnostic::warning(None, text)));
        return Err(diagnostics);
    }
    let contexts = contexts(&router, seed);
    Ok(Engine::new(router, contexts))
}

/// The state of each thread.
fn contexts(router: &Arc<Router>, seed: u64) -> Vec<Context> {
    let inputs: Vec<_> = router.elements.iter().map(|member| member.inputs.clone()).collect();
    let outputs: Vec<_> = router.elements.iter().map(|member| member.outputs.clone()).collect();
    let starts: Vec<usize> = router.plan.running().map(|task| task.element).collect();
    router.heed_order();
    let wiring = Arc::new(wiring::make(&inputs, &outputs, &router.connections, &starts));
    let mut contexts = Vec::new();
    for thread in 0..router.plan.threads {
        let nodes = router
            .elements
            .iter()
            .enumerate()
            .map(|(id, member)| {
                let reached = router.plan.reach[id] >> thread & 1 == 1;
                reached.then(|| member.instantiate())
            })
            .collect();
        // Both lists are in the order in which the tasks were asked for.
        let planned = router.draft.tasks.iter().zip(&router.plan.tasks);
        let tasks: Vec<_> = planned
            .filter(|(_, planned)| planned.thread == thread && planned.runs)
            .map(|(draft, _)| draft.task.clone())
            .collect();
        let layout = match router.plan.optimised {
            true => layout(router, thread, &wiring),
            false => Layout::default(),
        };
        let program = Program::new(&layout, wiring.frames.len(), router.len());
        let waker = router.wakers[thread].clone();
        tasks.iter().for_each(|task| task.settle(thread, router.wakers.clone()));
        let context = Context::from(Parts {
            thread,
            router: router.clone(),
            stats: router.stats[thread].clone(),
            nodes,
            wiring: wiring.clone(),
            program,
            tasks,
            waker: waker.clone(),
            seed: seed.wrapping_add(thread as u64),
        });
        for (timer, &(_, home)) in router.draft.timers.iter().zip(&router.plan.timers) {
            if home == thread {
                timer.settle(thread, context.inbox().clone(), waker.clone());
            }
        }
        contexts.push(context);
    }
    contexts
}

/// The part of the graph that processes packets one by one, for one thread.
fn layout(router: &Router, thread: usize, wiring: &Wiring) -> Layout {
    let mut steps = Vec::new();
    for (frame, &(element, port)) in wiring.frames.iter().enumerate() {
        let id = element as usize;
        let reached = router.plan.reach[id] >> thread & 1 == 1;
        let kind = router.elements[id].info.steps.filter(|_| port == 0 && reached);
        if let Some(kind) = kind {
            let outputs = wiring.outputs_of(id).iter();
            let targets = outputs.map(|&to| Some(to).filter(|&to| to != NOWHERE)).collect();
            steps.push((id, kind, frame as u32, targets));
        }
    }
    Layout::new(steps)
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
        let infos = graph
            .elements
            .iter()
            .map(|element| {
                let info = registry.get(&element.class);
                if info.is_none() {
                    let message = format!("unknown element class ‘{}’", element.class);
                    let mut diagnostic = Diagnostic::error(element.class_span, message);
                    diagnostic.help =
                        nearest(&element.class, registry.iter().map(|(name, _)| name))
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
        ports::count(self.graph, &self.infos, &mut self.connections, &mut self.diagnostics)
    }

    fn kinds(&mut self, counts: &[Counts]) -> processing::Kinds {
        let (graph, infos, connections) = (self.graph, &self.infos, &self.connections);
        let diagnostics = &mut self.diagnostics;
        let (inputs, outputs) = processing::resolve(graph, infos, counts, connections, diagnostics);
        ports::check_use(graph, infos, connections, &inputs, &outputs, diagnostics);
        (inputs, outputs)
    }

    fn check_requirements(&mut self, registry: &Registry) {
        for requirement in &self.graph.requirements {
            let word = requirement.text.trim();
            // It asks for no package but tells how to read the configuration.
            let asks = word != "compact_config";
            if asks && registry.get(word).is_none() && !FEATURES.contains(&word) {
                let message = format!("requirement ‘{word}’ is not available");
                self.diagnostics.push(Diagnostic::error(requirement.span, message));
            }
        }
    }

    /// Configures every element of a known class, in order of the phases. The parts are in the order of the
    /// graph, and complete unless an error is reported.
    fn configure(&mut self, counts: &[Counts]) -> Vec<Part> {
        let lookup = NamesOf {
            by_name: self.graph.elements.iter().enumerate().map(|(id, e)| (&*e.name, id)).collect(),
        };
        let devices = self.services.get::<DeviceBook>();
        let known: Vec<_> =
            self.infos.iter().enumerate().filter_map(|(id, info)| Some((id, (*info)?))).collect();
        let mut order = known;
        order.sort_by_key(|(_, info)| info.class.phase);
        let mut parts: Vec<Option<Part>> = self.graph.elements.iter().map(|_| None).collect();
        for (id, info) in order {
            let declared = &self.graph.elements[id];
            let mut scope = Scope::new(&declared.name, &self.names, &lookup);
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
            let mut found = setup.args.into_diagnostics();
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

struct NamesOf<'a> {
    by_name: HashMap<&'a str, usize>,
}

impl ElementLookup for NamesOf<'_> {
    fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    fn names(&self) -> Vec<String> {
        self.by_name.keys().map(|name| (*name).to_owned()).collect()
    }
}

//! Builds an engine from a configured router.

use std::sync::Arc;

use millrace_lang::Diagnostic;

use super::elements::{Configured, Elements};
use super::engine::Engine;
use super::worker::Worker;
use crate::element::{AnyElement, Init};
use crate::engine::{Context, Nodes, Parts};
use crate::graph::{self, NOWHERE, PortKind, Wiring};
use crate::program::Layout;
use crate::router::{Member, Router};

/// Initialises the elements of a router, in order of their phases, and creates its threads' state.
///
/// # Errors
/// Elements refused; those that were initialised have been cleaned up again.
pub fn initialize(configured: Configured, seed: u64) -> Result<Engine, Vec<Diagnostic>> {
    initialize_shared(configured, seed, None)
}

/// Like [`initialize`], for a router that replaces a running one
/// ([`Router::replace`]). On virtual time it begins at the other's time.
///
/// # Errors
/// See [`initialize`].
pub fn initialize_beside(
    configured: Configured,
    seed: u64,
    old: &Arc<Router>,
) -> Result<Engine, Vec<Diagnostic>> {
    configured.clock().advance(old.clock().now());
    initialize_shared(configured, seed, Some(old))
}

fn initialize_shared(
    configured: Configured,
    seed: u64,
    predecessor: Option<&Router>,
) -> Result<Engine, Vec<Diagnostic>> {
    let Configured { router, elements } = configured;
    let router = Arc::new(router);
    let seed = router.draft().seed.unwrap_or(seed);
    router.random().seed(seed);
    let mut order: Vec<(usize, &dyn AnyElement)> = elements.iter().collect();
    order.sort_by_key(|&(id, _)| router.members()[id].class.phase);
    let mut diagnostics = Vec::new();
    let mut silent = false;
    for (id, element) in order {
        let member = &router.members()[id];
        let mut init = Init { id, router: &router, predecessor, findings: Vec::new() };
        let refused = element.initialize(&mut init).err();
        if member.class.name == "Error" {
            // It fails without a word: there are other messages.
            silent = true;
            continue;
        }
        let mut found = init.findings;
        // What a place was given for is among the findings already.
        let refused = refused
            .filter(|refused| !refused.0.is_empty() || !found.iter().any(Diagnostic::is_error));
        found.extend(refused.map(|refused| Diagnostic::error(None, refused.0)));
        let context = format!("While initializing ‘{} :: {}’", member.name, member.class.name);
        diagnostics.extend(found.into_iter().map(|mut finding| {
            finding.span.get_or_insert(member.span);
            finding.context(&context)
        }));
    }
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    if silent || failed {
        diagnostics.retain(|_| failed);
        let complaints = elements.cleanup(&router);
        diagnostics.extend(complaints.into_iter().map(|text| Diagnostic::warning(None, text)));
        return Err(diagnostics);
    }
    let elements = Arc::new(elements);
    let workers = workers(&router, &elements, seed);
    Ok(Engine { router, elements, workers, findings: diagnostics, stop_when_idle: false })
}

/// The state of each thread.
fn workers(router: &Arc<Router>, elements: &Arc<Elements>, seed: u64) -> Vec<Worker> {
    let plan = router.plan();
    let kinds = |of: fn(&Member) -> &Vec<PortKind>| -> Vec<Vec<PortKind>> {
        router.members().iter().map(|member| of(member).clone()).collect()
    };
    let (inputs, outputs) = (kinds(|member| &member.inputs), kinds(|member| &member.outputs));
    let starts: Vec<usize> = plan.running().map(|task| task.element).collect();
    router.heed_order();
    let wiring = Arc::new(graph::make(&inputs, &outputs, router.connections(), &starts));
    let mut workers = Vec::new();
    for thread in 0..plan.threads {
        let reached = |id: usize| plan.reach[id] >> thread & 1 == 1;
        let node = |id: usize| reached(id).then(|| elements.node(id)).flatten();
        // Both lists are in the order in which the tasks were asked for.
        let planned = router.draft().tasks.iter().zip(&plan.tasks);
        let tasks: Vec<_> = planned
            .filter(|(_, planned)| planned.thread == thread && planned.runs)
            .map(|(draft, _)| draft.task.clone())
            .collect();
        tasks.iter().for_each(|task| task.settle(thread, router.wakers().clone()));
        let layout = match plan.optimised {
            true => layout(elements, reached, &wiring),
            false => Layout::default(),
        };
        let program = layout.program(wiring.frames.len(), router.len());
        let cx = Context::from(Parts {
            thread,
            router: router.clone(),
            nodes: (0..router.len()).map(node).collect(),
            wiring: wiring.clone(),
            source: elements.clone(),
            seed: seed.wrapping_add(thread as u64),
        });
        let worker = Worker::new(cx, program, tasks);
        for (timer, &(_, home)) in router.draft().timers.iter().zip(&plan.timers) {
            if home == thread {
                timer.settle(thread, worker.inbox().clone(), router.wakers()[thread].clone());
            }
        }
        workers.push(worker);
    }
    workers
}

/// The part of the graph that processes packets one by one, for a thread that reaches some elements.
fn layout(elements: &Elements, reached: impl Fn(usize) -> bool, wiring: &Wiring) -> Layout {
    let mut steps = Vec::new();
    for (frame, &(element, port)) in wiring.frames.iter().enumerate() {
        let id = element as usize;
        let kind = elements.0[id].0.steps.filter(|_| port == 0 && reached(id));
        if let Some(kind) = kind {
            let outputs = wiring.outputs_of(id).iter();
            let targets = outputs.map(|&to| Some(to).filter(|&to| to != NOWHERE)).collect();
            steps.push((id, kind, frame as u32, targets));
        }
    }
    Layout::new(steps)
}

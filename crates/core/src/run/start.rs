//! Builds an engine from a configured router.

use std::sync::Arc;

use millrace_lang::Diagnostic;

use super::elements::{Configured, Elements};
use super::engine::Engine;
use super::worker::Worker;
use crate::element::{AnyElement, Init, Refused};
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
/// ([`Router::replace`]). Its time goes on from the other's.
///
/// # Errors
/// See [`initialize`].
pub fn initialize_beside(
    configured: Configured,
    seed: u64,
    old: &Arc<Router>,
) -> Result<Engine, Vec<Diagnostic>> {
    configured.clock().continue_from(old.clock());
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
    let mut timers_of = vec![Vec::new(); router.len()];
    router.draft().timers.iter().for_each(|timer| timers_of[timer.element()].push(timer.clone()));
    let mut diagnostics = Vec::new();
    let mut silent = false;
    for &(id, element) in &order {
        let mut init = Init { id, router: &router, predecessor, findings: Vec::new() };
        let refused = element.initialize(&mut init).err();
        if predecessor.is_none() {
            let now = router.clock().now();
            timers_of[id].iter().for_each(|timer| timer.hold(now));
        }
        if router.members()[id].class.name == "Error" {
            // It fails without a word: there are other messages.
            silent = true;
            continue;
        }
        diagnostics.extend(told(&router, id, init.findings, refused));
    }
    let sound = !silent && !diagnostics.iter().any(Diagnostic::is_error);
    for &(id, element) in order.iter().filter(|_| sound) {
        let refused = element.start(&router).err();
        diagnostics.extend(told(&router, id, Vec::new(), refused));
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
    let findings = diagnostics;
    Ok(Engine { router, elements, workers, findings, stop_when_idle: false, is_clean: false })
}

/// What an element says when it is initialised, and why it refuses.
fn told(
    router: &Router,
    id: usize,
    mut found: Vec<Diagnostic>,
    refused: Option<Refused>,
) -> impl Iterator<Item = Diagnostic> {
    let member = &router.members()[id];
    // What a place was given for is among the findings already.
    let refused =
        refused.filter(|refused| !refused.0.is_empty() || !found.iter().any(Diagnostic::is_error));
    found.extend(refused.map(|refused| Diagnostic::error(None, refused.0)));
    let context = format!("While initializing ‘{} :: {}’", member.name, member.class.name);
    found.into_iter().map(move |mut finding| {
        finding.span.get_or_insert(member.span);
        finding.context(&context)
    })
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
        let cx = Context::from(Parts {
            thread,
            router: router.clone(),
            nodes: (0..router.len()).map(node).collect(),
            wiring: wiring.clone(),
            source: elements.clone(),
            seed: seed.wrapping_add(thread as u64),
        });
        let worker = Worker::new(cx, wiring.clone(), layout, tasks);
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;
    use crate::element::{Class, Element, Failed, Setup};
    use crate::run::{Options, check};
    use crate::{ClassInfo, Registry};

    static STARTED: AtomicUsize = AtomicUsize::new(0);
    static CLEANED: AtomicUsize = AtomicUsize::new(0);

    /// Refuses if it is told to.
    struct Choosy(bool);

    impl Element for Choosy {
        const CLASS: Class = Class::new("Choosy", "0", "a");
        type Local = ();

        fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
            let refuses = setup.args.mandatory("REFUSES");
            setup.args.complete()?;
            Ok(Self(refuses))
        }

        fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
            if self.0 { Err(Refused("no".to_owned())) } else { Ok(()) }
        }

        fn start(&self, _router: &Router) -> Result<(), Refused> {
            STARTED.fetch_add(1, SeqCst);
            Ok(())
        }

        fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
            CLEANED.fetch_add(1, SeqCst);
            Ok(())
        }
    }

    const CHOOSY: ClassInfo = crate::class_info!(Choosy, "");

    fn configured(text: &str) -> Configured {
        let mut map = millrace_lang::SourceMap::default();
        let source = map.add("start.click", text);
        let (graph, _) = millrace_lang::compile(&mut map, source, &Default::default());
        let mut registry = Registry::linked();
        registry.add(&CHOOSY);
        let (router, found) = check(&graph, &registry, Options::default());
        router.unwrap_or_else(|| panic!("{found:?}"))
    }

    #[test]
    fn elements_start_when_all_are_initialised_and_are_cleaned_up_whatever_follows() {
        let counts = || [STARTED.swap(0, SeqCst), CLEANED.swap(0, SeqCst)];
        assert!(initialize(configured("Choosy(false); Choosy(true)"), 1).is_err());
        assert_eq!(counts(), [0, 2], "one refuses, so that none does what cannot be undone");
        let engine = initialize(configured("Choosy(false); Choosy(false)"), 1).unwrap();
        assert_eq!(counts(), [2, 0]);
        // The program could not open a control socket, say.
        drop(engine);
        assert_eq!(counts(), [0, 2]);
        let engine = initialize(configured("Choosy(false)"), 1).unwrap();
        engine.router().enter(crate::Phase::Halted);
        engine.run();
        assert_eq!(counts(), [1, 1], "it is cleaned up once");
    }
}

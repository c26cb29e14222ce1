//! Hot swap: a router that replaces a running one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::engine::{Engine, Successor};
use crate::element::Init;
use crate::phase::Phase;
use crate::router::Router;

/// A completed hot swap.
pub struct Swapped {
    /// The router that runs from now on.
    pub router: Arc<Router>,
    /// How long packets did not move: from the call of [`Router::replace`] until all threads of the new router had begun.
    pub pause: Duration,
    /// What the old router's elements could not flush or restore.
    pub complaints: Vec<String>,
}

impl Router {
    /// Replaces this router with another engine, [initialised next to](super::initialize_beside) it, as soon
    /// as its threads have ended their current round. `done` is called on a thread of its own, after the elements of
    /// this router have been cleaned up. The new engine runs by then: closing a packet socket takes the kernel tens of
    /// milliseconds. If several engines wait, the last one counts.
    pub fn replace(&self, engine: Engine, done: impl FnOnce(Swapped) + Send + 'static) {
        let told = Instant::now();
        let successor = move |old: &Engine| {
            take_state(&engine, &old.router);
            engine.router.follows(&old.router);
            engine.router.pauses_since(told);
            let router = engine.router.clone();
            let clean_up = move |mut old: Engine| {
                let complaints = old.clean_up();
                drop(old);
                // On virtual time nobody waits for packets.
                let pause = router.swap_pause().unwrap_or_else(|| told.elapsed());
                done(Swapped { router, pause, complaints });
            };
            (engine, Box::new(clean_up) as Box<dyn FnOnce(Engine) + Send>)
        };
        self.set_successor(Successor(Box::new(successor)));
        self.enter(Phase::Halted);
    }
}

/// Has the elements of a new engine take over the state of those with their names and classes in an old router, whose
/// threads have ended. Packets that come over count as created.
fn take_state(new: &Engine, old: &Arc<Router>) {
    let router = &new.router;
    router.clock().advance(old.clock().now());
    for (id, element) in new.elements.iter() {
        let before = old.find(router.name_of(id)).and_then(|id| old.member(id));
        if let Some(before) = before.filter(|before| before.class.name == router.class_of(id)) {
            let init = Init { id, router, predecessor: Some(old), findings: Vec::new() };
            let held = router.stats_of(id).held;
            element.take_state(&*before.element, &init);
            // No thread runs this router yet.
            let came = router.stats_of(id).held.saturating_sub(held);
            router.stats_on(0)[id].created.add(came);
        }
    }
    if old.has_entered(Phase::Ending) {
        router.enter(Phase::Ending);
    }
}

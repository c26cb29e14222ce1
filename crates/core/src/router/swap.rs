//! Hot swap: a router that takes the place of a running one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Router;
use crate::element::Init;
use crate::engine::Engine;
use crate::phase::Phase;

/// An engine that waits to take another one's place.
pub(crate) struct Successor {
    engine: Engine,
    /// When the other one was told to end.
    told: Instant,
    /// Whom to tell that it has happened.
    done: Box<dyn FnOnce(Swapped) + Send>,
}

/// A hot swap that has happened.
pub struct Swapped {
    /// The router that runs from now on.
    pub router: Arc<Router>,
    /// How long no packet moved.
    pub pause: Duration,
    /// What the old router's elements could not flush or restore.
    pub complaints: Vec<String>,
}

impl Router {
    /// Has another engine, [initialised beside](super::initialize_beside) this router, take its
    /// place as soon as its threads have ended the round that they are in. `done` is called on the
    /// thread that runs the engine, just before the new one starts. Of several that wait the last
    /// one counts.
    pub fn replace(&self, engine: Engine, done: impl FnOnce(Swapped) + Send + 'static) {
        let done = Box::new(done);
        let next = Successor { engine, told: Instant::now(), done };
        *self.successor.lock() = Some(next);
        self.enter(Phase::Halted);
    }

    pub(crate) fn take_successor(&self) -> Option<Successor> {
        self.successor.lock().take()
    }

    /// The running router that this one is to replace.
    pub(crate) fn predecessor(&self) -> Option<Arc<Self>> {
        self.predecessor.lock().clone()
    }

    pub(super) fn set_predecessor(&self, old: Option<Arc<Self>>) {
        *self.predecessor.lock() = old;
    }
}

impl Successor {
    /// Takes the place of a router whose threads have ended. What its elements said in the end is
    /// the second part.
    pub(crate) fn take_over(self, old: &Arc<Router>) -> Engine {
        let Self { engine, told, done } = self;
        let router = engine.router().clone();
        router.clock().advance(old.clock().now());
        for (id, member) in router.elements.iter().enumerate() {
            let before = old.find(&member.name).and_then(|id| old.elements.get(id));
            if let Some(before) = before.filter(|before| before.class() == member.class()) {
                let init = Init { id, router: &router, findings: Vec::new() };
                member.element.take_state(before.element.as_any(), &init);
            }
        }
        router.set_predecessor(None);
        if old.has_entered(Phase::Ending) {
            router.enter(Phase::Ending);
        }
        let complaints = old.cleanup();
        done(Swapped { router, pause: told.elapsed(), complaints });
        engine
    }
}

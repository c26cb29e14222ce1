//! Hot swap: a router that replaces a running one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{FINAL, Router};
use crate::element::Init;
use crate::engine::Engine;

/// An engine that waits to replace another one.
pub(crate) struct Successor {
    engine: Engine,
    /// When the other one was asked to end.
    told: Instant,
    /// The function to call when it has happened.
    done: Box<dyn FnOnce(Swapped) + Send>,
}

/// A completed hot swap.
pub struct Swapped {
    /// The router that runs from now on.
    pub router: Arc<Router>,
    /// How long packets did not move.
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
        let done = Box::new(done);
        let next = Successor { engine, told: Instant::now(), done };
        *self.successor.lock() = Some(next);
        self.halt();
    }

    pub(crate) fn take_successor(&self) -> Option<Successor> {
        self.successor.lock().take()
    }

    /// The running router that this one replaces.
    pub(crate) fn predecessor(&self) -> Option<Arc<Self>> {
        self.predecessor.lock().clone()
    }

    pub(super) fn set_predecessor(&self, old: Option<Arc<Self>>) {
        *self.predecessor.lock() = old;
    }
}

impl Successor {
    /// Replaces a router whose threads have ended. The second part is the thread that cleans up the old router.
    pub(crate) fn take_over(self, old: &Arc<Router>) -> (Engine, Option<JoinHandle<()>>) {
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
        if old.stop.requests.load(Ordering::SeqCst) > FINAL / 2 {
            router.request_final_stop();
        }
        let pause = told.elapsed();
        let old = old.clone();
        let clean_up = move || done(Swapped { router, pause, complaints: old.cleanup() });
        // Without a thread, `done` is dropped, and the old router's elements go with it.
        (engine, std::thread::Builder::new().name("millrace-close".to_owned()).spawn(clean_up).ok())
    }
}

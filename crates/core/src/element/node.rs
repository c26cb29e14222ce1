//! Elements behind one face: shared ones, and one thread's instance of each.

use std::any::Any;
use std::sync::Arc;

use super::{Element, Init, Inspection, Refused};
use crate::engine::{Context, Notifier};
use crate::memory::Batch;
use crate::router::Router;

/// A configured element of any class, shared by the threads.
pub(crate) trait AnyElement: Any + Send + Sync {
    fn inspect(&self, inspection: &mut Inspection<'_>);
    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused>;
    fn instantiate(self: Arc<Self>) -> Box<dyn Node>;
    fn notifier(&self, port: usize) -> Option<&Notifier>;
    fn room_notifier(&self, port: usize) -> Option<&Notifier>;
    fn held(&self) -> usize;
    /// Takes over the state of an old element, if it is of the same class.
    fn take_state(&self, old: &dyn Any, init: &Init<'_>);
    fn cleanup(&self, router: &Router) -> Result<(), Refused>;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    fn as_any(&self) -> &dyn Any;
}

/// One thread's instance of an element: the shared part and what the thread keeps.
pub(crate) trait Node: Send {
    fn push(&mut self, cx: &mut Context, port: usize, batch: &mut Batch);
    fn pull(&mut self, cx: &mut Context, port: usize, max: usize, batch: &mut Batch);
    fn run_task(&mut self, cx: &mut Context) -> bool;
    fn run_timer(&mut self, cx: &mut Context);
    fn stop_requested(&mut self, cx: &mut Context) -> bool;
    fn drain(&mut self, cx: &mut Context) -> bool;
    fn handed_over(&self, thread: usize, rings: &mut Vec<(u64, u64)>);
}

struct Instance<E: Element> {
    element: Arc<E>,
    local: E::Local,
}

impl<E: Element> AnyElement for E {
    fn inspect(&self, inspection: &mut Inspection<'_>) {
        Element::inspect(self, inspection);
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        Element::initialize(self, init)
    }

    fn instantiate(self: Arc<Self>) -> Box<dyn Node> {
        Box::new(Instance { element: self, local: E::Local::default() })
    }

    fn notifier(&self, port: usize) -> Option<&Notifier> {
        Element::notifier(self, port)
    }

    fn room_notifier(&self, port: usize) -> Option<&Notifier> {
        Element::room_notifier(self, port)
    }

    fn held(&self) -> usize {
        Element::held(self)
    }

    fn take_state(&self, old: &dyn Any, init: &Init<'_>) {
        if let Some(old) = old.downcast_ref() {
            Element::take_state(self, old, init);
        }
    }

    fn cleanup(&self, router: &Router) -> Result<(), Refused> {
        Element::cleanup(self, router)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<E: Element> Node for Instance<E> {
    fn push(&mut self, cx: &mut Context, port: usize, batch: &mut Batch) {
        self.element.push(cx, &mut self.local, port, batch);
    }

    fn pull(&mut self, cx: &mut Context, port: usize, max: usize, batch: &mut Batch) {
        self.element.pull(cx, &mut self.local, port, max, batch);
    }

    fn run_task(&mut self, cx: &mut Context) -> bool {
        self.element.run_task(cx, &mut self.local)
    }

    fn run_timer(&mut self, cx: &mut Context) {
        self.element.run_timer(cx, &mut self.local);
    }

    fn stop_requested(&mut self, cx: &mut Context) -> bool {
        self.element.stop_requested(cx, &mut self.local)
    }

    fn drain(&mut self, cx: &mut Context) -> bool {
        self.element.drain(cx, &mut self.local)
    }

    fn handed_over(&self, thread: usize, rings: &mut Vec<(u64, u64)>) {
        self.element.handed_over(&self.local, thread, rings);
    }
}

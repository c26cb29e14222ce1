//! Elements behind one interface: the shared ones, and one thread's instance of each.

#![allow(
    unsafe_code,
    reason = "what a thread keeps for an element is reached by two ways that exclude each other"
)]

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Element;
use super::init::{Init, Refused};
use super::inspect::Inspection;
use crate::capability::Offers;
use crate::engine::{Context, Node};
use crate::footprint::Footprint;
use crate::memory::Batch;
use crate::router::{Part, Router};
use crate::schedule::Notifier;

/// A configured element of any class, shared by the threads.
pub(crate) trait AnyElement: Part {
    fn inspect(&self, inspection: &mut Inspection<'_>);
    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused>;
    fn start(&self, router: &Router) -> Result<(), Refused>;
    fn footprint(&self) -> Footprint;
    /// The size of what each thread keeps for the element.
    fn local_size(&self) -> usize;
    fn instantiate(self: Arc<Self>) -> Box<dyn Node>;
    /// Takes over the state of an old element, if it has the same class.
    fn take_state(&self, old: &dyn Any, init: &Init<'_>);
    fn cleanup(&self, router: &Router) -> Result<(), Refused>;
}

/// The direction in which packets pass an element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Push,
    Pull,
}

/// Processes packets one by one that arrive at input 0 as a batch.
type Treat<E> = fn(&E, &mut <E as Element>::Local, &mut Context, Direction, &mut Batch);

/// One thread's instance of an element of class `E`.
pub(crate) struct Instance<E: Element> {
    element: Arc<E>,
    local: Local<E::Local>,
    treat: Option<Treat<E>>,
}

impl<E: Element> Instance<E> {
    fn of_batches(element: Arc<E>) -> Self {
        Self { element, local: Local::default(), treat: None }
    }

    /// An instance that processes packets one by one.
    pub(crate) fn per_packet(element: Arc<E>, treat: Treat<E>) -> Self {
        Self { element, local: Local::default(), treat: Some(treat) }
    }
}

/// A thread's state for an element, at a fixed address. The instance and the steps of a program access it,
/// but never both at the same time.
struct Local<T>(NonNull<T>);

// SAFETY: it owns the value.
unsafe impl<T: Send> Send for Local<T> {}

impl<T: Default> Default for Local<T> {
    fn default() -> Self {
        // SAFETY: a box is not null.
        Self(unsafe { NonNull::new_unchecked(Box::into_raw(Box::default())) })
    }
}

impl<T> Local<T> {
    fn get(&mut self) -> &mut T {
        // SAFETY: the value lives until this is dropped. No step of a program runs while an instance does, for the
        // engine runs the one or the other.
        unsafe { self.0.as_mut() }
    }

    fn look(&self) -> &T {
        // SAFETY: as in `get`.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Local<T> {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and a program that has a pointer to it is linked with another before it runs
        // again.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<E: Element> Part for E {
    fn offer(self: Arc<Self>, offers: &mut Offers<'_>) {
        Element::capabilities(&self, offers);
    }

    fn notifier(&self, port: usize) -> Option<&Notifier> {
        Element::notifier(self, port)
    }

    fn room_notifier(&self, port: usize) -> Option<&Notifier> {
        Element::room_notifier(self, port)
    }

    fn shows(&self) -> bool {
        Element::shows(self)
    }

    fn held(&self) -> usize {
        Element::held(self)
    }
}

impl<E: Element> AnyElement for E {
    fn inspect(&self, inspection: &mut Inspection<'_>) {
        Element::inspect(self, inspection);
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        Element::initialize(self, init)
    }

    fn start(&self, router: &Router) -> Result<(), Refused> {
        Element::start(self, router)
    }

    fn footprint(&self) -> Footprint {
        Element::footprint(self)
    }

    fn local_size(&self) -> usize {
        size_of::<E::Local>()
    }

    fn instantiate(self: Arc<Self>) -> Box<dyn Node> {
        Box::new(Instance::of_batches(self))
    }

    fn take_state(&self, old: &dyn Any, init: &Init<'_>) {
        if let Some(old) = old.downcast_ref() {
            Element::take_state(self, old, init);
        }
    }

    fn cleanup(&self, router: &Router) -> Result<(), Refused> {
        Element::cleanup(self, router)
    }
}

impl<E: Element> Node for Instance<E> {
    fn push(&mut self, cx: &mut Context, port: usize, batch: &mut Batch) {
        match self.treat {
            Some(treat) if port == 0 => {
                treat(&self.element, self.local.get(), cx, Direction::Push, batch);
            }
            _ => self.element.push(cx, self.local.get(), port, batch),
        }
    }

    fn pull(&mut self, cx: &mut Context, port: usize, max: usize, batch: &mut Batch) {
        match self.treat {
            Some(treat) if port == 0 => {
                cx.pull(0, max, batch);
                treat(&self.element, self.local.get(), cx, Direction::Pull, batch);
            }
            _ => self.element.pull(cx, self.local.get(), port, max, batch),
        }
    }

    fn run_task(&mut self, cx: &mut Context) -> bool {
        self.element.run_task(cx, self.local.get())
    }

    fn run_timer(&mut self, cx: &mut Context) {
        self.element.run_timer(cx, self.local.get());
    }

    fn stop_requested(&mut self, cx: &mut Context) -> bool {
        self.element.stop_requested(cx, self.local.get())
    }

    fn drain(&mut self, cx: &mut Context) -> bool {
        self.element.drain(cx, self.local.get())
    }

    fn handed_over(&self, thread: usize, rings: &mut Vec<(u64, u64)>) {
        self.element.handed_over(self.local.look(), thread, rings);
    }

    fn parts(&mut self) -> Option<(*const (), *mut ())> {
        self.treat.map(|_| (Arc::as_ptr(&self.element).cast(), self.local.0.as_ptr().cast()))
    }
}

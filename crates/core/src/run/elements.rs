//! The elements of a router, of which the router itself knows no class.

use std::ops::Deref;
use std::sync::Arc;

use crate::element::AnyElement;
use crate::engine::{Node, Nodes};
use crate::footprint::{Footprint, Forecast};
use crate::memory::Arena;
use crate::registry::ClassInfo;
use crate::router::Router;

/// A router that is checked and configured, with its elements: [`initialize`](super::initialize) starts it.
pub struct Configured {
    pub(super) router: Router,
    pub(super) elements: Elements,
}

impl Deref for Configured {
    type Target = Router;

    fn deref(&self) -> &Router {
        &self.router
    }
}

/// Bytes that the engine keeps for a thread, and for each element that the thread reaches, at most: frames, batches and
/// counters.
const PER_THREAD: u64 = 512 << 10;
const PER_ELEMENT: u64 = 4 << 10;

impl Configured {
    /// What the router takes of memory when it runs.
    pub fn forecast(&self) -> Forecast {
        let plan = self.router.plan();
        let mut threads = vec![PER_THREAD; plan.seats.len()];
        let mut elements = Vec::new();
        for (id, element) in self.elements.iter() {
            for thread in plan.threads_of(id) {
                if let Some(bytes) = threads.get_mut(thread) {
                    *bytes += PER_ELEMENT + element.local_size() as u64;
                }
            }
            let footprint = element.footprint();
            if footprint != Footprint::default() {
                elements.push((id, footprint));
            }
        }
        let (arena, buffers) = Arena::extent();
        Forecast { arena, buffers, threads, elements }
    }
}

/// Elements and their classes, in the order of their numbers.
pub(super) struct Elements(pub(super) Vec<(&'static ClassInfo, Arc<dyn AnyElement>)>);

impl Elements {
    /// Each with its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &dyn AnyElement)> {
        self.0.iter().enumerate().map(|(id, (_, element))| (id, &**element))
    }

    /// Cleans up every element, in order; returns the errors.
    pub(super) fn cleanup(&self, router: &Router) -> Vec<String> {
        for (id, element) in self.iter() {
            if let Err(refused) = element.cleanup(router) {
                router.complain(format!("{}: {refused}", router.name_of(id)));
            }
        }
        router.take_complaints()
    }
}

impl Nodes for Elements {
    fn node(&self, element: usize) -> Option<Box<dyn Node>> {
        let (info, element) = self.0.get(element)?;
        let per_packet = info.steps.and_then(|steps| (steps.instantiate)(element.clone()));
        Some(per_packet.unwrap_or_else(|| element.clone().instantiate()))
    }
}

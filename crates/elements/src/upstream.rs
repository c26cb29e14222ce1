//! What elements upstream offer, on the ways on which packets are pushed or pulled.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use millrace_core::{Capability, Init};

/// The nearest elements from which packets can come that offer a `T`.
pub(crate) fn offered_before<T: Capability + ?Sized>(init: &Init<'_>) -> Vec<(usize, Arc<T>)> {
    let router = init.router();
    let mut found = Vec::new();
    let mut seen = HashSet::from([init.id()]);
    let mut todo = VecDeque::from([init.id()]);
    while let Some(id) = todo.pop_front() {
        for before in router.upstream_of(id) {
            if seen.insert(before) {
                match router.offered(before) {
                    Some(offer) => found.push((before, offer)),
                    None => todo.push_back(before),
                }
            }
        }
    }
    found
}

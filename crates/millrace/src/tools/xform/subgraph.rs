//! Finds the elements of a pattern in a configuration. This is a subgraph isomorphism: the search tries the elements
//! of each class in order, and goes back if one does not match.

use std::collections::HashMap;

use crate::tools::router::Router;

/// The connected ports of two elements, each modulo 16. It is an approximation that excludes most mismatches.
type Ports = u32;

/// What the search needs to know about a configuration.
#[derive(Default)]
pub(super) struct Graph {
    /// The class of each element; `None` for tunnels and dead elements.
    classes: Vec<Option<String>>,
    tunnels: Vec<bool>,
    ports: HashMap<(usize, usize), Ports>,
    /// For an element of a pattern: the earlier element whose output 0 is connected only to it.
    only_from: Vec<Option<usize>>,
}

impl Graph {
    pub(super) fn new(router: &Router) -> Self {
        let classes: Vec<Option<String>> =
            router.elements.iter().map(|e| e.class.clone().filter(|_| !e.dead)).collect();
        let tunnels: Vec<bool> = router.elements.iter().map(|e| e.is_tunnel()).collect();
        let mut ports: HashMap<(usize, usize), Ports> = HashMap::new();
        let mut next: Vec<Next> = vec![Next::None; classes.len()];
        for connection in router.connections() {
            let (from, to) = (connection.from, connection.to);
            if from.0 != to.0 {
                let bits = 1 << (from.1 % 16) | 1 << (to.1 % 16 + 16);
                *ports.entry((from.0, to.0)).or_default() |= bits;
            }
            if let Some(next) = next.get_mut(from.0).filter(|_| from.1 == 0) {
                *next = match *next {
                    Next::None if from.0 != to.0 => Next::One(to.0),
                    _ => Next::Several,
                };
            }
        }
        let mut only_from = vec![None; classes.len()];
        for (index, next) in next.iter().enumerate() {
            let real = |index: usize| tunnels.get(index) == Some(&false);
            if let Next::One(to) = *next
                && real(index)
                && real(to)
                && to > index
                && let Some(slot) = only_from.get_mut(to)
            {
                *slot = Some(index);
            }
        }
        Self { classes, tunnels, ports, only_from }
    }

    fn class(&self, index: usize) -> Option<&str> {
        self.classes.get(index)?.as_deref()
    }

    fn ports(&self, from: usize, to: usize) -> Ports {
        self.ports.get(&(from, to)).copied().unwrap_or(0)
    }

    /// The next set of elements of `body` that are connected like those of this pattern. `found` is the last set, or
    /// empty at the start. Tunnels have no element.
    pub(super) fn next_in(
        &self,
        body: &Self,
        router: &Router,
        found: &mut Vec<Option<usize>>,
    ) -> bool {
        let count = self.classes.len();
        let tunnel = |index: usize| self.tunnels.get(index) == Some(&true);
        let (mut index, mut forward) = match found.is_empty() {
            true => (Some(0), true),
            false => (count.checked_sub(1), false),
        };
        found.resize(count, None);
        while let Some(at) = index.filter(|&at| at < count) {
            if tunnel(at) {
                index = if forward { Some(at + 1) } else { at.checked_sub(1) };
                continue;
            }
            let start = found.get(at).copied().flatten().map_or(0, |last| last + 1);
            let candidates = match self.only_from.get(at).copied().flatten() {
                None => start..body.classes.len(),
                Some(before) => {
                    let before = found.get(before).copied().flatten();
                    let targets =
                        before.map_or(Vec::new(), |before| router.ports_from((before, 0)));
                    match targets[..] {
                        [(only, _)] if start == 0 => only..only + 1,
                        _ => 0..0,
                    }
                }
            };
            let next =
                candidates.into_iter().find(|&candidate| self.fits(at, candidate, body, found));
            if let Some(slot) = found.get_mut(at) {
                *slot = next;
            }
            forward = next.is_some();
            index = if forward { Some(at + 1) } else { at.checked_sub(1) };
        }
        index.is_some()
    }

    /// True if `candidate` can match element `at` of the pattern, given the elements before it.
    fn fits(&self, at: usize, candidate: usize, body: &Self, found: &[Option<usize>]) -> bool {
        self.class(at) == body.class(candidate)
            && body.class(candidate).is_some()
            && found.iter().enumerate().take(at).all(|(other, place)| {
                let Some(place) = *place else { return true };
                let (out, into) = (self.ports(other, at), self.ports(at, other));
                out & body.ports(place, candidate) == out
                    && into & body.ports(candidate, place) == into
            })
    }
}

#[derive(Clone, Copy)]
enum Next {
    None,
    One(usize),
    Several,
}

/// The configuration in which patterns are searched for.
pub(super) struct Body {
    pub(super) graph: Graph,
    /// The maximum number of elements before dead ones are removed.
    room: usize,
}

impl Body {
    pub(super) fn new(router: &Router) -> Self {
        Self { graph: Graph::new(router), room: router.elements.len().next_power_of_two() }
    }

    /// Updates it after a replacement.
    pub(super) fn update(&mut self, router: &mut Router) {
        let live = router.iter().count();
        if router.elements.len() > self.room || router.elements.len() >= live + 500 {
            router.remove_dead();
            *self = Self::new(router);
        } else {
            self.graph = Graph::new(router);
        }
    }
}

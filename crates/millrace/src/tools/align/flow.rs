//! The alignment of the packets at every port: the one that they have, or the one that elements require.

use std::collections::VecDeque;

use super::aligner::Aligner;
use super::alignment::Alignment;
use crate::tools::router::{Connection, Port, Router};
use crate::tools::session::Session;
use crate::tools::traits::Traits;

/// If the alignments are not stable after this number of visits to each element, they never will be.
const MOST_VISITS: usize = 10_000;

/// The alignment of the packets at every port.
#[derive(Clone)]
pub(super) struct Flow {
    pub(super) aligners: Vec<Aligner>,
    pub(super) into: Vec<Vec<Alignment>>,
    pub(super) out: Vec<Vec<Alignment>>,
}

impl Flow {
    /// The alignments that packets have.
    pub(super) fn current(router: &Router, session: &Session, traits: &Traits) -> Self {
        let mut flow = Self::new(router, session);
        let mut due = Due::new(0..router.elements.len());
        while let Some(index) = due.next() {
            flow.gather(index, router);
            if flow.leave(index, router, traits) {
                neighbours(router, index, true).for_each(|index| due.add(index));
            }
        }
        flow
    }

    /// The alignments that elements require, of their own or for those behind them.
    pub(super) fn wanted(router: &Router, session: &Session, traits: &Traits) -> Self {
        let mut flow = Self::new(router, session);
        let mut due = Due::new((0..router.elements.len()).rev());
        while let Some(index) = due.next() {
            flow.gather_back(index, router);
            if flow.enter(index, router, traits) {
                neighbours(router, index, false).for_each(|index| due.add(index));
            }
        }
        flow
    }

    /// The alignments that elements require of their own.
    pub(super) fn wanted_alone(router: &Router, session: &Session, traits: &Traits) -> Self {
        let mut flow = Self::new(router, session);
        for index in 0..router.elements.len() {
            flow.enter(index, router, traits);
        }
        flow
    }

    fn new(router: &Router, session: &Session) -> Self {
        let elements = || router.elements.iter();
        Self {
            aligners: elements().map(|element| Aligner::of(element, session)).collect(),
            into: elements().map(|element| vec![Alignment::Empty; element.inputs]).collect(),
            out: elements().map(|element| vec![Alignment::Empty; element.outputs]).collect(),
        }
    }

    pub(super) fn at(side: &[Vec<Alignment>], port: Port) -> Alignment {
        side.get(port.0).and_then(|ports| ports.get(port.1)).copied().unwrap_or_default()
    }

    /// Joins what comes to the inputs of an element.
    fn gather(&mut self, index: usize, router: &Router) {
        let Some(into) = self.into.get_mut(index) else { return };
        for (port, entering) in into.iter_mut().enumerate() {
            let comes = in_order(router, router.numbers_to((index, port)));
            let comes = comes.map(|connection| Self::at(&self.out, connection.from));
            *entering = comes.fold(Alignment::Empty, Alignment::either);
        }
    }

    /// Joins what is required behind the outputs of an element.
    fn gather_back(&mut self, index: usize, router: &Router) {
        let Some(out) = self.out.get_mut(index) else { return };
        for (port, leaving) in out.iter_mut().enumerate() {
            let asked = in_order(router, router.numbers_from((index, port)));
            let asked = asked.map(|connection| Self::at(&self.into, connection.to));
            *leaving = asked.fold(Alignment::Empty, Alignment::both);
        }
    }

    /// What leaves an element, by what comes to it; true if that is new.
    fn leave(&mut self, index: usize, router: &Router, traits: &Traits) -> bool {
        let Some(element) = router.elements.get(index) else { return false };
        let Some(aligner) = self.aligners.get(index) else { return false };
        let (Some(into), Some(out)) = (self.into.get(index), self.out.get_mut(index)) else {
            return false;
        };
        let before = out.clone();
        aligner.leave(element.class(), traits, into, out);
        *out != before
    }

    /// What an element requires, by what is required behind it; true if that is new.
    fn enter(&mut self, index: usize, router: &Router, traits: &Traits) -> bool {
        let Some(element) = router.elements.get(index) else { return false };
        let Some(aligner) = self.aligners.get(index) else { return false };
        let (Some(into), Some(out)) = (self.into.get_mut(index), self.out.get(index)) else {
            return false;
        };
        let before = into.clone();
        aligner.enter(element.class(), traits, into, out);
        *into != before
    }
}

/// Connections in the order of their numbers: what `either` makes of three alignments depends on the order.
fn in_order(router: &Router, mut numbers: Vec<usize>) -> impl Iterator<Item = Connection> {
    numbers.sort_unstable();
    numbers.into_iter().filter_map(|number| router.connection(number))
}

/// The elements behind an element (or before it).
fn neighbours(router: &Router, index: usize, behind: bool) -> impl Iterator<Item = usize> {
    let numbers = router.by_port(index, behind).into_iter().flatten();
    let connections = numbers.filter_map(|number| router.connection(number));
    connections.map(move |one| if behind { one.to.0 } else { one.from.0 })
}

/// The elements that are to be visited: each once, and again when something changes next to it. So a chain takes as many
/// visits as it has elements.
struct Due {
    queue: VecDeque<usize>,
    waits: Vec<bool>,
    /// How many more visits there may be.
    visits: usize,
}

impl Due {
    fn new(order: impl ExactSizeIterator<Item = usize>) -> Self {
        let elements = order.len();
        let visits = elements.saturating_mul(MOST_VISITS);
        Self { queue: order.collect(), waits: vec![true; elements], visits }
    }

    fn add(&mut self, index: usize) {
        if let Some(waits) = self.waits.get_mut(index).filter(|waits| !**waits) {
            *waits = true;
            self.queue.push_back(index);
        }
    }

    fn next(&mut self) -> Option<usize> {
        self.visits = self.visits.checked_sub(1)?;
        let index = self.queue.pop_front()?;
        if let Some(waits) = self.waits.get_mut(index) {
            *waits = false;
        }
        Some(index)
    }
}

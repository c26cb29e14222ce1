//! Finds the elements of a configuration that match a pattern: elements of its classes, connected as in it and to nothing
//! else than what its inputs and outputs allow, with its arguments.
//!
//! The elements of the pattern are looked for one after the other, those of the configuration in their order; the search
//! goes back if one does not match. An element that is connected with one before it is looked for among the neighbours
//! of that one alone.

use std::collections::{BTreeSet, HashMap, HashSet};

use millrace_lang::config::split_args;

use super::pattern::Pattern;
use super::places::Places;
use super::replacement::Found;
use crate::tools::router::{Port, Router};

/// A search for a pattern.
pub(super) struct Matcher<'a> {
    pattern: &'a Pattern,
    router: &'a Router,
    places: &'a Places,
    found: Found,
}

impl<'a> Matcher<'a> {
    /// `id` is the number of the pattern, from 1.
    pub(super) fn new(
        pattern: &'a Pattern,
        router: &'a Router,
        places: &'a Places,
        id: usize,
    ) -> Self {
        let elements = vec![None; pattern.router.elements.len()];
        let found = Found { id, elements, ..Found::default() };
        Self { pattern, router, places, found }
    }

    /// The first match whose first element is this one, or one behind it.
    pub(super) fn find_from(mut self, start: usize) -> Option<Found> {
        let order = 0..self.pattern.router.elements.len();
        let order: Vec<usize> = order.filter(|index| self.pattern.has_class(*index)).collect();
        let mut waiting: Vec<Candidates> = vec![Candidates::Behind(start)];
        while let Some(depth) = waiting.len().checked_sub(1) {
            let (candidates, &at) = (waiting.last_mut()?, order.get(depth)?);
            let class = self.pattern.class(at).unwrap_or_default();
            let Some(candidate) = candidates.next(class, self.places) else {
                waiting.pop();
                continue;
            };
            if !self.is_linked(at, candidate) {
                continue;
            }
            if let Some(slot) = self.found.elements.get_mut(at) {
                *slot = Some(candidate);
            }
            match order.get(depth + 1) {
                Some(&next) => waiting.push(self.candidates(next)),
                None if self.fits() => return Some(self.found),
                None => {}
            }
        }
        None
    }

    /// The elements that can match this one of the pattern, given those before it.
    fn candidates(&self, at: usize) -> Candidates {
        if let Some(before) = self.pattern.only_from(at) {
            let before = self.element(before);
            let targets = before.map_or(Vec::new(), |before| self.router.ports_from((before, 0)));
            let only = if let [(only, _)] = targets[..] { vec![only] } else { Vec::new() };
            return Candidates::of(only);
        }
        let links = self.pattern.links(at).iter();
        let neighbours = links.filter(|link| link.from.0 != link.to.0).map(|link| {
            let (from, to) = (link.from, link.to);
            match from.0 == at {
                true => self.element(to.0).map(|place| self.router.ports_to((place, to.1))),
                false => self.element(from.0).map(|place| self.router.ports_from((place, from.1))),
            }
        });
        match neighbours.map(Option::unwrap_or_default).min_by_key(Vec::len) {
            Some(ports) => Candidates::of(ports.into_iter().map(|(place, _)| place).collect()),
            None => Candidates::Behind(0),
        }
    }

    /// True if an element has the class of this one of the pattern, and its connections with those before it.
    fn is_linked(&self, at: usize, candidate: usize) -> bool {
        let place = |index| if index == at { Some(candidate) } else { self.element(index) };
        let class = self.router.live(candidate).and_then(|element| element.class.as_deref());
        class == self.pattern.class(at)
            && self.pattern.links(at).iter().all(|link| {
                let (Some(from), Some(to)) = (place(link.from.0), place(link.to.0)) else {
                    return false;
                };
                self.router.has_connection((from, link.from.1), (to, link.to.1))
            })
    }

    fn element(&self, of_pattern: usize) -> Option<usize> {
        self.found.elements.get(of_pattern).copied().flatten()
    }

    /// True if arguments match, and connections with others are inputs and outputs of the pattern.
    fn fits(&mut self) -> bool {
        self.found.values.clear();
        self.found.into.clear();
        self.found.out_of.clear();
        let mut back: HashMap<usize, usize> = HashMap::new();
        let mut own = true;
        let pattern = &self.pattern.router;
        for (index, element) in pattern.elements.iter().enumerate() {
            let Some(place) = self.element(index) else { continue };
            let Some(found) = self.router.live(place) else { return false };
            if !match_config(&element.config, &found.config, &mut self.found.values) {
                return false;
            }
            back.insert(place, index);
            own &= found.pattern == self.found.id;
        }
        // A match that consists only of replacements of this pattern would be replaced without end.
        if own {
            return false;
        }
        let numbers = back.keys().flat_map(|place| self.router.numbers_of(*place));
        let numbers: BTreeSet<usize> = numbers.collect();
        for connection in numbers.into_iter().filter_map(|number| self.router.connection(number)) {
            let (from, to) = (connection.from, connection.to);
            let fits = match (back.get(&from.0), back.get(&to.0)) {
                (Some(&a), Some(&b)) => pattern.has_connection((a, from.1), (b, to.1)),
                (None, Some(&inside)) => self.enters(from, (inside, to.1)),
                (Some(&inside), None) => self.leaves((inside, from.1), to),
                (None, None) => true,
            };
            if !fits {
                return false;
            }
        }
        let entered: HashSet<usize> = self.found.into.iter().map(|(_, input)| *input).collect();
        let left: HashSet<usize> = self.found.out_of.iter().map(|(output, _)| *output).collect();
        pattern.connections().all(|connection| {
            let (from, to) = (connection.from, connection.to);
            (!self.is_end(from.0, "input") || entered.contains(&from.1))
                && (!self.is_end(to.0, "output") || left.contains(&to.1))
        })
    }

    fn is_end(&self, of_pattern: usize, name: &str) -> bool {
        self.pattern.router.live(of_pattern).is_some_and(|e| e.is_tunnel() && e.name == name)
    }

    /// Finds the input of the pattern that corresponds to a connection from a port outside to a port inside.
    fn enters(&mut self, outside: Port, inside: Port) -> bool {
        let pattern = &self.pattern.router;
        let covers = |end: &Port| {
            pattern.ports_from(*end).into_iter().all(|(element, port)| {
                let place = self.element(element);
                place.is_some_and(|place| self.router.has_connection(outside, (place, port)))
            })
        };
        let ends = pattern.ports_to(inside).into_iter();
        let ends = ends.filter(|end| self.is_end(end.0, "input")).filter(covers);
        let Some((_, input)) = ends.min() else { return false };
        self.found.into.push((outside, input));
        true
    }

    fn leaves(&mut self, inside: Port, outside: Port) -> bool {
        let pattern = &self.pattern.router;
        let covers = |end: &Port| {
            pattern.ports_to(*end).into_iter().all(|(element, port)| {
                let place = self.element(element);
                place.is_some_and(|place| self.router.has_connection((place, port), outside))
            })
        };
        let ends = pattern.ports_from(inside).into_iter();
        let ends = ends.filter(|end| self.is_end(end.0, "output")).filter(covers);
        let Some((_, output)) = ends.min() else { return false };
        self.found.out_of.push((output, outside));
        true
    }
}

/// Elements that may match one of the pattern.
enum Candidates {
    /// These, the last one first.
    These(Vec<usize>),
    /// All of its class that are not before this one.
    Behind(usize),
}

impl Candidates {
    fn of(mut places: Vec<usize>) -> Self {
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.dedup();
        Self::These(places)
    }

    fn next(&mut self, class: &str, places: &Places) -> Option<usize> {
        match self {
            Self::These(these) => these.pop(),
            Self::Behind(start) => {
                let next = places.next(class, *start)?;
                *start = next + 1;
                Some(next)
            }
        }
    }
}

/// True if a configuration string matches that of a pattern, in which arguments may be variables. A variable must
/// have the same value everywhere.
fn match_config(pattern: &str, config: &str, values: &mut HashMap<String, String>) -> bool {
    let (pattern, args) = (split_args(pattern), split_args(config));
    if pattern.len() != args.len() {
        return false;
    }
    let mut new: HashMap<String, String> = HashMap::new();
    for (wanted, arg) in pattern.iter().zip(&args) {
        if wanted.text == arg.text {
            continue;
        }
        let Some(name) = wanted.text.strip_prefix('$').filter(|name| !name.is_empty()) else {
            return false;
        };
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return false;
        }
        match values.get(&*wanted.text).or_else(|| new.get(&*wanted.text)) {
            Some(value) if *value != arg.text => return false,
            Some(_) => {}
            None => {
                new.insert(wanted.text.to_string(), arg.text.to_string());
            }
        }
    }
    values.extend(new);
    true
}

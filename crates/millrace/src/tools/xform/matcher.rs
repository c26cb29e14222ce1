//! Checks whether elements that are connected like those of a pattern match it: their arguments and their connections
//! to other elements must match, too. Replaces the elements of a match.

use std::collections::{HashMap, HashSet};

use millrace_lang::config::split_args;

use super::subgraph::{Body, Graph};
use crate::tools::router::{Element, Port, Router};

/// A search for a pattern.
pub(super) struct Matcher<'a> {
    pattern: &'a Router,
    graph: Graph,
    router: &'a Router,
    body: &'a Body,
    found: Found,
}

/// A match.
#[derive(Default)]
pub(super) struct Found {
    /// The number of the pattern, from 1.
    id: usize,
    /// The matching element for each element of the pattern.
    elements: Vec<Option<usize>>,
    /// The values of variables; names include the `$`.
    values: HashMap<String, String>,
    /// The ports outside that lead to an input of the pattern, with that input. The same for outputs.
    into: Vec<(Port, usize)>,
    out_of: Vec<(usize, Port)>,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(pattern: &'a Router, router: &'a Router, body: &'a Body, id: usize) -> Self {
        let found = Found { id, ..Found::default() };
        Self { pattern, graph: Graph::new(pattern), router, body, found }
    }

    pub(super) fn into_found(self) -> Found {
        self.found
    }

    /// Finds the next match.
    pub(super) fn next_match(&mut self) -> bool {
        if self.pattern.elements.iter().all(Element::is_tunnel) {
            return false;
        }
        while self.graph.next_in(&self.body.graph, self.router, &mut self.found.elements) {
            if self.connected() && self.fits() {
                return true;
            }
        }
        false
    }

    fn element(&self, of_pattern: usize) -> Option<usize> {
        self.found.elements.get(of_pattern).copied().flatten()
    }

    /// True if every connection inside the pattern exists.
    fn connected(&self) -> bool {
        self.pattern.connections().all(|connection| {
            let ends = (self.element(connection.from.0), self.element(connection.to.0));
            let (Some(from), Some(to)) = ends else { return true };
            self.router.has_connection((from, connection.from.1), (to, connection.to.1))
        })
    }

    fn fits(&mut self) -> bool {
        self.found.values.clear();
        self.found.into.clear();
        self.found.out_of.clear();
        let mut back: HashMap<usize, usize> = HashMap::new();
        let mut own = true;
        for (index, element) in self.pattern.elements.iter().enumerate() {
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
        for connection in self.router.connections() {
            let (from, to) = (connection.from, connection.to);
            let fits = match (back.get(&from.0), back.get(&to.0)) {
                (Some(&a), Some(&b)) => self.pattern.has_connection((a, from.1), (b, to.1)),
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
        self.pattern.connections().all(|connection| {
            let (from, to) = (connection.from, connection.to);
            (!self.is_end(from.0, "input") || entered.contains(&from.1))
                && (!self.is_end(to.0, "output") || left.contains(&to.1))
        })
    }

    fn is_end(&self, of_pattern: usize, name: &str) -> bool {
        self.pattern.live(of_pattern).is_some_and(|e| e.is_tunnel() && e.name == name)
    }

    /// Finds the input of the pattern that corresponds to a connection from a port outside to a port inside.
    fn enters(&mut self, outside: Port, inside: Port) -> bool {
        let targets = self.router.ports_from(outside);
        let covers = |end: &Port| {
            self.pattern.ports_from(*end).into_iter().all(|(element, port)| {
                self.element(element).is_some_and(|place| targets.contains(&(place, port)))
            })
        };
        let ends = self.pattern.ports_to(inside).into_iter();
        let ends = ends.filter(|end| self.is_end(end.0, "input")).filter(covers);
        let Some((_, input)) = ends.min() else { return false };
        self.found.into.push((outside, input));
        true
    }

    fn leaves(&mut self, inside: Port, outside: Port) -> bool {
        let sources = self.router.ports_to(outside);
        let covers = |end: &Port| {
            self.pattern.ports_to(*end).into_iter().all(|(element, port)| {
                self.element(element).is_some_and(|place| sources.contains(&(place, port)))
            })
        };
        let ends = self.pattern.ports_from(inside).into_iter();
        let ends = ends.filter(|end| self.is_end(end.0, "output")).filter(covers);
        let Some((_, output)) = ends.min() else { return false };
        self.found.out_of.push((output, outside));
        true
    }
}

impl Found {
    /// Replaces the match. The names of the new elements get `prefix`.
    pub(super) fn replace(
        self,
        router: &mut Router,
        pattern: &Router,
        replacement: &Router,
        prefix: &str,
    ) {
        let mut old_names = HashMap::new();
        let mut changed = Vec::new();
        for (index, place) in self.elements.iter().enumerate() {
            let Some(place) = *place else { continue };
            if let Some(element) = router.elements.get(place) {
                old_names.insert(index, element.name.clone());
            }
            changed.push(place);
            router.free(place);
        }
        router.added = Some(changed);
        let tunnel = |name: String| Element { name, ..Element::default() };
        let outer = router.add(tunnel(prefix.to_owned()));
        let input = router.add(tunnel(format!("{prefix}/input")));
        let output = router.add(tunnel(format!("{prefix}/output")));
        for (place, leads_to, comes_from) in [
            (outer, Some(input), Some(output)),
            (input, None, Some(outer)),
            (output, Some(outer), None),
        ] {
            if let Some(element) = router.elements.get_mut(place) {
                (element.leads_to, element.comes_from) = (leads_to, comes_from);
            }
        }
        router.take_over(replacement, &format!("{prefix}/"));
        for place in router.added.take().unwrap_or_default() {
            if let Some(element) = router.elements.get_mut(place).filter(|element| !element.dead) {
                element.pattern = self.id;
                self.set_values(element);
            }
        }
        for (index, old) in old_names {
            let name = pattern.elements.get(index).map_or("", |element| &*element.name);
            if let Some(place) = router.find(&format!("{prefix}/{name}")) {
                router.rename(place, &old);
            }
        }
        for (from, input) in &self.into {
            router.connect(*from, (outer, *input));
        }
        for (out, to) in &self.out_of {
            router.connect((outer, *out), *to);
        }
        router.remove_tunnels();
    }

    /// Replaces arguments that are variables by their values.
    fn set_values(&self, element: &mut Element) {
        let args = split_args(&element.config);
        if !args.iter().any(|arg| self.values.contains_key(&*arg.text)) {
            return;
        }
        let value = |text: &str| self.values.get(text).cloned().unwrap_or_else(|| text.to_owned());
        let args: Vec<String> = args.iter().map(|arg| value(&arg.text)).collect();
        element.config = args.join(", ");
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

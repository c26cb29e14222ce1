//! Undeclared names, and what was probably meant by them.

use std::collections::{HashMap, VecDeque};
use std::mem;

use super::Resolver;
use crate::ast::TextRange;
use crate::diagnostic::{Diagnostic, shorten};
use crate::flatten::program::Class;
use crate::source::Span;

/// The limit on steps in the search for cycles.
const MAX_STEPS: usize = 1_000_000;

/// A name that is neither an element nor a class, to be reported after everything has been read.
pub(super) struct Undeclared<'a> {
    name: &'a str,
    span: Span,
    message: String,
    /// The compound classes that contain it, outermost first: name and index in the program.
    inside: Vec<(&'a str, usize)>,
    near: Option<&'a str>,
}

impl<'a> Resolver<'a, '_, '_> {
    pub(super) fn undeclared(&mut self, name: &'a str, place: TextRange, message: String) {
        if self.skipped.contains(name) || self.findings.is_full() {
            return;
        }
        let near = self.near(name);
        let scopes = self.open.iter().skip(1).chain((!self.open.is_empty()).then_some(&self.scope));
        let inside = scopes.map(|scope| (scope.compound.name, scope.index)).collect();
        let span = place.span(self.file.source);
        self.undeclared.push(Undeclared { name, span, message, inside, near });
    }

    /// The element or class in scope whose name is nearest.
    pub(super) fn near(&mut self, name: &str) -> Option<&'a str> {
        if self.suggestions.is_exhausted() {
            return None;
        }
        let elements = self.scope.names.keys().copied();
        let classes = self.class_names.iter().copied();
        let mut candidates: Vec<&'a str> = elements.chain(classes).collect();
        candidates.extend(self.known.iter().flatten());
        candidates.extend(["elementclass", "require", "provide", "define"]);
        if self.scope.input.is_some() {
            candidates.extend(["input", "output"]);
        }
        // Hash order is no order: the same mistake must get the same help every time.
        candidates.sort_unstable();
        self.suggestions.nearest(name, candidates)
    }

    /// Reports undeclared names, after it is known which of them are declared later.
    pub(super) fn explain_undeclared(&mut self) {
        for undeclared in mem::take(&mut self.undeclared) {
            let Undeclared { name, span, message, inside, near } = undeclared;
            let mut error = Diagnostic::error(span, message);
            if let Some(cycle) = self.cycle(name, &inside) {
                error = error.label(format!("recursive elementclass: {cycle}"));
                error = error.help("a compound cannot contain itself, directly or through others");
            } else if let Some(Class::Compound(later)) = self.lookup_class(name) {
                let place = self.program.compounds.get(later).map(|compound| compound.place);
                error = error.remark(place, format!("‘{name}’ is declared here, too late"));
                error = error.help("move the declaration before its first use");
            } else if let Some(later) = self.declared_later(name, &inside) {
                let short = shorten(name);
                error = error.remark(later, format!("‘{short}’ is declared here, too late"));
                error = error.help("move the declaration before its first use");
            } else if let Some(why) = self.absent.and_then(|absent| absent(name)) {
                error = error.help(why);
            } else if let Some(near) = near {
                error = error.help(format!("did you mean ‘{near}’?"));
            }
            self.findings.push(error);
        }
    }

    /// Where the element is declared in the scope that it was used in. That is after its use: then it was undeclared.
    fn declared_later(&mut self, name: &str, inside: &[(&'a str, usize)]) -> Option<Span> {
        let compound = match inside.last() {
            Some(&(_, index)) => self.program.compounds.get(index)?,
            None => &self.scope.compound,
        };
        self.cycle_steps += compound.nodes.len();
        if self.cycle_steps > MAX_STEPS {
            return None;
        }
        let mut given = compound.nodes.iter().filter(|node| node.name.number == 0);
        given.find(|node| node.name.base == name).map(|node| node.span())
    }

    /// The names of classes, each containing the next, when `name`, used inside the compound classes
    /// `inside`, would lead back to one of them.
    pub(super) fn cycle(&mut self, name: &str, inside: &[(&'a str, usize)]) -> Option<String> {
        if let Some(at) = inside.iter().position(|&(outer, _)| outer == name) {
            let names = inside.get(at..)?.iter().map(|&(name, _)| name).filter(|n| !n.is_empty());
            return Some(chain_of(names.chain([name])));
        }
        let &(outer, start) = inside.first()?;
        let Some(Class::Compound(later)) = self.lookup_class(name) else { return None };
        // Breadth first from the class declared later to the one that uses it.
        let mut reached_from: HashMap<usize, usize> = HashMap::from([(later, later)]);
        let mut queue = VecDeque::from([later]);
        while let Some(index) = queue.pop_front() {
            if index == start {
                let mut path = vec![outer];
                let mut at = index;
                while at != later {
                    at = *reached_from.get(&at)?;
                    path.push(self.program.compounds.get(at)?.name);
                }
                path.reverse();
                return Some(chain_of([outer].into_iter().chain(path)));
            }
            let compound = self.program.compounds.get(index)?;
            self.cycle_steps += compound.nodes.len();
            if self.cycle_steps > MAX_STEPS {
                return None;
            }
            let used = compound.nodes.iter().map(|node| node.class).chain(compound.next);
            for class in used {
                // A name that meant nothing where it stood may mean the cycle's next class.
                let class = match class {
                    Class::Primitive(name) if !self.is_known(name) => self.lookup_class(name),
                    class => Some(class),
                };
                if let Some(Class::Compound(inner)) = class
                    && !reached_from.contains_key(&inner)
                {
                    reached_from.insert(inner, index);
                    queue.push_back(inner);
                }
            }
        }
        None
    }
}

fn chain_of<'s>(names: impl Iterator<Item = &'s str>) -> String {
    let names: Vec<String> = names.take(20).map(|name| format!("‘{}’", shorten(name))).collect();
    names.join(" → ")
}

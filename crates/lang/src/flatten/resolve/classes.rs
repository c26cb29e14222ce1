//! Element classes: the names in scope, and compound classes, which open scopes of their own.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem;

use super::{Resolver, Scope};
use crate::ast::{self, TextRange};
use crate::diagnostic::shorten;
use crate::flatten::program::{Class, Compound, Name, Tunnel};

/// A class with more alternatives is rejected; trying them takes time.
const MAX_ALTERNATIVES: usize = 256;

impl<'a, 't> Resolver<'a, 't, '_> {
    /// The class that is named or defined here. `name` is its name in an `elementclass`.
    pub(super) fn class(&mut self, class: &'t ast::Class, name: &'a str) -> Class<'a> {
        match class {
            ast::Class::Compound(compound) => self.compound(compound, name),
            ast::Class::Name(place) => {
                let name = place.of(self.text);
                self.lookup_class(name).unwrap_or_else(|| {
                    if self.known.is_some() {
                        let message = format!("unknown element class ‘{}’", shorten(name));
                        self.undeclared(name, *place, message);
                    } else {
                        if self.scope.lookup(name).is_some() {
                            let name = shorten(name);
                            let message =
                                format!("‘{name}’ was previously used as an element name");
                            self.error(*place, message);
                        }
                        self.assumed.insert(name);
                    }
                    Class::Primitive(name)
                })
            }
        }
    }

    pub(super) fn lookup_class(&self, name: &str) -> Option<Class<'a>> {
        let declared = self.classes.get(name).and_then(|classes| classes.last()).copied();
        let known = || self.known.as_ref().unwrap_or(&self.assumed).get(name);
        declared.or_else(|| known().map(|name| Class::Primitive(name)))
    }

    pub(super) fn is_known(&self, name: &str) -> bool {
        self.known.as_ref().is_some_and(|known| known.contains(name))
    }

    pub(super) fn declare_class(&mut self, name: &'a str, class: Class<'a>) {
        if let (Class::Compound(index), true) = (class, self.open.is_empty()) {
            self.file_classes.push((name, index));
        }
        self.classes.entry(name).or_default().push(class);
        self.class_names.push(name);
    }

    /// Reads a compound class with all its alternatives; returns the first.
    pub(super) fn compound(&mut self, compound: &'t ast::Compound, name: &'a str) -> Class<'a> {
        let mut next = compound.extends.and_then(|dots| self.extended(name, dots));
        let mut count = match next {
            Some(Class::Compound(i)) => self.program.compounds.get(i).map_or(0, |c| c.alternatives),
            other => usize::from(other.is_some()),
        };
        let alternatives = compound.alternatives.iter();
        let indices: Vec<usize> =
            alternatives.map(|alternative| self.alternative(alternative, name)).collect();
        for index in indices.into_iter().rev() {
            count += 1;
            if let Some(compound) = self.program.compounds.get_mut(index) {
                (compound.next, compound.alternatives) = (next, count);
            }
            next = Some(Class::Compound(index));
        }
        if count > MAX_ALTERNATIVES {
            let message = format!("more than {MAX_ALTERNATIVES} definitions of one compound");
            self.error(compound.range, message);
            return Class::Primitive(name);
        }
        next.unwrap_or(Class::Primitive(name))
    }

    /// The class that `...` stands for.
    pub(super) fn extended(&mut self, name: &'a str, dots: TextRange) -> Option<Class<'a>> {
        let class = self.lookup_class(name);
        let assumed = !name.is_empty() && self.known.is_none();
        let class = class.or_else(|| assumed.then_some(Class::Primitive(name)));
        if class.is_none() {
            let message = format!("cannot extend unknown element class ‘{}’", shorten(name));
            self.error(dots, message);
        }
        class
    }

    /// Reads one definition of a compound class; returns its index in the program.
    pub(super) fn alternative(
        &mut self,
        alternative: &'t ast::Alternative,
        name: &'a str,
    ) -> usize {
        let start = alternative.range.start;
        let place = TextRange { start: start.saturating_sub(1), end: start };
        let span = place.span(self.file.source);
        let index = self.program.compounds.len();
        let depth = self.open.len() + 1;
        // Its place is taken now, so that compounds inside come after it.
        self.program.compounds.push(Compound::new(name, span, depth));
        let mut scope = Scope::new(Compound::new(name, span, depth), self.class_names.len());
        scope.index = index;
        self.open.push(mem::replace(&mut self.scope, scope));

        let input = self.push_tunnel(Name::given("input"), Tunnel::Input, place);
        let output = self.push_tunnel(Name::given("output"), Tunnel::Output, place);
        (self.scope.input, self.scope.output) = (Some(input), Some(output));
        self.formals(&alternative.formals);
        self.items(&alternative.items);
        let printable = self.scope.compound.printable_name();
        self.scope.compound.inputs = self.check_pseudo(input, Tunnel::Input, printable, span);
        self.scope.compound.outputs = self.check_pseudo(output, Tunnel::Output, printable, span);
        self.finish_scope();

        if let Some(outer) = self.open.pop() {
            let scope = mem::replace(&mut self.scope, outer);
            while self.class_names.len() > scope.classes {
                let name = self.class_names.pop().unwrap_or("");
                self.classes.get_mut(name).map(Vec::pop);
            }
            if let Some(compound) = self.program.compounds.get_mut(index) {
                *compound = scope.compound;
            }
        }
        index
    }

    pub(super) fn formals(&mut self, formals: &'t [ast::Formal]) {
        let mut order_error = false;
        let mut keywords: HashSet<&str> = HashSet::new();
        for formal in formals {
            let variable = formal.variable.of(self.text).trim_start_matches('$');
            let keyword = formal.keyword.map_or("", |keyword| keyword.of(self.text));
            let before = self.scope.compound.keywords.last().copied();
            if !self.define_variable(Cow::from(variable), formal.variable) {
                continue;
            }
            self.scope.compound.keywords.push(keyword);
            if !keyword.is_empty() && !keywords.insert(keyword) {
                let keyword_place = formal.keyword.unwrap_or(formal.variable);
                let message = format!("repeated keyword parameter ‘{keyword}’ in compound element");
                self.error(keyword_place, message);
            }
            let out_of_order = before.is_some_and(|before| {
                before == "__REST__" || (keyword.is_empty() && !before.is_empty())
            });
            if out_of_order && !order_error {
                order_error = true;
                let message = "compound element parameters out of order";
                let error = self.diagnostic(formal.variable, message);
                self.findings.push(
                    error.note(
                        None,
                        "(The correct order is ‘[positional], [keywords], [__REST__]’.)",
                    ),
                );
            }
        }
    }
}

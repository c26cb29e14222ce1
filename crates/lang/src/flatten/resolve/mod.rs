//! Resolution: from syntax trees to compound classes. Every name is looked up once, in its scope, whether or
//! not the compound class around it is ever used.
//!
//! Scoping follows Click. An element is visible from its declaration to the end of its compound class, but
//! not in compound classes inside it. A class is visible from the end of its definition to the end of its
//! scope, including compound classes inside it. Groups are not scopes.

mod classes;
mod directives;
mod undeclared;

use std::collections::{HashMap, HashSet};
use std::mem;

use undeclared::Undeclared;

use super::connect::{End, EndPorts, connect};
use super::library::Libraries;
use super::options::{Options, WhyAbsent};
use super::program::{
    Class, Compound, Edge, Limits, Name, Node, Port, Program, Tunnel, dedup_edges,
};
use crate::ast::{self, Body, DirectiveKind, Element, Item, Link, TextRange};
use crate::diagnostic::{Diagnostic, Findings, shorten};
use crate::graph::Requirement;
use crate::nearest::Suggestions;
use crate::source::{SourceId, SourceMap, Span};

/// The result of resolution.
pub(super) struct Resolved<'a> {
    pub(super) program: Program<'a>,
    pub(super) requirements: Vec<Requirement>,
    pub(super) provisions: Vec<Requirement>,
    /// The named compound classes of the file, in order, with their indices in the program.
    pub(super) file_classes: Vec<(&'a str, usize)>,
}

/// Resolves a file and the libraries that it requires.
pub(super) fn resolve<'a>(
    map: &'a SourceMap,
    libraries: &Libraries,
    options: &Options<'a>,
    limits: Limits,
    findings: &mut Findings,
) -> Resolved<'a> {
    let known = options.classes.map(|names| names.iter().map(String::as_str).collect());
    let place = Span { source: libraries.root().source, start: 0, end: 0 };
    let mut resolver = Resolver {
        map,
        libraries,
        known,
        absent: options.absent,
        file: libraries.root(),
        text: map.text_of(place.source),
        skipped: HashSet::new(),
        classes: HashMap::new(),
        class_names: Vec::new(),
        open: Vec::new(),
        scope: Scope::new(Compound::new("", place, 0), 0),
        program: Program { compounds: vec![Compound::new("", place, 0)] },
        requirements: Vec::new(),
        provisions: Vec::new(),
        included: HashSet::new(),
        assumed: HashSet::new(),
        file_classes: Vec::new(),
        connections: 0,
        limits,
        suggestions: Suggestions::default(),
        cycle_steps: 0,
        undeclared: Vec::new(),
        findings,
    };
    resolver.file(libraries.root());
    resolver.finish_scope();
    resolver.explain_undeclared();
    let scope = resolver.scope;
    if let Some(first) = resolver.program.compounds.first_mut() {
        *first = scope.compound;
    }
    Resolved {
        program: resolver.program,
        requirements: resolver.requirements,
        provisions: resolver.provisions,
        file_classes: resolver.file_classes,
    }
}

/// A compound class that is being read.
struct Scope<'a> {
    compound: Compound<'a>,
    /// Its index in the program.
    index: usize,
    names: HashMap<&'a str, u32>,
    /// The pseudo-elements that `input` and `output` mean here.
    input: Option<u32>,
    output: Option<u32>,
    /// Ports of pseudo-elements that are in use, to find unused ones.
    pseudo_ports: HashSet<Port>,
    /// How many classes were declared when it began.
    classes: usize,
}

impl<'a> Scope<'a> {
    fn new(compound: Compound<'a>, classes: usize) -> Self {
        Self {
            compound,
            index: 0,
            names: HashMap::new(),
            input: None,
            output: None,
            pseudo_ports: HashSet::new(),
            classes,
        }
    }

    fn lookup(&self, name: &str) -> Option<u32> {
        let pseudo = match name {
            "input" => self.input,
            "output" => self.output,
            _ => None,
        };
        pseudo.or_else(|| self.names.get(name).copied())
    }

    fn node(&self, index: u32) -> Option<&Node<'a>> {
        self.compound.nodes.get(index as usize)
    }
}

/// An element of a stage whose classes are known, before the stage's elements are added.
struct Pending<'a, 't> {
    element: &'t Element,
    what: What<'a>,
    config: Option<TextRange>,
}

#[derive(Clone, Copy)]
enum What<'a> {
    /// A node that exists, with this many group ports: a group, or an implicit pseudo-element.
    Node { node: u32, inputs: u32, outputs: u32 },
    /// An identifier, with or without a configuration.
    Name { name: TextRange },
    /// An identifier with a class.
    Declared { name: TextRange, class: Class<'a>, class_place: TextRange },
    /// A compound class without a name, in place of an element.
    Anonymous { class: Class<'a>, place: TextRange },
}

struct Resolver<'a, 't, 'f> {
    map: &'a SourceMap,
    libraries: &'t Libraries,
    /// The classes of the engine, when they are known.
    known: Option<HashSet<&'a str>>,
    absent: Option<WhyAbsent<'a>>,
    /// The file being read, and its text.
    file: &'t ast::File,
    text: &'a str,
    /// Names in text that the parser skipped.
    skipped: HashSet<&'a str>,
    /// The classes in scope with each name, innermost last.
    classes: HashMap<&'a str, Vec<Class<'a>>>,
    /// The names of the classes in scope in the order of their declaration.
    class_names: Vec<&'a str>,
    /// The scopes around the one being read.
    open: Vec<Scope<'a>>,
    scope: Scope<'a>,
    program: Program<'a>,
    requirements: Vec<Requirement>,
    provisions: Vec<Requirement>,
    /// Libraries that have been read.
    included: HashSet<usize>,
    /// When the engine's classes are not known: names that were assumed to be classes.
    assumed: HashSet<&'a str>,
    file_classes: Vec<(&'a str, usize)>,
    connections: usize,
    limits: Limits,
    suggestions: Suggestions,
    cycle_steps: usize,
    undeclared: Vec<Undeclared<'a>>,
    findings: &'f mut Findings,
}

impl<'a, 't> Resolver<'a, 't, '_> {
    fn file(&mut self, file: &'t ast::File) {
        let before = (self.file, self.text);
        (self.file, self.text) = (file, self.map.text_of(file.source));
        self.skipped.extend(file.skipped.iter().map(|range| range.of(self.text)));
        self.items(&file.items);
        (self.file, self.text) = before;
    }

    fn items(&mut self, items: &'t [Item]) {
        for item in items {
            if self.findings.is_full() {
                return;
            }
            match item {
                Item::Chain(chain) => self.chain(chain),
                Item::ElementClass(class) => {
                    let name = class.name.of(self.text);
                    let class = self.class(&class.class, name);
                    self.declare_class(name, class);
                }
                Item::Directive(directive) => match directive.kind {
                    DirectiveKind::Require => self.require(directive),
                    DirectiveKind::Provide => self.provide(directive),
                    DirectiveKind::Define => self.define(directive),
                },
            }
        }
    }

    fn chain(&mut self, chain: &'t ast::Chain) {
        let mut outputs: Vec<End<'t>> = Vec::new();
        let mut arrow = None;
        for stage in chain.stages() {
            let first = arrow.is_none();
            let link = stage.last().map_or(Link::End, |element| element.link);
            let (ins, outs) = self.stage(stage, first, link == Link::End);
            let place = stage.first().zip(stage.last()).map(|(a, b)| a.range.to(b.range));
            let place = place.unwrap_or_default();
            match arrow {
                None if ins.iter().any(End::has_ports) => {
                    self.error(place, "input ports ignored at start of chain");
                }
                None => {}
                Some(arrow) => self.connect(&outputs, &ins, arrow, place),
            }
            if link == Link::End && outs.iter().any(End::has_ports) {
                self.error(place, "output ports ignored at end of chain");
            }
            (outputs, arrow) = (outs, Some(link));
        }
    }

    /// Adds the elements of a stage. Returns its input side and its output side.
    fn stage(
        &mut self,
        stage: &'t [Element],
        first: bool,
        last: bool,
    ) -> (Vec<End<'t>>, Vec<End<'t>>) {
        let mut pending: Vec<Pending<'a, 't>> =
            stage.iter().filter_map(|element| self.pending(element, first)).collect();
        if first && last {
            spread_declaration(&mut pending);
        }
        let mut inputs = Vec::with_capacity(pending.len());
        let mut outputs = Vec::with_capacity(pending.len());
        for Pending { element, what, config } in pending {
            let (ins, outs) = match what {
                What::Node { inputs, outputs, .. } => {
                    (EndPorts::First(inputs), EndPorts::First(outputs))
                }
                _ => (EndPorts::Absent, EndPorts::Absent),
            };
            let node = self.add(what, config);
            let listed = |ports: &'t Option<Box<ast::Ports>>, or: EndPorts<'t>| {
                ports.as_deref().map_or(or, EndPorts::Listed)
            };
            let (mut ins, mut outs) =
                (listed(&element.inputs, ins), listed(&element.outputs, outs));
            // What ports an implied `input` has stand before it, and are its outputs.
            if first && matches!(element.body, Body::Implicit) {
                mem::swap(&mut ins, &mut outs);
            }
            inputs.push(End { node, ports: ins });
            outputs.push(End { node, ports: outs });
        }
        (inputs, outputs)
    }

    /// Looks up the classes of an element, and reads the statements inside it.
    fn pending(&mut self, element: &'t Element, first: bool) -> Option<Pending<'a, 't>> {
        let (what, config) = match &element.body {
            Body::Implicit => {
                let node = if first { self.scope.input } else { self.scope.output };
                (What::Node { node: node?, inputs: 0, outputs: 0 }, None)
            }
            Body::Name(name) => (What::Name { name: *name }, None),
            Body::Group(group) => (self.group(group), None),
            Body::Declaration(declaration) => {
                let what = match (&declaration.name, &declaration.class) {
                    (Some(name), None) => What::Name { name: *name },
                    (Some(name), Some(class)) => {
                        let class_place = class_place(class);
                        let class = self.class(class, "");
                        What::Declared { name: *name, class, class_place }
                    }
                    (None, Some(class)) => {
                        let place = class_place(class);
                        What::Anonymous { class: self.class(class, ""), place }
                    }
                    (None, None) => return None,
                };
                (what, declaration.config)
            }
        };
        Some(Pending { element, what, config })
    }

    /// Adds an element to the scope, or finds the one that is meant.
    fn add(&mut self, what: What<'a>, config: Option<TextRange>) -> u32 {
        match what {
            What::Node { node, .. } => node,
            What::Anonymous { class, place } => self.add_anonymous("", class, place, config),
            What::Declared { name, class, class_place } => {
                self.declare(name, class, class_place, config)
            }
            What::Name { name: place } => {
                let name = place.of(self.text);
                if let Some(class) = self.lookup_class(name) {
                    return self.add_anonymous(name, class, place, config);
                }
                if let Some(node) = self.scope.lookup(name) {
                    if config.is_some() {
                        self.error(place, "configuration string ignored on element reference");
                    }
                    return node;
                }
                if self.known.is_some() {
                    let message = format!("undeclared element ‘{}’", shorten(name));
                    self.undeclared(name, place, message);
                } else {
                    self.assumed.insert(name);
                }
                self.add_anonymous(name, Class::Primitive(name), place, config)
            }
        }
    }

    fn declare(
        &mut self,
        place: TextRange,
        class: Class<'a>,
        class_place: TextRange,
        config: Option<TextRange>,
    ) -> u32 {
        let name = place.of(self.text);
        if let Some(earlier) = self.scope.lookup(name) {
            let node = self.scope.node(earlier);
            let earlier_place =
                node.filter(|node| !matches!(node.class, Class::Tunnel(_))).map(|node| node.span());
            let short = shorten(name);
            let mut error = self.diagnostic(place, format!("redeclaration of element ‘{short}’"));
            if let Some(span) = earlier_place {
                error = error.note(span, format!("element ‘{short}’ previously declared here"));
            }
            self.findings.push(error);
            return earlier;
        }
        if self.lookup_class(name).is_some() {
            let message = format!("class ‘{}’ used as element name", shorten(name));
            self.error(place, message);
        }
        if name.split('/').any(|part| part.bytes().all(|b| b.is_ascii_digit())) {
            let message = format!("element name ‘{}’ has all-digit component", shorten(name));
            self.error(place, message);
        }
        let index = self.push_node(Node {
            name: Name::given(name),
            class,
            source: self.file.source,
            place,
            class_place,
            config,
            inputs: 0,
            outputs: 0,
        });
        self.scope.names.insert(name, index);
        index
    }

    fn add_anonymous(
        &mut self,
        base: &'a str,
        class: Class<'a>,
        place: TextRange,
        config: Option<TextRange>,
    ) -> u32 {
        let name = Name { base, number: self.next_number() };
        let source = self.file.source;
        let (inputs, outputs) = (0, 0);
        let node = Node { name, class, source, place, class_place: place, config, inputs, outputs };
        self.push_node(node)
    }

    /// The ordinal of the next element in its scope, from 1; `input` and `output` do not count.
    fn next_number(&self) -> usize {
        let pseudo = if self.open.is_empty() { 0 } else { 2 };
        self.scope.compound.nodes.len().saturating_sub(pseudo) + 1
    }

    fn push_node(&mut self, node: Node<'a>) -> u32 {
        let nodes = &mut self.scope.compound.nodes;
        nodes.push(node);
        // A text of at most 4 GiB cannot hold more.
        u32::try_from(nodes.len() - 1).unwrap_or(u32::MAX)
    }

    /// Reads a group: a tunnel whose inside is part of this scope.
    fn group(&mut self, group: &'t ast::Group) -> What<'a> {
        let name = match group.name {
            Some(place) => Name::given(place.of(self.text)),
            None => Name { base: "", number: self.next_number() },
        };
        if let Some(place) = group.name {
            if self.scope.lookup(name.base).is_some() {
                let short = shorten(name.base);
                self.error(place, format!("redeclaration of element ‘{short}’"));
            } else if self.lookup_class(name.base).is_some() {
                let short = shorten(name.base);
                self.error(place, format!("class ‘{short}’ used as element name"));
            }
        }
        let outer = self.push_tunnel(name, Tunnel::Outer, group.range);
        let input = self.push_tunnel(name, Tunnel::Input, group.range);
        let output = self.push_tunnel(name, Tunnel::Output, group.range);
        let before = (self.scope.input, self.scope.output);
        (self.scope.input, self.scope.output) = (Some(input), Some(output));
        self.items(&group.items);
        let span = group.range.span(self.file.source);
        let printable = if name.number > 0 { "<anonymous group>" } else { name.base };
        let inputs = self.check_pseudo(input, Tunnel::Input, printable, span);
        let outputs = self.check_pseudo(output, Tunnel::Output, printable, span);
        (self.scope.input, self.scope.output) = before;
        if group.name.is_some() {
            self.scope.names.entry(name.base).or_insert(outer);
            // Where it has a name, it shows the ports that are asked for.
            return What::Node { node: outer, inputs: 0, outputs: 0 };
        }
        What::Node { node: outer, inputs, outputs }
    }

    fn push_tunnel(&mut self, name: Name<'a>, end: Tunnel, place: TextRange) -> u32 {
        self.push_node(Node {
            name,
            class: Class::Tunnel(end),
            source: self.file.source,
            place,
            class_place: place,
            config: None,
            inputs: 0,
            outputs: 0,
        })
    }

    /// Checks that the used ports of a pseudo-element have no gaps, and that it is not used backwards;
    /// returns their number.
    fn check_pseudo(&mut self, node: u32, end: Tunnel, name: &str, span: Span) -> u32 {
        let Some(pseudo) = self.scope.node(node) else { return 0 };
        let (pseudo_name, side, count, backwards) = match end {
            Tunnel::Input => ("input", "output", pseudo.outputs, pseudo.inputs),
            _ => ("output", "input", pseudo.inputs, pseudo.outputs),
        };
        let name = shorten(name);
        if backwards > 0 {
            self.findings.push(Diagnostic::error(
                span,
                format!("‘{name}’ pseudoelement ‘{pseudo_name}’ may only be used as {side}"),
            ));
        }
        let used = &self.scope.pseudo_ports;
        let missing = (0..count).filter(|&port| !used.contains(&Port { node, port }));
        // A few say it; the highest port may be thousands above.
        let missing: Vec<u32> = missing.take(4).collect();
        for port in missing {
            let message = format!("‘{name}’ {pseudo_name} {port} missing");
            let highest = count - 1;
            self.findings.push(
                Diagnostic::error(span, message)
                    .label(format!("it uses ‘{pseudo_name}’ up to port {highest}")),
            );
        }
        count
    }

    fn connect(&mut self, from: &[End<'t>], to: &[End<'t>], arrow: Link, place: TextRange) {
        let span = place.span(self.file.source);
        let room = self.limits.connections;
        let mut overflow = false;
        let errors = connect(from, to, arrow, |from, to| {
            if self.connections >= room {
                overflow = true;
                return false;
            }
            self.connections += 1;
            let (input, output) = (self.scope.input, self.scope.output);
            let nodes = &mut self.scope.compound.nodes;
            if let Some(node) = nodes.get_mut(from.node as usize) {
                node.outputs = node.outputs.max(from.port.saturating_add(1));
            }
            if let Some(node) = nodes.get_mut(to.node as usize) {
                node.inputs = node.inputs.max(to.port.saturating_add(1));
            }
            if input == Some(from.node) {
                self.scope.pseudo_ports.insert(from);
            }
            if output == Some(to.node) {
                self.scope.pseudo_ports.insert(to);
            }
            self.scope.compound.edges.push(Edge { from, to, span });
            true
        });
        for message in errors {
            self.error(place, message);
        }
        if overflow {
            self.error(place, format!("configuration has more than {room} connections"));
        }
    }

    fn finish_scope(&mut self) {
        number_anonymous(&mut self.scope);
        let compound = &mut self.scope.compound;
        dedup_edges(&mut compound.edges);
        compound.nodes.shrink_to_fit();
        compound.edges.shrink_to_fit();
    }

    fn diagnostic(&self, place: TextRange, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(place.span(self.file.source), message)
    }

    fn error(&mut self, place: TextRange, message: impl Into<String>) {
        let diagnostic = self.diagnostic(place, message);
        self.findings.push(diagnostic);
    }
}

/// `a, b :: Class(config)` as a whole statement declares both.
fn spread_declaration(pending: &mut [Pending<'_, '_>]) {
    let Some((last, others)) = pending.split_last_mut() else { return };
    let plain = |p: &Pending<'_, '_>| p.element.inputs.is_none() && p.element.outputs.is_none();
    let bare =
        |p: &Pending<'_, '_>| plain(p) && p.config.is_none() && matches!(p.what, What::Name { .. });
    let What::Declared { class, class_place, .. } = last.what else { return };
    if !plain(last) || !others.iter().all(bare) {
        return;
    }
    for other in others {
        if let What::Name { name } = other.what {
            other.what = What::Declared { name, class, class_place };
            other.config = last.config;
        }
    }
}

fn class_place(class: &ast::Class) -> TextRange {
    match class {
        ast::Class::Name(place) => *place,
        ast::Class::Compound(compound) => {
            TextRange { start: compound.range.start, end: compound.range.start + 1 }
        }
    }
}

/// Gives anonymous elements whose name is in use the next free number.
fn number_anonymous(scope: &mut Scope<'_>) {
    let taken: HashSet<&str> =
        scope.names.keys().copied().filter(|name| name.contains('@')).collect();
    if taken.is_empty() {
        return;
    }
    let mut moved: HashSet<Name<'_>> = HashSet::new();
    // All numbers between the two, for a base, are taken: long runs are passed over once.
    let mut runs: HashMap<&str, (usize, usize)> = HashMap::new();
    for node in &mut scope.compound.nodes {
        if node.name.number == 0 || matches!(node.class, Class::Tunnel(_)) {
            continue;
        }
        let first = node.name;
        let mut name = first;
        if let Some(&(from, to)) = runs.get(name.base)
            && (from..=to).contains(&name.number)
        {
            name.number = to + 1;
        }
        while moved.contains(&name) || taken.contains(name.to_string().as_str()) {
            name.number += 1;
        }
        if name != first {
            runs.insert(name.base, (first.number, name.number));
            moved.insert(name);
            node.name = name;
        }
    }
}

impl SourceMap {
    fn text_of(&self, source: SourceId) -> &str {
        self.get(source).map_or("", |source| source.text.as_str())
    }
}

//! Expansion: replaces every use of a compound class with its elements.
//!
//! Elements keep Click's order: those of the file first, then, for each compound element in turn, its
//! elements and then what they expand to. Connections that lead into or out of a compound element are
//! resolved afterwards, see [`super::tunnels`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::rc::Rc;

use super::arguments::{REST, assign};
use super::program::{Class, Compound, Edge, Limits, Node, Port, Program, Tunnel};
use super::scope::{Budget, Scope};
use super::tunnels;
use crate::config::split_args;
use crate::diagnostic::{Diagnostic, Findings, shorten};
use crate::graph::{Assembly, ConfigText, ElementDecl, Graph, Part};
use crate::source::{SourceMap, Span};
use crate::variables::TooLong;

/// Compound elements nested deeper than this are an error.
pub const MAX_EXPANSION_DEPTH: usize = 100;

/// Expands a program into the elements and connections of the graph.
pub(super) fn expand(
    map: &SourceMap,
    mut program: Program<'_>,
    params: &[(String, String)],
    limits: Limits,
    graph: &mut Graph,
    findings: &mut Findings,
) {
    // The connections of the file itself are used once and need not be copied.
    let edges = program.compounds.first_mut().map(|file| mem::take(&mut file.edges));
    let program = &program;
    let Some(scope) = Scope::file(program, params) else { return };
    let mut expansion = Expansion::new(map, program, limits, findings);
    expansion.edges = edges.unwrap_or_default();
    expansion.whole(0, &scope);
    expansion.finish(graph);
}

/// Expands one compound class of a program, by default the file, in the order of Click's tools, and keeps the
/// ends of tunnels; or leaves the compound elements in it unexpanded.
pub(super) fn expand_for_tools(
    map: &SourceMap,
    program: &Program<'_>,
    root: usize,
    shallow: bool,
    params: &[(String, String)],
    limits: Limits,
    findings: &mut Findings,
) -> Assembly {
    let (Some(compound), Some(file)) = (program.compounds.get(root), Scope::file(program, params))
    else {
        return Assembly::default();
    };
    let mut expansion = Expansion::new(map, program, limits, findings);
    (expansion.depth_first, expansion.shallow) = (true, shallow);
    expansion.edges.clone_from(&compound.edges);
    let scope = if root == 0 { file } else { file.enter(compound, Vec::new()) };
    expansion.whole(root, &scope);
    expansion.finish_for_tools(root == 0 && !shallow)
}

/// An element of the flat configuration, or an end of a tunnel.
#[derive(Debug)]
pub(super) struct Flat<'p, 'a> {
    /// Full name.
    pub(super) name: Rc<str>,
    /// The class of a compound element becomes [`Tunnel::Outer`] when it is expanded.
    pub(super) class: Class<'a>,
    /// For the outside of a tunnel: the flat index of its `input`; `output` follows. For the inner ends: the
    /// flat index of the outside.
    pub(super) inside: usize,
    /// Its declaration.
    pub(super) node: &'p Node<'a>,
    /// Its configuration string after expansion, if it differs from the source.
    pub(super) config: Option<String>,
}

struct Expansion<'p, 'a, 'f> {
    map: &'p SourceMap,
    program: &'p Program<'a>,
    limits: Limits,
    budget: Budget,
    flat: Vec<Flat<'p, 'a>>,
    names: HashMap<Rc<str>, usize>,
    /// Connections between flat elements and tunnel ends.
    edges: Vec<Edge>,
    /// The compound classes being expanded, outermost first.
    inside: Vec<&'p Compound<'a>>,
    /// True when a limit has been exceeded.
    stopped: bool,
    /// Each element of a compound element is expanded before the next is added, as in Click's tools; the
    /// engine adds all of them first.
    depth_first: bool,
    /// Compound elements are not expanded.
    shallow: bool,
    findings: &'f mut Findings,
}

impl<'p, 'a, 'f> Expansion<'p, 'a, 'f> {
    fn new(
        map: &'p SourceMap,
        program: &'p Program<'a>,
        limits: Limits,
        findings: &'f mut Findings,
    ) -> Self {
        Self {
            map,
            program,
            limits,
            budget: Budget { bytes: limits.bytes.into(), deep: false.into() },
            flat: Vec::new(),
            names: HashMap::new(),
            edges: Vec::new(),
            inside: Vec::new(),
            stopped: false,
            depth_first: false,
            shallow: false,
            findings,
        }
    }

    /// Expands the compound class that is not inside another. Its connections already exist.
    fn whole(&mut self, root: usize, scope: &Rc<Scope<'p, 'a>>) {
        let Some(compound) = self.program.compounds.get(root) else { return };
        self.add_nodes(compound, None);
        for index in 0..compound.nodes.len() {
            self.element(index, scope);
        }
        if self.budget.deep.get() {
            let message = "definitions of variables are nested too deeply";
            self.findings.push(Diagnostic::error(None, message));
        }
    }

    /// Adds the elements and connections of a compound class under the name of the element that it stands
    /// for. Returns the flat index of the first.
    fn add_nodes(&mut self, compound: &'p Compound<'a>, outer: Option<usize>) -> Option<usize> {
        let base = self.flat.len();
        let room = |have: usize, more: usize, most: usize| have.saturating_add(more) <= most;
        let place = outer.and_then(|i| self.flat.get(i)).map(|outer| outer.node.span());
        if outer.is_some() && !room(base, compound.nodes.len(), self.limits.elements) {
            return self.stop(place, self.limits.elements, "elements");
        }
        let edges = (self.edges.len(), compound.edges.len());
        if outer.is_some() && !room(edges.0, edges.1, self.limits.connections) {
            return self.stop(place, self.limits.connections, "connections");
        }
        let outer_name = outer.and_then(|i| self.flat.get(i)).map(|outer| Rc::clone(&outer.name));
        for node in &compound.nodes {
            self.add_named(node, outer, outer_name.as_deref(), base)?;
        }
        if outer.is_some() {
            self.add_edges(compound, |node| node.saturating_add(base as u32));
        }
        Some(base)
    }

    /// Adds an element of a compound class under its full name; returns its flat index.
    fn add_named(
        &mut self,
        node: &'p Node<'a>,
        outer: Option<usize>,
        outer_name: Option<&str>,
        base: usize,
    ) -> Option<usize> {
        let index = self.flat.len();
        let (name, inside) = match (node.class, outer_name) {
            (Class::Tunnel(end @ (Tunnel::Input | Tunnel::Output)), _) => {
                self.inner_end(end, outer, base)
            }
            (_, Some(outer)) => (format!("{outer}/{}", node.name), index + 1),
            (_, None) => (node.name.to_string(), index + 1),
        };
        if outer.is_some() && self.budget.take(name.len()).is_err() {
            let place = outer.and_then(|i| self.flat.get(i)).map(|outer| outer.node.span());
            return self.stop(place, self.limits.bytes, "bytes");
        }
        self.add_node(Rc::from(name), inside, node, outer);
        Some(index)
    }

    fn add_edges(&mut self, compound: &Compound<'a>, place: impl Fn(u32) -> u32) {
        self.edges.extend(compound.edges.iter().map(|edge| Edge {
            from: Port { node: place(edge.from.node), ..edge.from },
            to: Port { node: place(edge.to.node), ..edge.to },
            span: edge.span,
        }));
    }

    /// Adds the elements of a compound class, each expanded before the next, then its connections.
    fn add_depth_first(
        &mut self,
        compound: &'p Compound<'a>,
        outer: usize,
        scope: &Rc<Scope<'p, 'a>>,
    ) {
        let base = self.flat.len();
        let name = self.flat.get(outer).map(|outer| Rc::clone(&outer.name));
        let place = self.flat.get(outer).map(|outer| outer.node.span());
        if let Some(flat) = self.flat.get_mut(outer) {
            (flat.class, flat.inside) = (Class::Tunnel(Tunnel::Outer), base);
        }
        let mut places: Vec<u32> = Vec::with_capacity(compound.nodes.len());
        for node in &compound.nodes {
            if self.flat.len() >= self.limits.elements {
                self.stop::<()>(place, self.limits.elements, "elements");
            }
            if self.stopped {
                return;
            }
            let Some(index) = self.add_named(node, Some(outer), name.as_deref(), base) else {
                return;
            };
            places.push(index as u32);
            self.element(index, scope);
        }
        if self.edges.len().saturating_add(compound.edges.len()) > self.limits.connections {
            self.stop::<()>(place, self.limits.connections, "connections");
            return;
        }
        let last = self.flat.len() as u32;
        self.add_edges(compound, |node| places.get(node as usize).copied().unwrap_or(last));
    }

    /// Name of a pseudo-element, and the outside that it belongs to: the group directly before it, or else
    /// the compound element that contains it.
    fn inner_end(&self, end: Tunnel, compound: Option<usize>, base: usize) -> (String, usize) {
        let (name, distance) = match end {
            Tunnel::Input => ("input", 1),
            _ => ("output", 2),
        };
        let group = self.flat.len().checked_sub(distance).filter(|&i| i >= base);
        let is_group =
            |&i: &usize| self.flat.get(i).is_some_and(|f| f.class == Class::Tunnel(Tunnel::Outer));
        let outside = group.filter(is_group).or(compound).unwrap_or(usize::MAX);
        match self.flat.get(outside) {
            Some(outer) => (format!("{}/{name}", outer.name), outside),
            // A compound by itself: nothing is outside.
            None => (name.to_owned(), outside),
        }
    }

    fn add_node(&mut self, name: Rc<str>, inside: usize, node: &'p Node<'a>, outer: Option<usize>) {
        let index = self.flat.len();
        if let Some(&earlier) = self.names.get(&name) {
            let user = outer.and_then(|i| self.flat.get(i)).map_or(node, |outer| outer.node);
            let short = shorten(&name);
            let mut error =
                Diagnostic::error(user.span(), format!("redeclaration of element ‘{short}’"));
            if let Some(earlier) = self.flat.get(earlier) {
                let message = format!("‘{short}’ previously declared here");
                error = error.note(earlier.node.span(), message);
            }
            self.findings.push(error);
        } else {
            self.names.insert(Rc::clone(&name), index);
        }
        self.flat.push(Flat { name, class: node.class, inside, node, config: None });
    }

    /// Expands one element in `scope`.
    fn element(&mut self, index: usize, scope: &Rc<Scope<'p, 'a>>) {
        let Some(flat) = self.flat.get(index) else { return };
        if self.stopped || self.shallow || matches!(flat.class, Class::Tunnel(_)) {
            return;
        }
        let node = flat.node;
        let written = self.written_config(node);
        let config = match scope.expand(&written, &self.budget) {
            Ok(config) => config,
            Err(TooLong) => {
                self.stop::<()>(Some(node.span()), self.limits.bytes, "bytes");
                return;
            }
        };
        if let Class::Compound(first) = flat.class {
            self.compound(index, first, &config, scope);
        }
        let config = match (config, &written) {
            (Cow::Borrowed(_), Cow::Borrowed(_)) => return,
            (config, _) => config.into_owned(),
        };
        if let Some(flat) = self.flat.get_mut(index) {
            flat.config = Some(config);
        }
    }

    /// Expands the use of a compound class, with the definition that fits.
    fn compound(&mut self, index: usize, first: usize, config: &str, scope: &Rc<Scope<'p, 'a>>) {
        let Some((class, args)) = self.choose(index, first, config) else { return };
        let program = self.program;
        let compound = match class {
            Class::Compound(i) => program.compounds.get(i),
            _ => None,
        };
        let Some(compound) = compound else {
            if let Some(flat) = self.flat.get_mut(index) {
                flat.class = class;
            }
            return;
        };
        if self.inside.len() >= MAX_EXPANSION_DEPTH {
            self.too_deep(index);
            return;
        }
        if self.depth_first {
            let scope = scope.enter(compound, args);
            self.inside.push(compound);
            self.add_depth_first(compound, index, &scope);
            self.inside.pop();
            return;
        }
        let Some(base) = self.add_nodes(compound, Some(index)) else { return };
        if let Some(flat) = self.flat.get_mut(index) {
            (flat.class, flat.inside) = (Class::Tunnel(Tunnel::Outer), base);
        }
        let scope = scope.enter(compound, args);
        self.inside.push(compound);
        for index in base..base + compound.nodes.len() {
            self.element(index, &scope);
        }
        self.inside.pop();
    }

    /// The definition of a class that fits the ports and arguments of an element, and the values of its
    /// parameters.
    fn choose(
        &mut self,
        index: usize,
        first: usize,
        config: &str,
    ) -> Option<(Class<'a>, Vec<String>)> {
        let node = self.flat.get(index)?.node;
        let args = split_args(config);
        let mut candidates: Vec<&'p Compound<'a>> = Vec::new();
        let mut near = None;
        let mut class = Class::Compound(first);
        loop {
            let Class::Compound(i) = class else { return Some((class, Vec::new())) };
            let compound = self.program.compounds.get(i)?;
            if let Some(values) = assign(&compound.keywords, &args) {
                if (compound.inputs, compound.outputs) == (node.inputs, node.outputs) {
                    return Some((class, values));
                }
                near = Some((class, values));
            }
            candidates.push(compound);
            match compound.next {
                Some(next) => class = next,
                None => break,
            }
        }
        // A single definition whose ports do not fit is expanded: then each port that is missing
        // or unused gets a message of its own.
        if let ([_], Some(near)) = (&candidates[..], near) {
            return Some(near);
        }
        let name = candidates.first().map_or("", |compound| compound.printable_name());
        let count = args.len();
        let mut wanted = shorten(name).into_owned();
        wanted.push('[');
        if count > 0 {
            wanted += &format!("{count} {}, ", plural(count, "argument"));
        }
        let message = format!("no match for ‘{wanted}{}]’", ports(node.inputs, node.outputs));
        let mut error = Diagnostic::error(node.span(), message);
        if !self.depth_first {
            // Click looks for the definition when it has read everything, and says so.
            error.landmark = self.end();
        }
        let place = candidates.first().map(|compound| compound.place);
        error = error.note(place, "candidates are:");
        for compound in candidates {
            error = error.note(compound.place, format!("  {}", signature(compound)));
        }
        self.findings.push(error);
        None
    }

    /// The end of the configuration, in the form of Click's messages.
    fn end(&self) -> Option<String> {
        let source = self.program.compounds.first()?.place.source;
        let end = u32::try_from(self.map.get(source)?.text.len()).unwrap_or(u32::MAX);
        Some(self.map.landmark(Span { source, start: end, end }))
    }

    fn too_deep(&mut self, index: usize) {
        let Some(flat) = self.flat.get(index) else { return };
        let names =
            self.inside.iter().take(5).map(|c| format!("‘{}’", shorten(c.printable_name())));
        let path: Vec<String> = names.collect();
        let message = "maximum compound element expansion depth exceeded";
        self.findings.push(
            Diagnostic::error(flat.node.span(), message)
                .label(format!("nested more than {MAX_EXPANSION_DEPTH} deep"))
                .remark(None, format!("expanding {} → …", path.join(" → "))),
        );
        self.stopped = true;
    }

    fn stop<T>(&mut self, place: Option<Span>, limit: usize, what: &str) -> Option<T> {
        if !self.stopped {
            let message = format!("configuration expands to more than {limit} {what}");
            self.findings.push(Diagnostic::error(place, message).help(
                "each compound that uses another one twice doubles the number of \
                           elements",
            ));
        }
        self.stopped = true;
        None
    }

    /// The configuration string as it is written, without line marks in it.
    fn written_config(&self, node: &Node<'a>) -> Cow<'p, str> {
        let Some(range) = node.config else { return Cow::from("") };
        let text = self.map.text(range.span(node.source));
        let source = self.map.get(node.source);
        let marks = source.map_or(&[][..], |source| source.marks_in(range.start, range.end));
        if marks.is_empty() {
            return Cow::from(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for mark in marks {
            let offset = |at: u32| at.saturating_sub(range.start) as usize;
            out.push_str(text.get(from..offset(mark.start)).unwrap_or(""));
            from = offset(mark.end);
        }
        out.push_str(text.get(from..).unwrap_or(""));
        Cow::from(out)
    }

    /// Converts the result into the graph.
    fn finish(mut self, graph: &mut Graph) {
        let stopped = self.stopped;
        self.names = HashMap::new();
        let connections = tunnels::join(
            &self.flat,
            mem::take(&mut self.edges),
            self.limits.connections,
            (!stopped).then_some(&mut *self.findings),
        );
        let mut places = vec![usize::MAX; self.flat.len()];
        let is_element = |flat: &&Flat<'_, '_>| !matches!(flat.class, Class::Tunnel(_));
        graph.elements.reserve_exact(self.flat.iter().filter(is_element).count());
        for (index, flat) in mem::take(&mut self.flat).into_iter().enumerate() {
            let class = match flat.class {
                Class::Primitive(class) => class,
                Class::Compound(i) => self.program.compounds.get(i).map_or("", |c| c.name),
                Class::Tunnel(_) => continue,
            };
            if let Some(place) = places.get_mut(index) {
                *place = graph.elements.len();
            }
            let node = flat.node;
            let verbatim = flat.config.is_none();
            let class_span = node.class_place.span(node.source);
            let span = match node.config {
                Some(range) => range.span(node.source),
                None => node.place.to(node.class_place).span(node.source),
            };
            let text = self.config_of(&flat);
            graph.elements.push(ElementDecl {
                name: flat.name.to_string(),
                class: class.to_owned(),
                config: ConfigText { text, span, verbatim: verbatim && node.config.is_some() },
                span: node.span(),
                class_span,
                landmark: self.map.landmark(node.span()),
            });
        }
        let place = |port: Port| places.get(port.node as usize).copied().unwrap_or(usize::MAX);
        graph.connections.reserve_exact(connections.len());
        graph.connections.extend(connections.into_iter().map(|edge| crate::graph::Connection {
            from: (place(edge.from), edge.from.port as usize),
            to: (place(edge.to), edge.to.port as usize),
            span: edge.span,
        }));
    }

    /// An element's configuration string after expansion.
    fn config_of(&self, flat: &Flat<'_, '_>) -> String {
        match (&flat.config, flat.node.config) {
            (Some(text), _) => text.clone(),
            (None, Some(range)) => self.map.text(range.span(flat.node.source)).to_owned(),
            (None, None) => String::new(),
        }
    }

    /// Converts the result into the form for Click's tools. Checks the ports of tunnels only in a whole
    /// configuration: a compound class by itself has no outside.
    fn finish_for_tools(mut self, whole: bool) -> Assembly {
        let edges = mem::take(&mut self.edges);
        if whole && !self.stopped {
            let most = self.limits.connections;
            tunnels::join(&self.flat, edges.clone(), most, Some(&mut *self.findings));
        }
        let part = |flat: &Flat<'_, '_>| {
            let (class, leads_to, comes_from) = match flat.class {
                Class::Primitive(class) => (Some(class.to_owned()), None, None),
                Class::Compound(i) => {
                    (self.program.compounds.get(i).map(|c| c.name.to_owned()), None, None)
                }
                Class::Tunnel(Tunnel::Outer) => (None, Some(flat.inside), Some(flat.inside + 1)),
                Class::Tunnel(Tunnel::Input) => (None, None, Some(flat.inside)),
                Class::Tunnel(Tunnel::Output) => (None, Some(flat.inside), None),
            };
            let inside = |index: &usize| *index < self.flat.len();
            Part {
                name: flat.name.to_string(),
                class,
                config: self.config_of(flat),
                landmark: self.map.landmark(flat.node.span()),
                span: flat.node.span(),
                leads_to: leads_to.filter(inside),
                comes_from: comes_from.filter(inside),
            }
        };
        let connections = edges.iter().map(|edge| crate::graph::Connection {
            from: (edge.from.node as usize, edge.from.port as usize),
            to: (edge.to.node as usize, edge.to.port as usize),
            span: edge.span,
        });
        Assembly {
            parts: self.flat.iter().map(part).collect(),
            connections: connections.collect(),
            ..Assembly::default()
        }
    }
}

/// A definition in the form of messages: `Name(<arg>, KEYWORD, ...)[1 input, 1 output]`.
fn signature(compound: &Compound<'_>) -> String {
    let mut out = shorten(compound.printable_name()).into_owned();
    if !compound.keywords.is_empty() {
        let formals = compound.keywords.iter().take(20).map(|&keyword| match keyword {
            "" => "<arg>",
            REST => "...",
            keyword => keyword,
        });
        let formals: Vec<&str> = formals.collect();
        out += &format!("({})", formals.join(", "));
    }
    out + &format!("[{}]", ports(compound.inputs, compound.outputs))
}

fn ports(inputs: u32, outputs: u32) -> String {
    let (ins, outs) = (plural(inputs as usize, "input"), plural(outputs as usize, "output"));
    format!("{inputs} {ins}, {outputs} {outs}")
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

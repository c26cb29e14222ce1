//! A configuration with resolved names: compound classes with elements and connections. Resolution creates it
//! from syntax trees, and expansion converts it into the flat graph.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use crate::ast::TextRange;
use crate::source::{SourceId, Span};

/// All compound classes of a configuration; the first is the configuration itself.
#[derive(Debug, Default)]
pub(super) struct Program<'a> {
    pub(super) compounds: Vec<Compound<'a>>,
}

impl Program<'_> {
    /// The variables that the file defines, in order, with their values as written.
    pub(super) fn file_variables(&self) -> Vec<(String, String)> {
        let Some(file) = self.compounds.first() else { return Vec::new() };
        let mut slots: Vec<(&Cow<'_, str>, usize)> =
            file.variables.iter().map(|(name, &slot)| (name, slot)).collect();
        slots.sort_unstable_by_key(|&(_, slot)| slot);
        let values = slots.into_iter().zip(&file.defines);
        values.map(|((name, _), value)| (name.to_string(), value.to_string())).collect()
    }
}

/// The class of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class<'a> {
    /// A class that the engine must know.
    Primitive(&'a str),
    /// A compound class, by its index in [`Program::compounds`]. Alternatives follow through `next`.
    Compound(usize),
    /// Not an element: connections pass through it.
    Tunnel(Tunnel),
}

/// The ends of a tunnel. Packets that enter port `n` of `Outer` come out of port `n` of `Input`, and those
/// that enter port `n` of `Output` come out of port `n` of `Outer`. The three are adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tunnel {
    /// The compound element or group as seen from outside.
    Outer,
    /// Its `input` pseudo-element.
    Input,
    /// Its `output` pseudo-element.
    Output,
}

/// One definition of a compound class.
#[derive(Debug)]
pub(super) struct Compound<'a> {
    /// The name of its class; empty when it has none.
    pub(super) name: &'a str,
    /// Its opening brace or bar.
    pub(super) place: Span,
    /// The number of compound classes around it.
    pub(super) depth: usize,
    /// The keywords of its parameters, empty for positional ones.
    pub(super) keywords: Vec<&'a str>,
    /// The parameters' variables, then those that it defines: their indices in the two lists.
    pub(super) variables: HashMap<Cow<'a, str>, usize>,
    /// Values of the variables that it defines, which follow the parameters.
    pub(super) defines: Vec<Cow<'a, str>>,
    /// `input` and `output` first (except at file level), then in Click's order.
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) edges: Vec<Edge>,
    /// Ports of its `input` and `output`.
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    /// The definition to try when this one does not fit.
    pub(super) next: Option<Class<'a>>,
    /// The number of definitions to try, including this one.
    pub(super) alternatives: usize,
}

impl<'a> Compound<'a> {
    pub(super) fn new(name: &'a str, place: Span, depth: usize) -> Self {
        Self {
            name,
            place,
            depth,
            keywords: Vec::new(),
            variables: HashMap::new(),
            defines: Vec::new(),
            nodes: Vec::new(),
            edges: Vec::new(),
            inputs: 0,
            outputs: 0,
            next: None,
            alternatives: 1,
        }
    }

    /// The name in messages.
    pub(super) fn printable_name(&self) -> &'a str {
        if self.name.is_empty() { "<anonymous>" } else { self.name }
    }
}

/// An element, or an end of a tunnel, inside a compound class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pub(super) name: Name<'a>,
    pub(super) class: Class<'a>,
    pub(super) source: SourceId,
    /// The identifier that declares it.
    pub(super) place: TextRange,
    /// The identifier of its class.
    pub(super) class_place: TextRange,
    /// The text between its parentheses.
    pub(super) config: Option<TextRange>,
    /// One more than the highest port in use.
    pub(super) inputs: u32,
    pub(super) outputs: u32,
}

impl Node<'_> {
    pub(super) fn span(&self) -> Span {
        self.place.span(self.source)
    }
}

/// The name of an element in its scope: `base`, or `base@number` for an anonymous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name<'a> {
    pub(super) base: &'a str,
    /// 0 for names in the source.
    pub(super) number: usize,
}

impl<'a> Name<'a> {
    pub(super) fn given(base: &'a str) -> Self {
        Self { base, number: 0 }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => f.write_str(self.base),
            number => write!(f, "{}@{number}", self.base),
        }
    }
}

/// A port of a node, by the node's index in its compound class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Port {
    pub(super) node: u32,
    pub(super) port: u32,
}

/// A connection inside a compound class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: Port,
    pub(super) to: Port,
    pub(super) span: Span,
}

/// Removes all but the first of equal connections; repeating one is not an error.
pub(super) fn dedup_edges(edges: &mut Vec<Edge>) {
    let key = |edge: &Edge| (edge.from, edge.to);
    if edges.is_sorted_by(|a, b| key(a) < key(b)) {
        return;
    }
    let mut order: Vec<usize> = (0..edges.len()).collect();
    let by_index = |i: usize| edges.get(i).map(key);
    order.sort_unstable_by_key(|&i| (by_index(i), i));
    let mut keep = vec![true; edges.len()];
    for pair in order.windows(2) {
        if let [a, b] = *pair
            && by_index(a) == by_index(b)
            && let Some(keep) = keep.get_mut(b)
        {
            *keep = false;
        }
    }
    let mut keep = keep.into_iter();
    edges.retain(|_| keep.next().unwrap_or(true));
}

/// Limits on the result of expansion, so that a small file cannot request a large amount of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Elements, including tunnels.
    pub(super) elements: usize,
    /// Connections.
    pub(super) connections: usize,
    /// Bytes of names, configuration strings and variables.
    pub(super) bytes: usize,
}

impl Limits {
    /// Generous for real configurations, and linear in their length.
    pub(super) fn for_input(len: usize) -> Self {
        Self {
            elements: 100_000 + len / 8,
            connections: 250_000 + len / 4,
            bytes: (16 << 20) + len.saturating_mul(8),
        }
    }
}

//! Drawings of a graph: DOT, Mermaid, SVG.

mod dot;
mod folded;
mod layout;
mod mermaid;
mod placed;
mod svg;

use millrace_core::Router;
use millrace_core::element::PortKind;
use millrace_lang::Graph;

pub(crate) use dot::dot;
pub(crate) use folded::Folded;
pub(crate) use mermaid::mermaid;
pub(crate) use placed::Placed;
pub(crate) use svg::svg;

/// The elements and connections to draw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawing {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<Edge>,
}

/// An element.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its full name.
    pub(crate) name: String,
    pub(crate) class: String,
    /// Its configuration on one line, shortened.
    pub(crate) config: String,
    /// The kinds of its ports; agnostic if they are not known.
    pub(crate) inputs: Vec<PortKind>,
    pub(crate) outputs: Vec<PortKind>,
}

/// A connection, each end a node and a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: (usize, usize),
    pub(crate) to: (usize, usize),
}

impl Drawing {
    /// The drawing of a flat graph. The kinds of its ports come from the router, if it could be made.
    pub(crate) fn new(graph: &Graph, router: Option<&Router>) -> Self {
        let edges: Vec<Edge> =
            graph.connections.iter().map(|c| Edge { from: c.from, to: c.to }).collect();
        let known: Vec<_> = router.iter().flat_map(|router| router.elements()).collect();
        let used = |ports: &mut dyn Iterator<Item = (usize, usize)>, id: usize| {
            let highest = ports.filter(|port| port.0 == id).map(|port| port.1 + 1).max();
            vec![PortKind::Agnostic; highest.unwrap_or(0)]
        };
        let nodes = graph
            .elements
            .iter()
            .enumerate()
            .map(|(id, element)| {
                let (inputs, outputs) = match known.get(id) {
                    Some(info) => (info.inputs.to_vec(), info.outputs.to_vec()),
                    None => (
                        used(&mut edges.iter().map(|edge| edge.to), id),
                        used(&mut edges.iter().map(|edge| edge.from), id),
                    ),
                };
                Node {
                    name: element.name.clone(),
                    class: element.class.clone(),
                    config: one_line(&element.config.text),
                    inputs,
                    outputs,
                }
            })
            .collect();
        Self { nodes, edges }
    }

    /// The drawing of a router.
    pub(crate) fn of(router: &Router) -> Self {
        let nodes = router.elements().map(|info| Node {
            name: info.name.to_owned(),
            class: info.class.name.to_owned(),
            config: one_line(info.config),
            inputs: info.inputs.to_vec(),
            outputs: info.outputs.to_vec(),
        });
        let edges = router.connections().iter().map(|&(from, to)| Edge { from, to });
        Self { nodes: nodes.collect(), edges: edges.collect() }
    }
}

impl Node {
    /// The compound that contains the element; empty at file level.
    pub(crate) fn compound(&self) -> &str {
        self.name.rsplit_once('/').map_or("", |(compound, _)| compound)
    }

    /// The name within the compound; `None` for an element without a name.
    pub(crate) fn given_name(&self) -> Option<&str> {
        let name = self.name.rsplit_once('/').map_or(self.name.as_str(), |(_, name)| name);
        let anonymous = name.split_once('@').is_some_and(|(class, _)| class == self.class);
        (!anonymous).then_some(name)
    }

    /// `Class(configuration)`.
    pub(crate) fn declaration(&self) -> String {
        match self.config.as_str() {
            "" => self.class.clone(),
            config => format!("{}({config})", self.class),
        }
    }
}

/// Text on one line, cut to a reasonable width for a box.
fn one_line(text: &str) -> String {
    const MOST: usize = 28;
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MOST) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
    }
}

/// Escapes text for HTML, XML and similar languages.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A drawing of nodes `0..n` joined by edges.
    pub(crate) fn graph(n: usize, edges: &[(usize, usize)]) -> Drawing {
        let edges: Vec<Edge> =
            edges.iter().map(|&(from, to)| Edge { from: (from, 0), to: (to, 0) }).collect();
        let nodes = (0..n).map(|id| Node {
            name: format!("n{id}"),
            class: "Null".to_owned(),
            config: String::new(),
            inputs: vec![PortKind::Push; usize::from(edges.iter().any(|e| e.to.0 == id))],
            outputs: vec![PortKind::Push; usize::from(edges.iter().any(|e| e.from.0 == id))],
        });
        Drawing { nodes: nodes.collect(), edges }
    }

    #[test]
    fn names_are_split_into_compound_and_name() {
        let node = |name: &str| Node { name: name.to_owned(), ..graph(1, &[]).nodes.remove(0) };
        assert_eq!(node("a/b/c").compound(), "a/b");
        assert_eq!(node("a/b/c").given_name(), Some("c"));
        assert_eq!(node("a/Null@3").given_name(), None);
        assert_eq!(node("c").compound(), "");
    }

    #[test]
    fn configurations_are_shortened_to_one_line() {
        assert_eq!(one_line("a,\n   b"), "a, b");
        assert_eq!(one_line(&"ä".repeat(40)).chars().count(), 29);
    }
}

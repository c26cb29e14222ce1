//! Drawings in which some compounds are one box each.

use std::collections::HashMap;

use millrace_core::element::PortKind;

use super::{Drawing, Edge, Node};

/// A drawing without the insides of some compounds, and what its boxes and lines stand for.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(super) drawing: Drawing,
    /// What each node is.
    pub(super) kinds: Vec<Kind>,
    /// The connections of each edge, by their indices in the full drawing.
    pub(super) connections: Vec<Vec<usize>>,
}

/// What a node of a folded drawing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The element with this index in the full drawing.
    Element(usize),
    /// A compound of so many elements.
    Compound(usize),
}

enum Side {
    Inputs,
    Outputs,
}

impl Folded {
    /// Folds the compounds with these names. Elements without ports, which no packet reaches, are left out.
    pub(crate) fn new(full: &Drawing, is_folded: impl Fn(&str) -> bool) -> Self {
        let mut folded =
            Self { drawing: Drawing::default(), kinds: Vec::new(), connections: Vec::new() };
        let mut compounds: HashMap<&str, usize> = HashMap::new();
        // The node that stands for each element.
        let mut places: Vec<Option<usize>> = Vec::with_capacity(full.nodes.len());
        for (id, node) in full.nodes.iter().enumerate() {
            if node.inputs.is_empty() && node.outputs.is_empty() {
                places.push(None);
                continue;
            }
            let place = match around(&node.name).find(|compound| is_folded(compound)) {
                None => folded.add(node.clone(), Kind::Element(id)),
                Some(compound) => *compounds
                    .entry(compound)
                    .or_insert_with(|| folded.add(box_of(compound), Kind::Compound(0))),
            };
            if let Some(Kind::Compound(size)) = folded.kinds.get_mut(place) {
                *size += 1;
            }
            places.push(Some(place));
        }
        folded.connect(full, &places);
        for (node, kind) in folded.drawing.nodes.iter_mut().zip(&folded.kinds) {
            match kind {
                Kind::Compound(1) => "1 element".clone_into(&mut node.class),
                Kind::Compound(size) => node.class = format!("{size} elements"),
                Kind::Element(_) => {}
            }
        }
        folded
    }

    fn add(&mut self, node: Node, kind: Kind) -> usize {
        self.drawing.nodes.push(node);
        self.kinds.push(kind);
        self.kinds.len() - 1
    }

    /// Draws the connections between different nodes; all of them between two compounds are one line.
    fn connect(&mut self, full: &Drawing, places: &[Option<usize>]) {
        let mut known: HashMap<[(usize, usize); 2], usize> = HashMap::new();
        for (index, edge) in full.edges.iter().enumerate() {
            let place = |id: usize| places.get(id).copied().flatten();
            let (Some(from), Some(to)) = (place(edge.from.0), place(edge.to.0)) else { continue };
            let is_element = |place: usize| matches!(self.kinds.get(place), Some(Kind::Element(_)));
            if from == to && !is_element(from) {
                continue;
            }
            let port = |place, port| if is_element(place) { port } else { 0 };
            let ends = [(from, port(from, edge.from.1)), (to, port(to, edge.to.1))];
            // A compound has a port on each side where there are connections.
            for (place, side) in [(from, Side::Outputs), (to, Side::Inputs)] {
                if let (false, Some(node)) = (is_element(place), self.drawing.nodes.get_mut(place))
                {
                    let ports = match side {
                        Side::Inputs => &mut node.inputs,
                        Side::Outputs => &mut node.outputs,
                    };
                    ports.resize(1, PortKind::Agnostic);
                }
            }
            let at = *known.entry(ends).or_insert_with(|| {
                self.drawing.edges.push(Edge { from: ends[0], to: ends[1] });
                self.connections.push(Vec::new());
                self.connections.len() - 1
            });
            if let Some(connections) = self.connections.get_mut(at) {
                connections.push(index);
            }
        }
    }
}

/// The compounds around an element, from the outside in.
fn around(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').filter_map(|(end, _)| name.get(..end))
}

fn box_of(compound: &str) -> Node {
    Node {
        name: compound.to_owned(),
        class: String::new(),
        config: String::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;
    use super::*;

    #[test]
    fn a_folded_compound_is_one_box_and_its_connections_are_one_line_a_neighbour() {
        let edges = [(0, 1), (1, 2), (2, 3), (1, 4), (2, 4), (3, 0)];
        let mut full = graph(6, &edges);
        for (id, name) in ["a", "c/x", "c/in/y", "c/in/z", "b", "script"].iter().enumerate() {
            full.nodes[id].name = (*name).to_owned();
        }
        let none = Folded::new(&full, |_| false);
        assert_eq!((none.kinds.len(), none.connections.len()), (5, 6));
        let inner = Folded::new(&full, |name| name == "c/in");
        let names = |folded: &Folded| -> Vec<String> {
            folded.drawing.nodes.iter().map(|node| node.name.clone()).collect()
        };
        assert_eq!(names(&inner), ["a", "c/x", "c/in", "b"]);
        assert_eq!(inner.kinds[2], Kind::Compound(2));
        assert_eq!(inner.connections, [vec![0], vec![1], vec![3], vec![4], vec![5]]);
        let outer = Folded::new(&full, |name| name == "c" || name == "c/in");
        assert_eq!(names(&outer), ["a", "c", "b"]);
        assert_eq!(outer.drawing.nodes[1].class, "3 elements");
        assert_eq!(outer.connections, [vec![0], vec![3, 4], vec![5]]);
    }
}

//! The graph optimiser: which elements packets pass in one go.
//!
//! Click has tools that optimise configurations by writing new ones (Kohler, Morris and Chen, "Programming
//! language optimizations for modular router configurations", ASPLOS 2002); PacketMill uses a compiler
//! (Farshin et al., ASPLOS 2021). Here each class that processes packets one by one is a step of a
//! [`program`](crate::program), so any neighbours go together. The graph does not change: names,
//! handlers, counters, other inputs and outputs.

use std::collections::BTreeMap;

use super::graph::Graph;
use crate::graph::PortKind;

/// Groups of elements that process packets one by one and lead to each other, each group in the order of its
/// numbers. Elements that neither lead to a similar one nor follow one are in no group.
pub(super) fn find(graph: &Graph<'_>) -> Vec<Vec<usize>> {
    let n = graph.names.len();
    let is_step =
        |id: usize| graph.per_packet[id] && graph.inputs[id].first() == Some(&PortKind::Push);
    let mut groups = Groups::new(n);
    for &((from, output), (to, input)) in graph.connections {
        if input == 0
            && is_step(from)
            && is_step(to)
            && graph.outputs[from][output] == PortKind::Push
        {
            groups.join(from, to);
        }
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for id in 0..n {
        members.entry(groups.of(id)).or_default().push(id);
    }
    members.into_values().filter(|members| members.len() > 1).collect()
}

/// Disjoint sets of elements. Each element leads to one of a lower number of its group; the one with the lowest leads
/// to itself.
struct Groups(Vec<usize>);

impl Groups {
    fn new(elements: usize) -> Self {
        Self((0..elements).collect())
    }

    /// The lowest number of the element's group.
    fn of(&mut self, mut id: usize) -> usize {
        while self.0[id] != id {
            self.0[id] = self.0[self.0[id]];
            id = self.0[id];
        }
        id
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.of(one), self.of(other));
        self.0[one.max(other)] = one.min(other);
    }
}

//! The graph optimiser: which elements packets pass in one go.
//!
//! Click has tools that optimise configurations by writing new ones (Kohler, Morris and Chen, "Programming
//! language optimizations for modular router configurations", ASPLOS 2002); PacketMill uses a compiler
//! (Farshin et al., ASPLOS 2021). Here each class that processes packets one by one is a step of a
//! [`program`](crate::program), so any neighbours go together. The graph does not change: names,
//! handlers, counters, other inputs and outputs.

use super::graph::Graph;
use crate::graph::PortKind;

/// Groups of elements that process packets one by one and lead to each other, each group in the order of its
/// numbers. Elements that neither lead to a similar one nor follow one are in no group.
pub(super) fn find(graph: &Graph<'_>) -> Vec<Vec<usize>> {
    let n = graph.names.len();
    let is_step =
        |id: usize| graph.per_packet[id] && graph.inputs[id].first() == Some(&PortKind::Push);
    let mut group: Vec<usize> = (0..n).collect();
    for &((from, output), (to, input)) in graph.connections {
        if input == 0
            && is_step(from)
            && is_step(to)
            && graph.outputs[from][output] == PortKind::Push
        {
            let (one, other) = (group[from], group[to]);
            group.iter_mut().filter(|of| **of == other).for_each(|of| *of = one);
        }
    }
    let members = |of: usize| (0..n).filter(|&id| group[id] == of).collect::<Vec<_>>();
    (0..n).map(members).filter(|members| members.len() > 1).collect()
}

//! What a thread reaches from where its work begins.

use super::graph::Graph;
use crate::graph::PortKind;

/// The paths that work takes through a graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    elements: Vec<Element>,
}

#[derive(Clone, Debug, Default)]
struct Element {
    /// The elements that it pushes to, each with the output, and those that it pulls from.
    next: Vec<(Option<usize>, usize)>,
    outputs: usize,
    /// Packets that arrive leave on other threads.
    ends: bool,
    /// Each thread uses only one output.
    by_thread: bool,
}

impl Ways {
    pub(super) fn new(graph: &Graph<'_>) -> Self {
        let mut elements: Vec<Element> = graph
            .classes
            .iter()
            .zip(graph.outputs)
            .map(|(class, outputs)| Element {
                next: Vec::new(),
                outputs: outputs.len(),
                ends: class.crosses_threads,
                by_thread: class.by_thread,
            })
            .collect();
        for &((from, output), (to, _)) in graph.connections {
            match graph.outputs[from][output] {
                PortKind::Pull => elements[to].next.push((None, from)),
                _ => elements[from].next.push((Some(output), to)),
            }
        }
        Self { elements }
    }

    /// The elements that the work of `thread` can reach from `start`, including `start`.
    pub(super) fn from(&self, start: usize, thread: usize) -> Vec<usize> {
        let mut todo = vec![start];
        let mut seen = vec![false; self.elements.len()];
        let mut reached = Vec::new();
        while let Some(at) = todo.pop() {
            let Some(element) = self.elements.get(at) else { continue };
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            reached.push(at);
            if element.ends && at != start {
                continue;
            }
            let own = thread.checked_rem(element.outputs);
            let open =
                |output: &Option<usize>| !element.by_thread || output.is_none() || *output == own;
            todo.extend(element.next.iter().filter(|(output, _)| open(output)).map(|way| way.1));
        }
        reached
    }
}

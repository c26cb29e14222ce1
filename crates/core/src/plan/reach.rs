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
        self.spread(&mut vec![0; self.elements.len()], start, thread)
    }

    /// Adds `thread` to every element of `reach` - one bit for each thread that reaches it - that its work can
    /// reach from `start`. Returns those that it did not reach before.
    ///
    /// An element that the thread reached before was followed then, unless it ends the work of others: only as
    /// `start` is it followed again.
    pub(super) fn spread(&self, reach: &mut [u64], start: usize, thread: usize) -> Vec<usize> {
        let mut reached = Vec::new();
        let mut todo = vec![start];
        let mut is_start = true;
        while let Some(at) = todo.pop() {
            let is_new = reach[at] >> thread & 1 == 0;
            if is_new {
                reach[at] |= 1 << thread;
                reached.push(at);
            }
            let goes_on = is_new && !self.elements[at].ends;
            if std::mem::take(&mut is_start) || goes_on {
                todo.extend(self.next(at, thread));
            }
        }
        reached
    }

    /// The elements that the work of `thread` reaches next from element `at`.
    fn next(&self, at: usize, thread: usize) -> impl Iterator<Item = usize> {
        let element = &self.elements[at];
        let own = thread.checked_rem(element.outputs);
        let open =
            move |output: &Option<usize>| !element.by_thread || output.is_none() || *output == own;
        element.next.iter().filter(move |(output, _)| open(output)).map(|way| way.1)
    }
}

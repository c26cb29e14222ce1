//! How deep pulls go. A pull calls the element upstream, which pulls in turn, so the elements between a pull and its
//! source take stack.

use millrace_lang::{Connection, Diagnostic, Graph};

use super::class::PortKind;
use super::ports::described;

/// The most elements that one pull can go through.
const MAX_PULL_DEPTH: usize = 1000;

/// Reports elements from which a pull goes through more than [`MAX_PULL_DEPTH`] elements.
pub(crate) fn check_depth(
    graph: &Graph,
    connections: &[Connection],
    outputs: &[Vec<PortKind>],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let is_pulled = |connection: &&Connection| {
        let (element, port) = connection.from;
        outputs[element].get(port) == Some(&PortKind::Pull)
    };
    let mut sources: Vec<Vec<usize>> = vec![Vec::new(); outputs.len()];
    let mut missing = vec![0usize; outputs.len()];
    for connection in connections.iter().filter(is_pulled) {
        sources[connection.to.0].push(connection.from.0);
        missing[connection.to.0] += 1;
    }
    let mut pullers: Vec<Vec<usize>> = vec![Vec::new(); outputs.len()];
    for (puller, sources) in sources.iter().enumerate() {
        sources.iter().for_each(|&source| pullers[source].push(puller));
    }
    // Each element after all that it pulls from.
    let mut todo: Vec<usize> = (0..outputs.len()).filter(|&id| missing[id] == 0).collect();
    let mut depth = vec![0; outputs.len()];
    let mut known = 0;
    let mut deepest = 0;
    while let Some(source) = todo.pop() {
        known += 1;
        deepest = deepest.max(depth[source]);
        if depth[source] == MAX_PULL_DEPTH + 1 {
            diagnostics.push(too_deep(graph, source));
        }
        for &puller in &pullers[source] {
            depth[puller] = depth[puller].max(depth[source] + 1);
            missing[puller] -= 1;
            if missing[puller] == 0 {
                todo.push(puller);
            }
        }
    }
    // Elements that pull in a ring, and those that pull from it: a pull goes through each of them at most once.
    let ring = (0..outputs.len()).find(|&id| missing[id] > 0);
    if let Some(element) = ring.filter(|_| outputs.len() - known + deepest > MAX_PULL_DEPTH) {
        diagnostics.push(too_deep(graph, element));
    }
}

fn too_deep(graph: &Graph, element: usize) -> Diagnostic {
    let message = format!(
        "‘{}’ pulls through more than {MAX_PULL_DEPTH} elements",
        described(graph, element)
    );
    Diagnostic::error(graph.elements[element].span, message)
        .help("put an Unqueue and a Queue between")
}

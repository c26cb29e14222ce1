//! Checks that the connections fit the ports. The wording of the errors is Click's.

use std::collections::HashMap;

use millrace_lang::{Connection, Diagnostic, Graph, Span};

use super::class::{Class, PortKind};

/// The numbers of an element's ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// Counts each element's ports: as many as the connections use, within the limits of its class. Reports
/// connections to ports that cannot exist, and removes them from `connections`.
pub(crate) fn count(
    graph: &Graph,
    classes: &[Option<&'static Class>],
    connections: &mut Vec<Connection>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Counts> {
    let mut counts = vec![Counts::default(); graph.elements.len()];
    for connection in connections.iter() {
        let outputs = &mut counts[connection.from.0].outputs;
        *outputs = (*outputs).max(connection.from.1.saturating_add(1));
        let inputs = &mut counts[connection.to.0].inputs;
        *inputs = (*inputs).max(connection.to.1.saturating_add(1));
    }
    for (count, class) in counts.iter_mut().zip(classes) {
        // An unknown class is reported elsewhere, once.
        let Some(class) = class else { continue };
        let (inputs, outputs) = class.port_counts();
        count.inputs = clamp(count.inputs, inputs.bounds(0));
        count.outputs = clamp(count.outputs, outputs.bounds(count.inputs));
    }
    connections.retain(|connection| {
        let (from, to) = (connection.from, connection.to);
        let mut fits = true;
        if from.1 >= counts[from.0].outputs {
            diagnostics.push(no_port(graph, classes, connection, from, "output"));
            fits = false;
        }
        if to.1 >= counts[to.0].inputs {
            diagnostics.push(no_port(graph, classes, connection, to, "input"));
            fits = false;
        }
        fits
    });
    counts
}

/// Reports push outputs and pull inputs that are connected twice, and unconnected ports.
pub(crate) fn check_use(
    graph: &Graph,
    classes: &[Option<&'static Class>],
    connections: &[Connection],
    inputs: &[Vec<PortKind>],
    outputs: &[Vec<PortKind>],
    diagnostics: &mut Vec<Diagnostic>,
) {
    // Where each port is connected first, and whether a second place has been reported.
    let mut used_outputs: HashMap<(usize, usize), (Span, bool)> = HashMap::new();
    let mut used_inputs = used_outputs.clone();
    for connection in connections {
        let ((from, from_port), (to, to_port)) = (connection.from, connection.to);
        let ends = [
            (&mut used_outputs, connection.from, outputs[from][from_port], PortKind::Push),
            (&mut used_inputs, connection.to, inputs[to][to_port], PortKind::Pull),
        ];
        for (used, port, kind, exclusive) in ends {
            let Some((first, is_reported)) = used.get_mut(&port) else {
                used.insert(port, (connection.span, false));
                continue;
            };
            if kind != exclusive || std::mem::replace(is_reported, true) {
                continue;
            }
            let (what, help) = match exclusive {
                PortKind::Push => (
                    "push output",
                    "a push output gives each packet to one input; put a Tee between to copy",
                ),
                _ => ("pull input", "a pull input takes from one output; put a scheduler between"),
            };
            let message =
                format!("illegal reuse of ‘{}’ {what} {}", described(graph, port.0), port.1);
            // Click names the element's declaration.
            diagnostics.push(
                Diagnostic::error(graph.elements[port.0].span, message)
                    .remark(*first, "it is connected here")
                    .remark(connection.span, "and here")
                    .help(help),
            );
        }
    }
    for (id, element) in graph.elements.iter().enumerate() {
        if classes[id].is_none_or(|class| class.information) {
            continue;
        }
        let unused_inputs =
            (0..inputs[id].len()).filter(|&port| !used_inputs.contains_key(&(id, port)));
        let unused_outputs =
            (0..outputs[id].len()).filter(|&port| !used_outputs.contains_key(&(id, port)));
        let unused = unused_inputs
            .map(|port| ("input", port, "Idle"))
            .chain(unused_outputs.map(|port| ("output", port, "Discard")));
        for (kind, port, end) in unused {
            let name = described(graph, id);
            diagnostics.push(
                Diagnostic::error(element.span, format!("‘{name}’ {kind} {port} unused"))
                    .help(format!("connect it, to {end} if nothing else")),
            );
        }
    }
}

/// `name :: Class`, the form of elements in messages.
pub(crate) fn described(graph: &Graph, id: usize) -> String {
    let element = &graph.elements[id];
    format!("{} :: {}", element.name, element.class)
}

fn clamp(used: usize, (least, most): (usize, Option<usize>)) -> usize {
    used.max(least).min(most.unwrap_or(usize::MAX))
}

fn no_port(
    graph: &Graph,
    classes: &[Option<&'static Class>],
    connection: &Connection,
    (id, port): (usize, usize),
    kind: &str,
) -> Diagnostic {
    let message = format!("‘{}’ has no {kind} {port}", described(graph, id));
    let diagnostic = Diagnostic::error(connection.span, message);
    match classes[id] {
        Some(class) => {
            let Class { name, ports, .. } = class;
            diagnostic.help(format!("{name} has ports {ports} (inputs/outputs)"))
        }
        None => diagnostic,
    }
}

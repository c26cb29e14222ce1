//! Decides between push and pull. Every agnostic port gets the kind that its neighbours need (Kohler et al.,
//! TOCS 2000, section 4.2). Where two kinds meet, the path that led there is reported.

use std::collections::VecDeque;

use millrace_lang::{Connection, Diagnostic, Graph};

use super::class::{Class, PortKind};
use super::ports::{Counts, described};

/// The kinds of all ports: for each element its inputs, then for each its outputs.
pub(crate) type Kinds = (Vec<Vec<PortKind>>, Vec<Vec<PortKind>>);

/// A port: element, whether it is an output, number.
type Port = (usize, bool, usize);

/// Finds the kind of every port. Agnostic ports that no neighbour decides are push.
pub(crate) fn resolve(
    graph: &Graph,
    classes: &[Option<&'static Class>],
    counts: &[Counts],
    connections: &[Connection],
    diagnostics: &mut Vec<Diagnostic>,
) -> Kinds {
    let mut spread = Spread::new(graph, classes, counts, connections);
    spread.run(diagnostics);
    spread.kinds(counts)
}

struct Spread<'a> {
    graph: &'a Graph,
    classes: &'a [Option<&'static Class>],
    /// The first port number of each element's inputs and outputs in the lists below.
    first: Vec<[usize; 2]>,
    kinds: Vec<PortKind>,
    ports: Vec<Port>,
    /// Linked ports, which must have the same kind, with the connection that links them, or `None` inside an
    /// element.
    joined: Vec<Vec<(usize, Option<usize>)>>,
    connections: &'a [Connection],
    /// For a port whose kind follows from another port: that port.
    decided_by: Vec<Option<usize>>,
}

impl<'a> Spread<'a> {
    fn new(
        graph: &'a Graph,
        classes: &'a [Option<&'static Class>],
        counts: &[Counts],
        connections: &'a [Connection],
    ) -> Self {
        let mut ports = Vec::new();
        let mut kinds = Vec::new();
        let mut first = Vec::new();
        for (id, count) in counts.iter().enumerate() {
            let class = classes[id];
            let inputs_at = ports.len();
            for port in 0..count.inputs {
                ports.push((id, false, port));
                kinds.push(class.map_or(PortKind::Agnostic, |c| c.processing().input(port)));
            }
            first.push([inputs_at, ports.len()]);
            for port in 0..count.outputs {
                ports.push((id, true, port));
                kinds.push(class.map_or(PortKind::Agnostic, |c| c.processing().output(port)));
            }
        }
        let mut spread = Self {
            graph,
            classes,
            first,
            joined: vec![Vec::new(); ports.len()],
            decided_by: vec![None; ports.len()],
            kinds,
            ports,
            connections,
        };
        spread.join(counts);
        spread
    }

    fn join(&mut self, counts: &[Counts]) {
        for (index, connection) in self.connections.iter().enumerate() {
            let from = self.first[connection.from.0][1] + connection.from.1;
            let to = self.first[connection.to.0][0] + connection.to.1;
            self.joined[from].push((to, Some(index)));
            self.joined[to].push((from, Some(index)));
        }
        for (id, count) in counts.iter().enumerate() {
            let Some(class) = self.classes[id] else { continue };
            let flow = class.flow_code();
            let [inputs, outputs] = self.first[id];
            let agnostic = |kind| kind == PortKind::Agnostic;
            let ins: Vec<usize> =
                (0..count.inputs).filter(|&port| agnostic(self.kinds[inputs + port])).collect();
            let outs: Vec<usize> =
                (0..count.outputs).filter(|&port| agnostic(self.kinds[outputs + port])).collect();
            // Ports that all reach one another need no full bipartite set of joins: through the
            // first of either side is enough.
            let full = class.flow == "x/x";
            for (n, &input) in ins.iter().enumerate() {
                for (m, &output) in outs.iter().enumerate() {
                    let needed = !full || n == 0 || m == 0;
                    if needed && flow.connects(input, output) {
                        self.joined[inputs + input].push((outputs + output, None));
                        self.joined[outputs + output].push((inputs + input, None));
                    }
                }
            }
        }
    }

    fn run(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        let decided = |&port: &usize| self.kinds[port] != PortKind::Agnostic;
        let mut todo: VecDeque<usize> = (0..self.ports.len()).filter(decided).collect();
        let mut reported = std::collections::HashSet::new();
        while let Some(port) = todo.pop_front() {
            for at in 0..self.joined[port].len() {
                let (other, connection) = self.joined[port][at];
                if self.kinds[other] == PortKind::Agnostic {
                    self.kinds[other] = self.kinds[port];
                    self.decided_by[other] = Some(port);
                    todo.push_back(other);
                } else if self.kinds[other] != self.kinds[port]
                    && reported.insert((port.min(other), port.max(other)))
                {
                    diagnostics.push(self.conflict(port, other, connection));
                }
            }
        }
    }

    fn conflict(&self, a: usize, b: usize, connection: Option<usize>) -> Diagnostic {
        let (output, input) = if self.ports[a].1 { (a, b) } else { (b, a) };
        let (from, to) = (self.ports[output], self.ports[input]);
        let (out_kind, in_kind) = (self.kinds[output], self.kinds[input]);
        let from_name = described(self.graph, from.0);
        let diagnostic = match connection {
            Some(index) => {
                let to_name = described(self.graph, to.0);
                Diagnostic::error(
                    self.connections[index].span,
                    format!(
                        "‘{from_name}’ {out_kind} output {} connected to ‘{to_name}’ {in_kind} input {}",
                        from.2, to.2
                    ),
                )
            }
            None => Diagnostic::error(
                self.graph.elements[from.0].span,
                format!(
                    "agnostic ‘{from_name}’ in mixed context: {in_kind} input {}, {out_kind} output {}",
                    to.2, from.2
                ),
            ),
        };
        let diagnostic = self.explain(self.explain(diagnostic, output), input);
        diagnostic.help(match (out_kind, in_kind) {
            (PortKind::Push, _) => "put a Queue between",
            _ => "put an Unqueue between",
        })
    }

    /// Adds why an agnostic port has its kind.
    fn explain(&self, diagnostic: Diagnostic, port: usize) -> Diagnostic {
        let mut way = vec![port];
        let mut at = port;
        while let Some(by) = self.decided_by[at] {
            way.push(by);
            at = by;
        }
        let (element, _, _) = self.ports[port];
        let (origin, is_output, number) = self.ports[at];
        if origin == element {
            return diagnostic;
        }
        let mut names: Vec<&str> = Vec::new();
        for port in way {
            let name = self.graph.elements[self.ports[port].0].name.as_str();
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        let side = if is_output { "output" } else { "input" };
        let message = format!(
            "‘{}’ is {} here because of {side} {number} of ‘{}’: {}",
            self.graph.elements[element].name,
            self.kinds[port],
            described(self.graph, origin),
            names.join(" - ")
        );
        diagnostic.remark(self.graph.elements[origin].span, message)
    }

    fn kinds(&self, counts: &[Counts]) -> Kinds {
        let kind = |at: usize| match self.kinds[at] {
            PortKind::Pull => PortKind::Pull,
            _ => PortKind::Push,
        };
        let side = |side: usize, count: fn(&Counts) -> usize| {
            self.first
                .iter()
                .zip(counts)
                .map(|(first, counts)| (0..count(counts)).map(|p| kind(first[side] + p)).collect())
                .collect()
        };
        (side(0, |counts| counts.inputs), side(1, |counts| counts.outputs))
    }
}

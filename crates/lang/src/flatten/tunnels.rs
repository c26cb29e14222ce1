//! Tunnels: connections that lead into a compound element or group continue to the elements inside.
//!
//! A connection into port `n` of the outside continues along every connection out of port `n` of `input`; one
//! into port `n` of `output` continues along every connection out of port `n` of the outside. Connections
//! that form a circle and never reach an element are dropped, as in Click.

use std::collections::{HashMap, HashSet};

use super::expand::Flat;
use super::program::{Class, Edge, Port, Tunnel, dedup_edges};
use crate::diagnostic::{Diagnostic, Findings, shorten};

/// Joins connections through tunnels. Returns those between elements, in order, without repetition.
///
/// Reports tunnel ports that lead nowhere to `findings`, if it is given.
pub(super) fn join(
    flat: &[Flat<'_, '_>],
    mut edges: Vec<Edge>,
    most: usize,
    findings: Option<&mut Findings>,
) -> Vec<Edge> {
    dedup_edges(&mut edges);
    let mut tunnels = Tunnels { flat, targets: HashMap::new(), sources: HashSet::new() };
    for edge in &edges {
        if tunnels.end(edge.from).is_some() {
            tunnels.targets.entry(edge.from).or_default().push(edge.to);
        }
        if tunnels.end(edge.to).is_some() {
            tunnels.sources.insert(edge.to);
        }
    }
    if tunnels.targets.is_empty() && tunnels.sources.is_empty() {
        return edges;
    }
    let mut silent = Findings::default();
    let findings = findings.unwrap_or(&mut silent);
    tunnels.check(&edges, findings);
    tunnels.shorten();
    tunnels.follow(edges, most, findings)
}

struct Tunnels<'f, 'p, 'a> {
    flat: &'f [Flat<'p, 'a>],
    /// Where connections out of a tunnel's port lead.
    targets: HashMap<Port, Vec<Port>>,
    /// Ports of tunnels that connections lead into.
    sources: HashSet<Port>,
}

impl Tunnels<'_, '_, '_> {
    /// Which end of a tunnel a port belongs to; `None` for elements.
    fn end(&self, port: Port) -> Option<Tunnel> {
        match self.flat.get(port.node as usize)?.class {
            Class::Tunnel(end) => Some(end),
            _ => None,
        }
    }

    /// The port where packets that enter `port` come out.
    fn exit(&self, port: Port) -> Option<Port> {
        let node = match self.end(port)? {
            Tunnel::Outer => self.flat.get(port.node as usize)?.inside as u32,
            Tunnel::Output => self.outer(port)?,
            // Nothing enters an `input`; it has been reported.
            Tunnel::Input => return None,
        };
        Some(Port { node, ..port })
    }

    /// The port where packets that come out of `port` entered.
    fn entry(&self, port: Port) -> Option<Port> {
        let node = match self.end(port)? {
            Tunnel::Outer => (self.flat.get(port.node as usize)?.inside + 1) as u32,
            Tunnel::Input => self.outer(port)?,
            Tunnel::Output => return None,
        };
        Some(Port { node, ..port })
    }

    /// The outside of the tunnel to whose inside `port` belongs.
    fn outer(&self, port: Port) -> Option<u32> {
        Some(self.flat.get(port.node as usize)?.inside as u32)
    }

    /// Reports ports of compound elements and groups that are used on one side only.
    fn check(&self, edges: &[Edge], findings: &mut Findings) {
        let mut reported = HashSet::new();
        for edge in edges {
            for (port, entering) in [(edge.from, false), (edge.to, true)] {
                let Some(end) = self.end(port) else { continue };
                let used = match entering {
                    true => self.exit(port).is_none_or(|p| self.targets.contains_key(&p)),
                    false => self.entry(port).is_none_or(|p| self.sources.contains(&p)),
                };
                if used || !reported.insert((port, entering)) {
                    continue;
                }
                let outer = if end == Tunnel::Outer { Some(port.node) } else { self.outer(port) };
                let Some(outer) = outer.and_then(|i| self.flat.get(i as usize)) else { continue };
                let (name, number) = (shorten(&outer.name), port.port);
                let message = match (end, entering) {
                    (Tunnel::Outer, true) => format!("‘{name}’ has no input {number}"),
                    (Tunnel::Outer, false) => format!("‘{name}’ has no output {number}"),
                    (Tunnel::Input, _) => format!("‘{name}’ input {number} unused"),
                    (Tunnel::Output, _) => format!("‘{name}’ output {number} unused"),
                };
                let note = match end {
                    Tunnel::Outer => "it is connected here",
                    _ => "inside, it is connected here",
                };
                findings
                    .push(Diagnostic::error(outer.node.span(), message).remark(edge.span, note));
            }
        }
    }

    /// Shortens connections into a tunnel with only one path through it, so that long rows of tunnels are
    /// followed once, not once for each connection.
    fn shorten(&mut self) {
        let mut ends: HashMap<Port, Port> = HashMap::new();
        let starts: Vec<Port> = self.sources.iter().copied().collect();
        for start in starts {
            let mut path = Vec::new();
            let mut on_path = HashSet::new();
            let mut at = start;
            let end = loop {
                if let Some(&end) = ends.get(&at) {
                    break end;
                }
                let ways = self.exit(at).and_then(|exit| self.targets.get(&exit));
                match ways.map(Vec::as_slice) {
                    Some(&[only]) if on_path.insert(at) => {
                        path.push(at);
                        at = only;
                    }
                    _ => break at,
                }
            };
            ends.extend(path.into_iter().map(|port| (port, end)));
        }
        for targets in self.targets.values_mut() {
            for target in targets {
                if let Some(&end) = ends.get(target) {
                    *target = end;
                }
            }
        }
    }

    /// Follows every connection out of an element to the elements at its ends.
    fn follow(&self, edges: Vec<Edge>, most: usize, findings: &mut Findings) -> Vec<Edge> {
        let mut joined = Vec::new();
        // Steps count, not only results: a maze of tunnels can cost much and lead nowhere.
        let mut steps = most.saturating_mul(8);
        let mut seen = HashSet::new();
        let mut stack = Vec::new();
        for edge in edges {
            if self.end(edge.from).is_some() {
                continue;
            }
            if self.end(edge.to).is_none() {
                joined.push(edge);
                continue;
            }
            seen.clear();
            stack.push(edge.to);
            while let Some(port) = stack.pop() {
                steps = steps.saturating_sub(1);
                if self.end(port).is_none() {
                    joined.push(Edge { to: port, ..edge });
                } else if seen.insert(port)
                    && let Some(targets) = self.exit(port).and_then(|p| self.targets.get(&p))
                {
                    stack.extend(targets.iter().rev());
                }
                if steps == 0 || joined.len() > most {
                    let message = format!("configuration expands to more than {most} connections");
                    findings.push(Diagnostic::error(edge.span, message));
                    return joined;
                }
            }
        }
        dedup_edges(&mut joined);
        joined
    }
}

//! Finds which ports push and which pull, and reports wrong connections in the words of Click's tools.

use std::collections::{HashMap, HashSet};

use millrace_core::element::{PortCount, PortKind};

use super::router::{Connection, Port, Router};
use super::traits::Traits;

/// The kind of a port, and whether it follows from the neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) kind: PortKind,
    pub(super) by_neighbours: bool,
}

/// The kinds of all ports.
pub(super) struct Processing {
    pub(super) inputs: Vec<Vec<Kind>>,
    pub(super) outputs: Vec<Vec<Kind>>,
}

/// The errors of a configuration.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Messages, each with its place.
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// A connection, or the connection of two agnostic ports inside an element.
struct Way {
    from: Port,
    to: Port,
    inside: bool,
}

impl Processing {
    /// Determines the kinds of all ports, and reports errors.
    pub(super) fn new(router: &Router, traits: &Traits) -> (Self, Found) {
        let mut found = Found::default();
        let mut processing = Self::initial(router, traits, &mut found);
        let connections: Vec<Connection> = router.connections().collect();
        let bad = processing.spread(router, traits, &connections, &mut found);
        for kind in processing.inputs.iter_mut().chain(&mut processing.outputs).flatten() {
            if kind.kind == PortKind::Agnostic {
                kind.kind = PortKind::Push;
            }
        }
        processing.check(router, traits, &connections, &bad, &mut found);
        (processing, found)
    }

    fn initial(router: &Router, traits: &Traits, found: &mut Found) -> Self {
        let mut unknown = HashSet::new();
        let mut sides = Self { inputs: Vec::new(), outputs: Vec::new() };
        for element in &router.elements {
            let class = traits.class(element.class());
            let known = class.is_some() || traits.is_compound(element.class());
            if !known && !element.dead && unknown.insert(element.class()) {
                found.warnings.push(format!(
                    "{}: warning: unknown element class ‘{}’",
                    element.landmark,
                    element.class()
                ));
            }
            let kind = |port: usize, output: bool| {
                let code = class.map(|class| class.processing());
                let kind = match (code, output) {
                    (None, _) => PortKind::Agnostic,
                    (Some(code), true) => code.output(port),
                    (Some(code), false) => code.input(port),
                };
                Kind { kind, by_neighbours: kind == PortKind::Agnostic }
            };
            sides.inputs.push((0..element.inputs).map(|port| kind(port, false)).collect());
            sides.outputs.push((0..element.outputs).map(|port| kind(port, true)).collect());
        }
        sides
    }

    fn kind(side: &[Vec<Kind>], port: Port) -> PortKind {
        let kind = side.get(port.0).and_then(|ports| ports.get(port.1));
        kind.map_or(PortKind::Agnostic, |kind| kind.kind)
    }

    fn set(side: &mut [Vec<Kind>], port: Port, to: PortKind) {
        if let Some(kind) = side.get_mut(port.0).and_then(|ports| ports.get_mut(port.1)) {
            kind.kind = to;
        }
    }

    /// Gives agnostic ports the kind of their neighbours. Returns the connections between ports of different kinds.
    fn spread(
        &mut self,
        router: &Router,
        traits: &Traits,
        connections: &[Connection],
        found: &mut Found,
    ) -> HashSet<usize> {
        let made = connections.iter().map(|c| Way { from: c.from, to: c.to, inside: false });
        let mut ways: Vec<Way> = made.collect();
        for (index, element) in router.iter() {
            for input in (0..element.inputs).map(|port| (index, port)) {
                let open = |output: &Port| Self::kind(&self.outputs, *output) == PortKind::Agnostic;
                if Self::kind(&self.inputs, input) == PortKind::Agnostic {
                    let outputs = (0..element.outputs).map(|port| (index, port));
                    let through =
                        outputs.filter(|o| traits.connects(element.class(), input.1, o.1));
                    let through = through.filter(open);
                    ways.extend(through.map(|from| Way { from, to: input, inside: true }));
                }
            }
        }
        let name = |port: Port| router.elements.get(port.0).map_or("", |element| &*element.name);
        let place =
            |port: Port| router.elements.get(port.0).map_or("", |element| &*element.landmark);
        let mut bad = HashSet::new();
        loop {
            let mut changed = false;
            for (index, Way { from, to, inside }) in ways.iter().enumerate() {
                let kinds = (Self::kind(&self.outputs, *from), Self::kind(&self.inputs, *to));
                match kinds {
                    _ if bad.contains(&index) => {}
                    (PortKind::Agnostic, PortKind::Agnostic) => {}
                    (one, PortKind::Agnostic) => {
                        Self::set(&mut self.inputs, *to, one);
                        changed = true;
                    }
                    (PortKind::Agnostic, other) => {
                        Self::set(&mut self.outputs, *from, other);
                        changed = true;
                    }
                    (one, other) if one != other => {
                        bad.insert(index);
                        let (landmark, from_name) = (place(*from), name(*from));
                        found.errors.push(match inside {
                            true => format!(
                                "{landmark}: agnostic ‘{from_name}’ in mixed context: {other} \
                                 input {}, {one} output {}",
                                to.1, from.1
                            ),
                            false => format!(
                                "{landmark}: ‘{from_name}’ {one} output {} connected to ‘{}’ \
                                 {other} input {}",
                                from.1,
                                name(*to),
                                to.1
                            ),
                        });
                    }
                    _ => {}
                }
            }
            if !changed {
                bad.retain(|&index| index < connections.len());
                return bad;
            }
        }
    }

    /// Reports ports that are connected twice or not at all, and ports that the class does not have.
    fn check(
        &self,
        router: &Router,
        traits: &Traits,
        connections: &[Connection],
        bad: &HashSet<usize>,
        found: &mut Found,
    ) {
        let name = |port: Port| router.elements.get(port.0).map_or("", |element| &*element.name);
        let place =
            |port: Port| router.elements.get(port.0).map_or("", |element| &*element.landmark);
        let mut used: [HashMap<Port, Port>; 2] = [HashMap::new(), HashMap::new()];
        for (index, connection) in connections.iter().enumerate() {
            let sides = [
                (connection.from, PortKind::Push, &self.outputs, "output"),
                (connection.to, PortKind::Pull, &self.inputs, "input"),
            ];
            for ((port, single, kinds, side), used) in sides.into_iter().zip(&mut used) {
                let first = used.insert(port, connection.from);
                if let Some(first) = first
                    && Self::kind(kinds, port) == single
                    && !bad.contains(&index)
                {
                    let (landmark, element, number) = (place(connection.from), name(port), port.1);
                    found.errors.push(format!(
                        "{landmark}: illegal reuse of ‘{element}’ {single} {side} {number}\n{}: \
                         ‘{element}’ {side} {number} previously used here",
                        place(first)
                    ));
                }
            }
        }
        let [outputs, inputs] = &used;
        for (index, element) in router.iter() {
            let landmark = &element.landmark;
            if let Some(class) = traits.class(element.class()) {
                let (ins, outs) = class.port_counts();
                let ports = [("input", ins, element.inputs), ("output", outs, element.outputs)];
                let mut inputs_are = element.inputs;
                for (side, count, have) in ports {
                    let (low, high) = count.bounds(inputs_are);
                    if side == "input" {
                        inputs_are = have.max(low).min(high.unwrap_or(usize::MAX));
                    }
                    let given = match count {
                        PortCount::SameAsInputs(_) if inputs_are == 1 => " with 1 input".to_owned(),
                        PortCount::SameAsInputs(_) => format!(" with {inputs_are} inputs"),
                        PortCount::Range(..) => String::new(),
                    };
                    let exact = high == Some(low);
                    let (few, many, number, verb) = match (have < low, high.filter(|&h| have > h)) {
                        (true, _) => ("few", "at least ", low, "required"),
                        (false, Some(high)) => ("many", "at most ", high, "allowed"),
                        (false, None) => continue,
                    };
                    let many = if exact { "" } else { many };
                    found.errors.push(format!(
                        "{landmark}: too {few} {side}s for ‘{}’{given}, {many}{number} {verb}",
                        element.name
                    ));
                }
            }
            let unused = (0..element.inputs)
                .map(|port| (port, "input", &self.inputs))
                .filter(|(port, ..)| !inputs.contains_key(&(index, *port)));
            let unused = unused.chain(
                (0..element.outputs)
                    .map(|port| (port, "output", &self.outputs))
                    .filter(|(port, ..)| !outputs.contains_key(&(index, *port))),
            );
            for (port, side, kinds) in unused {
                let kind = Self::kind(kinds, (index, port));
                found.errors.push(format!(
                    "{landmark}: ‘{}’ {kind} {side} {port} not connected",
                    element.name
                ));
            }
        }
    }
}

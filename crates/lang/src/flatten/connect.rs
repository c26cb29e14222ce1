//! How many connections an arrow makes, and between which ports.
//!
//! `->` connects one port to one, to many, or many to one. `=>` connects many to many, pairwise, and treats
//! an element without ports as having as many as the other side.

use super::program::Port;
use crate::ast::{Link, PortRange, Ports};

/// An element on one side of an arrow.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'t> {
    pub(super) node: u32,
    pub(super) ports: EndPorts<'t>,
}

/// The ports of an element at an arrow.
#[derive(Clone, Copy, Debug)]
pub(super) enum EndPorts<'t> {
    /// No ports are given.
    Absent,
    /// The ports in brackets.
    Listed(&'t Ports),
    /// The first ones, up to this number: all that a group has.
    First(u32),
}

impl End<'_> {
    /// True when ports are given, or come from a group.
    pub(super) fn has_ports(&self) -> bool {
        !matches!(self.ports, EndPorts::Absent | EndPorts::First(0))
    }

    fn count(&self) -> u64 {
        match self.ports {
            EndPorts::Absent => 1,
            EndPorts::First(n) => u64::from(n).max(1),
            EndPorts::Listed(ports) => {
                let len = |r: &PortRange| u64::from(r.last.saturating_sub(r.first)) + 1;
                ports.ranges.iter().map(len).sum::<u64>().max(1)
            }
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.ports, EndPorts::Listed(ports) if ports.open)
    }
}

/// One side of an arrow.
struct Side<'e, 't> {
    ends: &'e [End<'t>],
    /// Ports that are given or implied.
    count: u64,
    /// True when further ports may be added as needed.
    open: bool,
    /// The number of those.
    extra: u64,
}

impl<'e, 't> Side<'e, 't> {
    fn new(ends: &'e [End<'t>]) -> Self {
        let open = ends.iter().any(End::is_open);
        Self { ends, count: ends.iter().map(End::count).sum(), open, extra: 0 }
    }

    /// A single element without ports.
    fn is_bare(&self) -> bool {
        self.count == 1 && self.ends.first().is_some_and(|end| !end.has_ports())
    }

    fn is_many(&self) -> bool {
        self.count > 1 || self.open
    }

    /// The ports in order. The first open list gets all the extra ones.
    fn ports(&self) -> impl Iterator<Item = Port> {
        let mut extra = self.extra;
        let bare = self.is_bare();
        self.ends.iter().flat_map(move |end| {
            let mut ranges = match end.ports {
                EndPorts::Listed(ports) if !ports.ranges.is_empty() => ports.ranges.clone(),
                EndPorts::First(n) => vec![PortRange { first: 0, last: n.max(1) - 1 }],
                _ => vec![PortRange { first: 0, last: 0 }],
            };
            if end.is_open() || bare {
                let more = u32::try_from(std::mem::take(&mut extra)).unwrap_or(u32::MAX);
                if let Some(range) = ranges.last_mut() {
                    range.last = range.last.saturating_add(more);
                }
            }
            let node = end.node;
            let numbers = ranges.into_iter().flat_map(|range| range.first..=range.last);
            numbers.map(move |port| Port { node, port })
        })
    }
}

/// Connects two stages of a chain. Calls `connect` for each connection, which returns whether to continue;
/// returns the error, if any.
pub(super) fn connect(
    outputs: &[End<'_>],
    inputs: &[End<'_>],
    arrow: Link,
    mut connect: impl FnMut(Port, Port) -> bool,
) -> Vec<String> {
    let (mut from, mut to) = (Side::new(outputs), Side::new(inputs));
    let mut errors = Vec::new();
    let open = |side: &Side<'_, '_>| side.ends.iter().filter(|end| end.is_open()).count();
    if open(&from) + open(&to) > 1 {
        errors.push("at most one expandable port allowed per connection".to_owned());
        if to.count < from.count {
            from.open = false;
        } else {
            to.open = false;
        }
    }
    if arrow == Link::FatArrow {
        from.open |= from.is_bare() && to.count > 1;
        to.open |= to.is_bare() && from.count > 1;
    }
    from.extra = if from.open { to.count.saturating_sub(from.count) } else { 0 };
    to.extra = if to.open { from.count.saturating_sub(to.count) } else { 0 };
    match (from.is_many(), to.is_many()) {
        (true, true) => {
            if arrow != Link::FatArrow {
                errors.push("syntax error: many-to-many connections require ‘=>’".to_owned());
            }
            errors.extend(mismatch(&from, &to));
            let mut pairs = from.ports().zip(to.ports());
            while pairs.next().is_some_and(|(from, to)| connect(from, to)) {}
        }
        (many, _) => {
            let (Some(source), Some(sink)) = (from.ports().next(), to.ports().next()) else {
                return errors;
            };
            let mut pairs: Box<dyn Iterator<Item = (Port, Port)>> = if many {
                Box::new(from.ports().map(|port| (port, sink)))
            } else {
                Box::new(to.ports().map(|port| (source, port)))
            };
            while pairs.next().is_some_and(|(from, to)| connect(from, to)) {}
        }
    }
    errors
}

fn mismatch(from: &Side<'_, '_>, to: &Side<'_, '_>) -> Option<String> {
    let (outputs, inputs) = (from.count, to.count);
    let (more_outputs, more_inputs) = match (from.open, to.open) {
        (false, false) if outputs != inputs => ("", ""),
        (_, false) if inputs < outputs => (" or more", ""),
        (false, _) if outputs < inputs => ("", " or more"),
        _ => return None,
    };
    Some(format!(
        "connection mismatch: {outputs}{more_outputs} outputs connected to {inputs}{more_inputs} \
         inputs"
    ))
}

//! Counts the published properties of rule sets in a set.

use std::collections::HashSet;
use std::fmt;

use super::{ALL_PORTS, PortRange, Prefix, Rule};

/// The statistics of a rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Rules.
    pub rules: usize,
    /// Different [`Tuple`]s.
    pub tuples: usize,
    /// Different prefixes of source and destination, including those of length 0.
    pub prefixes: [usize; 2],
    /// Rules with a real range of ports at an end: neither all ports nor one.
    pub ranged: usize,
    /// Rules with a condition on an Ethernet field.
    pub ethernet: usize,
}

/// The kind of a rule's conditions on the five IP fields: the lengths of its prefixes, whether its ports are any, one
/// or a range, and whether it names a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// The lengths of the prefixes, source first.
    pub lengths: [u8; 2],
    /// The kinds of port conditions, source first.
    pub ports: [Ports; 2],
    /// True if a protocol is named.
    pub protocol: bool,
}

/// A rule's condition on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ports {
    /// None.
    Any,
    /// A single port.
    One,
    /// A range, but not all ports.
    Range,
}

impl Statistics {
    /// Counts the statistics of rules.
    #[must_use]
    pub fn of(rules: &[Rule]) -> Self {
        let nets = |end: usize| rules.iter().filter_map(move |rule| rule.nets.get(end));
        let prefixes = |end| nets(end).collect::<HashSet<&Prefix>>().len();
        let is_ranged = |rule: &&Rule| Tuple::of(rule).is_ranged();
        let ethernet =
            |rule: &&Rule| rule.ether_type.is_some() || rule.ethernet.iter().any(Option::is_some);
        Self {
            rules: rules.len(),
            tuples: rules.iter().map(Tuple::of).collect::<HashSet<_>>().len(),
            prefixes: [prefixes(0), prefixes(1)],
            ranged: rules.iter().filter(is_ranged).count(),
            ethernet: rules.iter().filter(ethernet).count(),
        }
    }
}

impl Tuple {
    /// The tuple of a rule.
    #[must_use]
    pub fn of(rule: &Rule) -> Self {
        Self {
            lengths: rule.nets.map(|net| net.length),
            ports: rule.ports.map(Ports::of),
            protocol: rule.protocol.is_some(),
        }
    }

    /// True if an end has a real range of ports.
    #[must_use]
    pub fn is_ranged(&self) -> bool {
        self.ports.contains(&Ports::Range)
    }
}

impl Ports {
    fn of(range: PortRange) -> Self {
        match range {
            ALL_PORTS => Self::Any,
            (first, last) if first == last => Self::One,
            _ => Self::Range,
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rules, tuples, prefixes: [source, destination], ranged, ethernet } = self;
        write!(
            out,
            "{rules} rules, {tuples} tuples, {source} source and {destination} destination prefixes, \
             {ranged} with ranges of ports, {ethernet} with fields of Ethernet"
        )
    }
}

//! What the planner looks at.

use crate::graph::{Class, Link, PortKind};

/// A graph whose ports have their kinds.
pub(crate) struct Graph<'a> {
    pub(crate) names: &'a [String],
    pub(crate) classes: &'a [&'static Class],
    /// Whether each element treats packets one by one.
    pub(crate) per_packet: &'a [bool],
    pub(crate) inputs: &'a [Vec<PortKind>],
    pub(crate) outputs: &'a [Vec<PortKind>],
    pub(crate) connections: &'a [Link],
}

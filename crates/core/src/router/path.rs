//! The queues that a task's packets come from or go to.

use std::collections::{HashSet, VecDeque};

use super::Router;
use crate::graph::PortKind;
use crate::schedule::Notifier;

/// The nearest elements with a notifier on all paths upstream of a pull input, or downstream of a push
/// output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    /// Elements, their ports, and whether these are outputs (upstream) or inputs (downstream).
    ends: Vec<(usize, usize)>,
    /// Elements upstream of ends that pass wake-ups on: they wake, but do not show whether there are packets.
    beyond: Vec<(usize, usize)>,
    upstream: bool,
    /// Every path ends at a notifier.
    pub(crate) all_tell: bool,
}

impl Path {
    /// The paths from which pull input `port` of `element` gets packets.
    pub(crate) fn upstream(router: &Router, element: usize, port: usize) -> Self {
        Self::find(router, (element, port), true)
    }

    /// The paths that packets take from push output `port` of `element`.
    pub(crate) fn downstream(router: &Router, element: usize, port: usize) -> Self {
        Self::find(router, (element, port), false)
    }

    /// Whether a path ends at a notifier.
    pub(crate) fn has_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    /// The notifiers at the ends of the paths.
    pub(crate) fn notifiers<'a>(
        &'a self,
        router: &'a Router,
    ) -> impl Iterator<Item = &'a Notifier> {
        self.ends.iter().filter_map(|&end| router.notifier(end, self.upstream))
    }

    /// All notifiers that wake a task waiting at the start of the paths.
    pub(crate) fn wakers<'a>(&'a self, router: &'a Router) -> impl Iterator<Item = &'a Notifier> {
        let beyond = self.beyond.iter().filter_map(|&end| router.notifier(end, self.upstream));
        self.notifiers(router).chain(beyond)
    }

    fn find(router: &Router, start: (usize, usize), upstream: bool) -> Self {
        let mut path = Self { ends: Vec::new(), beyond: Vec::new(), upstream, all_tell: true };
        // Ports, and whether an end lies before them.
        let mut todo = VecDeque::from([(start, false)]);
        let mut seen = HashSet::from([(start, false)]);
        let mut ends_seen = HashSet::new();
        while let Some((from, beyond)) = todo.pop_front() {
            for end in router.across(from, upstream) {
                let tells = router.notifier(end, upstream).is_some();
                if tells {
                    let ends = if beyond { &mut path.beyond } else { &mut path.ends };
                    if ends_seen.insert((end, beyond)) {
                        ends.push(end);
                    }
                    if !(upstream && router.members[end.0].class.passes_wakes) {
                        continue;
                    }
                }
                let mut ways = router.through(end, upstream).peekable();
                path.all_tell &= tells || beyond || ways.peek().is_some();
                for way in ways.map(|way| (way, beyond || tells)) {
                    if seen.insert(way) {
                        todo.push_back(way);
                    }
                }
            }
        }
        path
    }
}

/// The nearest elements for which `is_end` is true, on all ways that packets take from an output, or to an input, pushed
/// or pulled. In the order in which they are found.
pub(crate) fn nearest(
    router: &Router,
    start: (usize, usize),
    upstream: bool,
    is_end: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut todo = VecDeque::from([start]);
    let mut seen = HashSet::from([start]);
    let mut found = Vec::new();
    let mut found_before = HashSet::new();
    while let Some(from) = todo.pop_front() {
        for end in router.across(from, upstream) {
            if is_end(end.0) {
                if found_before.insert(end.0) {
                    found.push(end.0);
                }
                continue;
            }
            for way in router.ways(end, upstream) {
                if seen.insert(way) {
                    todo.push_back(way);
                }
            }
        }
    }
    found
}

impl Router {
    /// The ports at the other end of a port's connections: outputs of an input, or the reverse.
    pub(super) fn across(
        &self,
        port: (usize, usize),
        upstream: bool,
    ) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.links.across(port, upstream)
    }

    /// The pull inputs that lead to an output, or the push outputs that an input leads to.
    fn through(
        &self,
        end: (usize, usize),
        upstream: bool,
    ) -> impl Iterator<Item = (usize, usize)> + '_ {
        let member = &self.members[end.0];
        let (ports, kind) = match upstream {
            true => (&member.inputs, PortKind::Pull),
            false => (&member.outputs, PortKind::Push),
        };
        self.ways(end, upstream).filter(move |&(_, port)| ports.get(port) == Some(&kind))
    }

    /// The inputs whose packets leave on an output, or the outputs on which those of an input leave.
    fn ways(
        &self,
        (element, port): (usize, usize),
        upstream: bool,
    ) -> impl Iterator<Item = (usize, usize)> + '_ {
        let member = &self.members[element];
        let flow = member.class.flow_code();
        let ports = if upstream { &member.inputs } else { &member.outputs };
        let connects = move |other| match upstream {
            true => flow.connects(other, port),
            false => flow.connects(port, other),
        };
        (0..ports.len()).filter(move |&other| connects(other)).map(move |other| (element, other))
    }

    fn notifier(&self, (element, port): (usize, usize), upstream: bool) -> Option<&Notifier> {
        let element = &self.members.get(element)?.element;
        if upstream { element.notifier(port) } else { element.room_notifier(port) }
    }
}

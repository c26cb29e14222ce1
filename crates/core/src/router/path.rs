//! The queues that a task's packets come from or go to.

use super::Router;
use crate::element::PortKind;
use crate::engine::Notifier;

/// The nearest elements with a notifier on all ways upstream of a pull input, or downstream of a
/// push output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    /// Elements, their ports, and whether these are outputs (upstream) or inputs (downstream).
    ends: Vec<(usize, usize)>,
    upstream: bool,
    /// Every way ends at a notifier.
    pub(crate) all_tell: bool,
}

impl Path {
    /// The ways that pull input `port` of `element` takes packets from.
    pub(crate) fn upstream(router: &Router, element: usize, port: usize) -> Self {
        Self::find(router, (element, port), true)
    }

    /// The ways that packets take from push output `port` of `element`.
    pub(crate) fn downstream(router: &Router, element: usize, port: usize) -> Self {
        Self::find(router, (element, port), false)
    }

    /// Whether a way ends at a notifier.
    pub(crate) fn has_ends(&self) -> bool {
        !self.ends.is_empty()
    }

    /// The notifiers at the ends of the ways.
    pub(crate) fn notifiers<'a>(
        &'a self,
        router: &'a Router,
    ) -> impl Iterator<Item = &'a Notifier> {
        self.ends.iter().filter_map(|&end| router.notifier(end, self.upstream))
    }

    fn find(router: &Router, start: (usize, usize), upstream: bool) -> Self {
        let mut path = Self { ends: Vec::new(), upstream, all_tell: true };
        let mut seen = vec![start];
        let mut next = 0;
        while let Some(&from) = seen.get(next) {
            next += 1;
            for end in router.across(from, upstream) {
                if router.notifier(end, upstream).is_some() {
                    if !path.ends.contains(&end) {
                        path.ends.push(end);
                    }
                    continue;
                }
                let mut ways = router.through(end, upstream).peekable();
                path.all_tell &= ways.peek().is_some();
                for way in ways {
                    if !seen.contains(&way) {
                        seen.push(way);
                    }
                }
            }
        }
        path
    }
}

impl Router {
    /// The ports at the other end of a port's connections: outputs of an input, or the reverse.
    fn across(
        &self,
        port: (usize, usize),
        upstream: bool,
    ) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.connections.iter().filter_map(move |&(from, to)| match upstream {
            true => (to == port).then_some(from),
            false => (from == port).then_some(to),
        })
    }

    /// The pull inputs that lead to an output, or the push outputs that an input leads to.
    fn through(
        &self,
        (element, port): (usize, usize),
        upstream: bool,
    ) -> impl Iterator<Item = (usize, usize)> + '_ {
        let member = &self.elements[element];
        let flow = member.info.class.flow_code();
        let (ports, kind) = match upstream {
            true => (&member.inputs, PortKind::Pull),
            false => (&member.outputs, PortKind::Push),
        };
        ports.iter().enumerate().filter_map(move |(other, &its_kind)| {
            let connects = match upstream {
                true => flow.connects(other, port),
                false => flow.connects(port, other),
            };
            (connects && its_kind == kind).then_some((element, other))
        })
    }

    fn notifier(&self, (element, port): (usize, usize), upstream: bool) -> Option<&Notifier> {
        let element = &self.elements.get(element)?.element;
        if upstream { element.notifier(port) } else { element.room_notifier(port) }
    }
}

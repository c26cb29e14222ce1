//! The connections of a router, found by either end.

use super::wiring::Link;

/// One end of a connection: the element and its port.
type Port = (usize, usize);

/// Picks one end of a connection.
type End = fn(&Link) -> Port;

/// Connections in the order of the configuration, each found by its output and by its input without a search of all.
#[derive(Debug)]
pub(crate) struct Links {
    all: Vec<Link>,
    /// The places in `all`, by output; those of one output in their order.
    by_output: Vec<usize>,
    /// The same by input.
    by_input: Vec<usize>,
}

impl Links {
    pub(crate) fn new(all: Vec<Link>) -> Self {
        let sorted = |key: End| {
            let mut places: Vec<usize> = (0..all.len()).collect();
            places.sort_by_key(|&place| key(&all[place]));
            places
        };
        Self { by_output: sorted(output), by_input: sorted(input), all }
    }

    /// In the order of the configuration.
    pub(crate) fn all(&self) -> &[Link] {
        &self.all
    }

    /// The ports at the other end of a port's connections: upstream, the outputs that lead to an input;
    /// else the inputs that an output leads to.
    pub(crate) fn across(&self, port: Port, upstream: bool) -> impl Iterator<Item = Port> {
        let (places, near, far): (_, End, End) = match upstream {
            true => (&self.by_input, input, output),
            false => (&self.by_output, output, input),
        };
        let next = (port.0, port.1 + 1);
        self.between(places, near, port, next).map(move |place| far(&self.all[place]))
    }

    /// The places of the connections that leave an element, in the order of the configuration.
    pub(crate) fn leaving(&self, id: usize) -> Vec<usize> {
        let mut places: Vec<_> =
            self.between(&self.by_output, output, (id, 0), (id + 1, 0)).collect();
        places.sort_unstable();
        places
    }

    /// The places of the connections that arrive at an element, in the order of the configuration.
    pub(crate) fn coming(&self, id: usize) -> Vec<usize> {
        let mut places: Vec<_> =
            self.between(&self.by_input, input, (id, 0), (id + 1, 0)).collect();
        places.sort_unstable();
        places
    }

    /// The places whose key is in a range.
    fn between<'a>(
        &self,
        places: &'a [usize],
        key: End,
        start: Port,
        end: Port,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let first = places.partition_point(|&place| key(&self.all[place]) < start);
        let last = places.partition_point(|&place| key(&self.all[place]) < end);
        places[first..last].iter().copied()
    }
}

fn output(link: &Link) -> Port {
    link.0
}

fn input(link: &Link) -> Port {
    link.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_found_by_either_end() {
        let all = vec![((2, 1), (0, 0)), ((0, 0), (1, 0)), ((2, 0), (1, 1)), ((2, 1), (1, 0))];
        let links = Links::new(all);
        assert_eq!(links.across((2, 1), false).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
        assert_eq!(links.across((1, 0), true).collect::<Vec<_>>(), [(0, 0), (2, 1)]);
        assert_eq!((links.leaving(2), links.coming(1)), (vec![0, 2, 3], vec![1, 2, 3]));
        assert_eq!((links.across((1, 0), false).count(), links.leaving(7).len()), (0, 0));
    }
}

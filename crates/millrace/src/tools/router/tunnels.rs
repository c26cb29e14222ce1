//! Tunnels: what leads into a compound, and out of it, before it is flattened.

use std::collections::{BTreeSet, HashMap};

use super::{Connection, Element, Port, Router};

impl Router {
    /// Replaces connections through tunnels by connections from element to element.
    pub(in crate::tools) fn remove_tunnels(&mut self) {
        self.bypass_tunnels(&self.connection_numbers());
        for element in self.elements.iter_mut().filter(|element| element.is_joined_tunnel()) {
            element.dead = true;
        }
        self.remove_duplicates();
        self.free_dead();
    }

    /// As [`Self::remove_tunnels`], for the tunnels among these elements, which lead to no others.
    pub(in crate::tools) fn remove_tunnels_among(&mut self, places: &[usize]) {
        let joined =
            |place: &usize| self.elements.get(*place).is_some_and(Element::is_joined_tunnel);
        let tunnels: BTreeSet<usize> = places.iter().copied().filter(joined).collect();
        let of_all = tunnels.iter().map(|tunnel| self.numbers_of(*tunnel));
        let numbers: BTreeSet<usize> = of_all.flatten().collect();
        self.bypass_tunnels(&Vec::from_iter(numbers));
        tunnels.into_iter().for_each(|tunnel| self.free(tunnel));
    }

    /// Adds a connection from element to element for each way through the tunnels of these connections.
    fn bypass_tunnels(&mut self, old: &[usize]) {
        let through = |number: &usize| {
            let connection = self.connection(*number)?;
            let from = self.elements.get(connection.from.0)?;
            (from.is_tunnel() && from.comes_from.is_some()).then_some(connection.from)
        };
        let mut exits: HashMap<Port, Exit> = HashMap::new();
        let starts: Vec<Port> = old.iter().filter_map(through).collect();
        for &port in &starts {
            exits.entry(port).or_insert(Exit::Unknown);
        }
        for &port in &starts {
            self.sources(port, &mut exits);
        }
        for &number in old {
            let Some(Connection { from, to, .. }) = self.connection(number) else { continue };
            if self.elements.get(to.0).is_some_and(Element::is_tunnel) {
                continue;
            }
            if let Some(Exit::Known(sources)) = exits.get(&from) {
                for source in sources.clone() {
                    self.connect(source, to);
                }
            }
        }
    }

    /// Finds the ports from which packets enter that leave a tunnel by this port.
    fn sources(&self, port: Port, exits: &mut HashMap<Port, Exit>) {
        if !matches!(exits.get(&port), Some(Exit::Unknown)) {
            return;
        }
        exits.insert(port, Exit::Asked);
        let entrance = self.elements.get(port.0).and_then(|element| element.comes_from);
        let mut found = Vec::new();
        for source in entrance.map_or(Vec::new(), |entrance| self.ports_to((entrance, port.1))) {
            let tunnel = self.elements.get(source.0).is_some_and(Element::is_tunnel);
            if tunnel && exits.contains_key(&source) {
                self.sources(source, exits);
                if let Some(Exit::Known(sources)) = exits.get(&source) {
                    found.extend_from_slice(sources);
                }
                continue;
            }
            found.push(source);
        }
        exits.insert(port, Exit::Known(found));
    }
}

/// The ports from which packets enter that leave by a tunnel's port.
enum Exit {
    Unknown,
    /// It is being determined: a path that leads back here is a cycle.
    Asked,
    Known(Vec<Port>),
}

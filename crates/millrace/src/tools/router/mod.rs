//! A configuration that the tools can change.
//!
//! The order of elements and connections is visible in the output of the tools. Elements keep their indices. The
//! index of a freed element is given to the next one that is added. A new connection is the last one. The connections
//! of a port are listed newest first.

mod text;
mod tunnels;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;

use millrace_lang::{Assembly, Part, Requirement};

/// The connections of an element on one side, by port and by order of their arrival. The last port has some.
type Side = Vec<BTreeMap<u64, usize>>;

/// An element and one of its ports.
pub(super) type Port = (usize, usize);

/// An element, or an end of a tunnel.
#[derive(Clone, Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    /// `None` for the end of a tunnel.
    pub(super) class: Option<String>,
    pub(super) config: String,
    /// `file:line`, or `<click-undead>`.
    pub(super) landmark: String,
    pub(super) dead: bool,
    /// One more than the highest input port in use.
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// For an end of a tunnel, the index of its other end.
    pub(super) leads_to: Option<usize>,
    pub(super) comes_from: Option<usize>,
    /// The pattern whose replacement added the element.
    pub(super) pattern: usize,
}

impl Element {
    pub(super) fn is(&self, class: &str) -> bool {
        !self.dead && self.class.as_deref() == Some(class)
    }

    pub(super) fn is_tunnel(&self) -> bool {
        !self.dead && self.class.is_none()
    }

    /// True for the end of a tunnel whose other end is known.
    fn is_joined_tunnel(&self) -> bool {
        self.is_tunnel() && (self.leads_to.is_some() || self.comes_from.is_some())
    }

    /// The class; empty for a tunnel.
    pub(super) fn class(&self) -> &str {
        self.class.as_deref().unwrap_or("")
    }

    /// `name :: Class`
    pub(super) fn declaration(&self) -> String {
        format!("{} :: {}", self.name, self.class())
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) from: Port,
    pub(super) to: Port,
    /// When its start and its end came to their ports.
    since: [u64; 2],
    live: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Router {
    pub(super) elements: Vec<Element>,
    connections: Vec<Connection>,
    /// The connections into and out of each element.
    into: Vec<Side>,
    out_of: Vec<Side>,
    /// The number of ends of connections that have been linked.
    linked: u64,
    names: BTreeMap<String, usize>,
    /// Indices of freed elements. The last one is reused first.
    free: Vec<usize>,
    requirements: Vec<Requirement>,
    variables: Vec<(String, String)>,
    /// If present, records the indices of added elements.
    pub(super) added: Option<Vec<usize>>,
}

impl Router {
    pub(super) fn new(assembly: &Assembly) -> Self {
        let mut router = Self {
            requirements: assembly.requirements.clone(),
            variables: assembly.variables.clone(),
            ..Self::default()
        };
        for part in &assembly.parts {
            router.add(element_of(part));
        }
        for connection in &assembly.connections {
            router.connect(connection.from, connection.to);
        }
        router
    }

    /// Adds the elements and connections of another configuration. Their names get `prefix`. Ends of tunnels that
    /// exist already under their names are reused.
    pub(super) fn take_over(&mut self, other: &Self, prefix: &str) {
        let mut places = vec![usize::MAX; other.elements.len()];
        for (index, element) in other.elements.iter().enumerate().filter(|(_, e)| !e.dead) {
            let name = format!("{prefix}{}", element.name);
            let known = self.find(&name);
            let place = known.unwrap_or_else(|| {
                let (leads_to, comes_from) = (None, None);
                self.add(Element {
                    name,
                    inputs: 0,
                    outputs: 0,
                    leads_to,
                    comes_from,
                    ..element.clone()
                })
            });
            set(&mut places, index, place);
        }
        let place = |index: usize| places.get(index).copied().unwrap_or(usize::MAX);
        for (index, element) in other.elements.iter().enumerate().filter(|(_, e)| !e.dead) {
            let (leads_to, comes_from) =
                (element.leads_to.map(place), element.comes_from.map(place));
            if let Some(element) = self.elements.get_mut(place(index)) {
                element.leads_to = element.leads_to.or(leads_to);
                element.comes_from = element.comes_from.or(comes_from);
            }
        }
        for connection in other.connections() {
            let (from, to) = (connection.from, connection.to);
            self.connect((place(from.0), from.1), (place(to.0), to.1));
        }
        self.requirements.extend(other.requirements.iter().cloned());
    }

    /// The element; `None` if it is dead.
    pub(super) fn live(&self, index: usize) -> Option<&Element> {
        self.elements.get(index).filter(|element| !element.dead)
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// True if there is a longer name that begins so.
    pub(super) fn has_name_within(&self, prefix: &str) -> bool {
        let (start, end) = (Bound::Excluded(prefix), Bound::Unbounded);
        self.names.range::<str, _>((start, end)).next().is_some_and(|(n, _)| n.starts_with(prefix))
    }

    /// The elements that are not dead.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Element)> {
        self.elements.iter().enumerate().filter(|(_, element)| !element.dead)
    }

    /// The indices of the elements of a class.
    pub(super) fn of_class(&self, class: &str) -> Vec<usize> {
        self.iter().filter(|(_, element)| element.is(class)).map(|(index, _)| index).collect()
    }

    pub(super) fn add(&mut self, element: Element) -> usize {
        let name = element.name.clone();
        let place = match self.free.pop() {
            Some(place) => {
                set(&mut self.elements, place, element);
                set(&mut self.into, place, Vec::new());
                set(&mut self.out_of, place, Vec::new());
                place
            }
            None => {
                self.elements.push(element);
                self.into.push(Vec::new());
                self.out_of.push(Vec::new());
                self.elements.len() - 1
            }
        };
        if let Some(added) = &mut self.added {
            added.push(place);
        }
        self.names.insert(name, place);
        place
    }

    /// The element with this name, which is added if there is none.
    pub(super) fn get(&mut self, name: &str, class: &str, config: &str, landmark: &str) -> usize {
        self.find(name).unwrap_or_else(|| {
            self.add(Element {
                name: name.to_owned(),
                class: Some(class.to_owned()),
                config: config.to_owned(),
                landmark: landmark.to_owned(),
                ..Element::default()
            })
        })
    }

    /// Adds an element without a name of its own.
    pub(super) fn add_anonymous(&mut self, class: &str, landmark: &str) -> usize {
        let mut number = self.elements.len() - self.free.len() + 1;
        while self.find(&format!("{class}@{number}")).is_some() {
            number += 1;
        }
        self.get(&format!("{class}@{number}"), class, "", landmark)
    }

    pub(super) fn rename(&mut self, place: usize, name: &str) {
        let Some(element) = self.elements.get_mut(place) else { return };
        let old = std::mem::replace(&mut element.name, name.to_owned());
        if self.names.get(&old) == Some(&place) {
            self.names.remove(&old);
        }
        self.names.insert(name.to_owned(), place);
    }

    /// Marks an element as dead. Its connections remain.
    pub(super) fn kill(&mut self, place: usize) {
        if let Some(element) = self.elements.get_mut(place) {
            element.dead = true;
        }
    }

    // Connections.

    /// The connections in the order of their numbers.
    pub(super) fn connections(&self) -> impl Iterator<Item = Connection> {
        self.connections.iter().copied().filter(|connection| connection.live)
    }

    /// One more than the highest number of a connection.
    pub(super) fn connections_end(&self) -> usize {
        self.connections.len()
    }

    /// The indices of all connections.
    pub(super) fn connection_numbers(&self) -> Vec<usize> {
        let live = |(number, connection): (usize, &Connection)| connection.live.then_some(number);
        self.connections.iter().enumerate().filter_map(live).collect()
    }

    pub(super) fn connection(&self, number: usize) -> Option<Connection> {
        self.connections.get(number).copied().filter(|connection| connection.live)
    }

    fn side(&self, element: usize, output: bool) -> &[BTreeMap<u64, usize>] {
        let side = if output { &self.out_of } else { &self.into };
        side.get(element).map_or(&[], Vec::as_slice)
    }

    /// The numbers of the connections of an element on one side, newest first.
    fn all_at(&self, element: usize, output: bool) -> Vec<usize> {
        let ports = self.side(element, output).iter().flatten();
        let mut numbers: Vec<(u64, usize)> =
            ports.map(|(since, number)| (*since, *number)).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.into_iter().map(|(_, number)| number).collect()
    }

    /// The numbers of the connections of an element, ascending.
    pub(super) fn numbers_of(&self, element: usize) -> BTreeSet<usize> {
        [true, false].into_iter().flat_map(|output| self.all_at(element, output)).collect()
    }

    /// The elements at the other ends of an element's connections.
    pub(super) fn neighbours(&self, element: usize) -> BTreeSet<usize> {
        let connections = self.numbers_of(element).into_iter().filter_map(|n| self.connection(n));
        connections.map(|c| if c.from.0 == element { c.to.0 } else { c.from.0 }).collect()
    }

    /// The numbers of the connections of a port, newest first.
    fn at(&self, port: Port, output: bool) -> Vec<usize> {
        let numbers = self.side(port.0, output).get(port.1);
        numbers.into_iter().flat_map(|numbers| numbers.values().rev().copied()).collect()
    }

    pub(super) fn numbers_from(&self, port: Port) -> Vec<usize> {
        self.at(port, true)
    }

    pub(super) fn numbers_to(&self, port: Port) -> Vec<usize> {
        self.at(port, false)
    }

    /// The ports that a port is connected to, newest first.
    pub(super) fn ports_from(&self, port: Port) -> Vec<Port> {
        self.at(port, true).into_iter().filter_map(|n| self.connection(n)).map(|c| c.to).collect()
    }

    /// The ports that are connected to a port, newest first.
    pub(super) fn ports_to(&self, port: Port) -> Vec<Port> {
        self.at(port, false)
            .into_iter()
            .filter_map(|n| self.connection(n))
            .map(|c| c.from)
            .collect()
    }

    /// The connections of each port of an element, up to the highest port in use.
    pub(super) fn by_port(&self, element: usize, output: bool) -> Vec<Vec<usize>> {
        let ports = self.elements.get(element).map_or(0, |element| match output {
            true => element.outputs,
            false => element.inputs,
        });
        (0..ports).map(|port| self.at((element, port), output)).collect()
    }

    /// Looks at the port with fewer connections.
    pub(super) fn has_connection(&self, from: Port, to: Port) -> bool {
        let count =
            |port: Port, output| self.side(port.0, output).get(port.1).map_or(0, BTreeMap::len);
        match count(from, true) <= count(to, false) {
            true => self.ports_from(from).contains(&to),
            false => self.ports_to(to).contains(&from),
        }
    }

    /// Connects two ports unless they are connected already.
    pub(super) fn connect(&mut self, from: Port, to: Port) {
        if self.elements.len() <= from.0.max(to.0) || self.has_connection(from, to) {
            return;
        }
        let number = self.connections.len();
        self.connections.push(Connection { from, to, since: [0; 2], live: true });
        self.link(number, from, true);
        self.link(number, to, false);
    }

    fn link(&mut self, number: usize, port: Port, output: bool) {
        self.linked += 1;
        if let Some(connection) = self.connections.get_mut(number) {
            set(&mut connection.since, usize::from(!output), self.linked);
        }
        let side = if output { &mut self.out_of } else { &mut self.into };
        if let Some(ports) = side.get_mut(port.0) {
            if ports.len() <= port.1 {
                ports.resize_with(port.1 + 1, BTreeMap::new);
            }
            if let Some(numbers) = ports.get_mut(port.1) {
                numbers.insert(self.linked, number);
            }
        }
        self.count_ports(port.0, output);
    }

    /// Notes how many ports of an element are in use.
    fn count_ports(&mut self, element: usize, output: bool) {
        let used = self.side(element, output).len();
        if let Some(element) = self.elements.get_mut(element) {
            *(if output { &mut element.outputs } else { &mut element.inputs }) = used;
        }
    }

    fn unlink(&mut self, number: usize, port: Port, output: bool) {
        let Some(connection) = self.connections.get(number) else { return };
        let [from, to] = connection.since;
        let side = if output { &mut self.out_of } else { &mut self.into };
        if let Some(ports) = side.get_mut(port.0) {
            if let Some(numbers) = ports.get_mut(port.1) {
                numbers.remove(if output { &from } else { &to });
            }
            while ports.pop_if(|numbers| numbers.is_empty()).is_some() {}
        }
        self.count_ports(port.0, output);
    }

    pub(super) fn erase(&mut self, number: usize) {
        let Some(connection) = self.connection(number) else { return };
        self.unlink(number, connection.from, true);
        self.unlink(number, connection.to, false);
        if let Some(connection) = self.connections.get_mut(number) {
            connection.live = false;
        }
    }

    /// Removes erased connections. The indices of later ones decrease.
    fn compact(&mut self) {
        let mut renamed = Vec::with_capacity(self.connections.len());
        let mut next = 0;
        for connection in &self.connections {
            renamed.push(next);
            next += usize::from(connection.live);
        }
        self.connections.retain(|connection| connection.live);
        let sides = self.into.iter_mut().chain(&mut self.out_of);
        for number in sides.flatten().flat_map(BTreeMap::values_mut) {
            *number = renamed.get(*number).copied().unwrap_or(*number);
        }
    }

    /// Moves the start of a connection to another port.
    pub(super) fn move_from(&mut self, number: usize, port: Port) {
        let Some(connection) = self.connection(number) else { return };
        self.unlink(number, connection.from, true);
        if let Some(connection) = self.connections.get_mut(number) {
            connection.from = port;
        }
        self.link(number, port, true);
    }

    /// Moves the end of a connection to another port.
    pub(super) fn move_to(&mut self, number: usize, port: Port) {
        let Some(connection) = self.connection(number) else { return };
        self.unlink(number, connection.to, false);
        if let Some(connection) = self.connections.get_mut(number) {
            connection.to = port;
        }
        self.link(number, port, false);
    }

    /// Inserts a port before another: connections to `port` lead to `inserted`, and `inserted` leads to `port`.
    pub(super) fn insert_before(&mut self, inserted: Port, port: Port) {
        self.connect(inserted, port);
        for number in self.numbers_to(port) {
            if self.connection(number).is_some_and(|connection| connection.from != inserted) {
                self.move_to(number, inserted);
            }
        }
    }

    /// Inserts a port after another.
    pub(super) fn insert_after(&mut self, inserted: Port, port: Port) {
        self.connect(port, inserted);
        for number in self.numbers_from(port) {
            if self.connection(number).is_some_and(|connection| connection.to != inserted) {
                self.move_from(number, inserted);
            }
        }
    }

    /// Removes duplicates of connections. The newest one of the element at the start remains.
    pub(super) fn remove_duplicates(&mut self) {
        for element in 0..self.elements.len() {
            let mut seen = HashSet::new();
            for number in self.all_at(element, true) {
                let Some(connection) = self.connection(number) else { continue };
                let key = (connection.from, connection.to);
                if !seen.insert(key) {
                    self.erase(number);
                }
            }
        }
    }

    /// Removes connections of dead elements.
    pub(super) fn remove_dead_connections(&mut self) {
        for number in self.connection_numbers() {
            let dead = |port: Port| self.live(port.0).is_none();
            if self.connection(number).is_some_and(|c| dead(c.from) || dead(c.to)) {
                self.erase(number);
            }
        }
    }

    /// Removes dead elements. The indices of later elements decrease.
    pub(super) fn remove_dead(&mut self) {
        if self.elements.iter().all(|element| !element.dead) {
            return;
        }
        self.remove_dead_connections();
        let mut places = Vec::with_capacity(self.elements.len());
        let mut next = 0;
        for element in &self.elements {
            places.push(if element.dead { usize::MAX } else { next });
            next += usize::from(!element.dead);
        }
        let place = |index: usize| places.get(index).copied().unwrap_or(usize::MAX);
        let moved = |port: Port| (place(port.0), port.1);
        for connection in self.connections.iter_mut().filter(|connection| connection.live) {
            (connection.from, connection.to) = (moved(connection.from), moved(connection.to));
        }
        let mut dead = self.elements.iter().map(|element| element.dead);
        self.into.retain(|_| !dead.next().unwrap_or_default());
        let mut dead = self.elements.iter().map(|element| element.dead);
        self.out_of.retain(|_| !dead.next().unwrap_or_default());
        self.elements.retain(|element| !element.dead);
        for element in &mut self.elements {
            element.leads_to = element.leads_to.map(place).filter(|&place| place != usize::MAX);
            element.comes_from = element.comes_from.map(place).filter(|&place| place != usize::MAX);
        }
        let named = self.elements.iter().enumerate();
        self.names = named.map(|(place, element)| (element.name.clone(), place)).collect();
        self.free.clear();
        self.compact();
    }

    /// Frees an element: its connections are removed, and its index is the next one to be reused.
    pub(super) fn free(&mut self, place: usize) {
        for number in [self.all_at(place, true), self.all_at(place, false)].concat() {
            self.erase(number);
        }
        self.release(place);
    }

    fn release(&mut self, place: usize) {
        self.kill(place);
        let Some(element) = self.elements.get(place) else { return };
        if self.names.get(&element.name) == Some(&place) {
            self.names.remove(&element.name);
        }
        self.free.push(place);
    }

    /// Frees dead elements, so that their indices are reused, the last one first.
    pub(super) fn free_dead(&mut self) {
        self.remove_dead_connections();
        let free: HashSet<usize> = self.free.iter().copied().collect();
        for place in 0..self.elements.len() {
            if self.elements.get(place).is_some_and(|e| e.dead) && !free.contains(&place) {
                self.release(place);
            }
        }
    }

    /// Removes all tunnels.
    pub(super) fn flatten(&mut self) {
        self.remove_tunnels();
        self.remove_dead();
        self.compact();
    }
}

fn element_of(part: &Part) -> Element {
    Element {
        name: part.name.clone(),
        class: part.class.clone(),
        config: part.config.clone(),
        landmark: part.landmark.clone(),
        leads_to: part.leads_to,
        comes_from: part.comes_from,
        ..Element::default()
    }
}

fn set<T>(list: &mut [T], index: usize, value: T) {
    if let Some(slot) = list.get_mut(index) {
        *slot = value;
    }
}

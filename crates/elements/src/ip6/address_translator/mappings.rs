//! The mappings of AddressTranslator.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use millrace_core::{Reason, Timestamp};

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Outward,
    Inward,
}

/// An address, and a port where ports count, otherwise 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct End {
    pub(super) address: Ipv6Addr,
    pub(super) port: u16,
}

/// What dynamic mappings take from.
pub(super) enum Pool {
    Addresses(Vec<Ipv6Addr>),
    Ports { first: End, last: u16 },
}

/// All mappings.
pub(super) struct Mappings {
    pub(super) static_ports: bool,
    statics: Vec<(End, End)>,
    static_out: HashMap<End, End>,
    static_in: HashMap<End, End>,
    /// Which packets begin dynamic mappings, if there are any.
    pub(super) begins: Option<Direction>,
    pub(super) pool: Pool,
    /// Dynamic mappings, by their place in the pool.
    places: Vec<Place>,
    out: HashMap<Key, usize>,
    back: HashMap<Key, usize>,
    /// Where the search for a silent mapping goes on.
    cursor: usize,
    timeout: Timestamp,
}

/// By what a dynamic mapping is found: the end that is translated, and where ports are translated, the other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    near: End,
    far: End,
}

/// A dynamic mapping.
struct Place {
    inner: End,
    mapped: End,
    far: End,
    last: Timestamp,
}

/// Maximum number of mappings that are examined for one that is silent, for one packet.
const MOST_EXAMINED: usize = 64;

impl Mappings {
    /// None, and no pool.
    pub(super) fn new(timeout: Timestamp) -> Self {
        Self {
            static_ports: false,
            statics: Vec::new(),
            static_out: HashMap::new(),
            static_in: HashMap::new(),
            begins: None,
            pool: Pool::Addresses(Vec::new()),
            places: Vec::new(),
            out: HashMap::new(),
            back: HashMap::new(),
            cursor: 0,
            timeout,
        }
    }

    /// Adds a static mapping. Of several with the same end, the first counts.
    pub(super) fn add_static(&mut self, inner: End, mapped: End) {
        self.statics.push((inner, mapped));
        self.static_out.entry(inner.sought()).or_insert(mapped);
        self.static_in.entry(mapped.sought()).or_insert(inner);
    }

    /// What `near` becomes in a packet between it and `far`.
    pub(super) fn find(
        &mut self,
        direction: Direction,
        near: End,
        far: End,
        has_ports: bool,
        now: Timestamp,
    ) -> Result<End, Reason> {
        let statics = match direction {
            Direction::Outward => &self.static_out,
            Direction::Inward => &self.static_in,
        };
        if self.static_ports && has_ports {
            if let Some(new) = statics.get(&near.sought()) {
                return Ok(*new);
            }
        } else if !self.static_ports
            && let Some(new) = statics.get(&near.without_port().sought())
        {
            return Ok(End { port: near.port, ..*new });
        }
        let begins = self.begins.ok_or(Reason::NoMatch)?;
        let with_ports = matches!(self.pool, Pool::Ports { .. });
        if with_ports && !has_ports {
            return Err(Reason::NoMatch);
        }
        let key = match with_ports {
            true => Key { near: near.sought(), far: far.sought() },
            false => Key { near: near.without_port().sought(), far: End::ANY },
        };
        let known = match direction {
            Direction::Outward => self.out.get(&key),
            Direction::Inward => self.back.get(&key),
        };
        let at = match known {
            Some(at) => *at,
            None if begins == direction => {
                let near = if with_ports { near } else { near.without_port() };
                self.begin(direction, near, key.far, now)?
            }
            None => return Err(Reason::NoMatch),
        };
        let place = self.places.get_mut(at).ok_or(Reason::NoMatch)?;
        place.last = now;
        let new = match direction {
            Direction::Outward => place.mapped,
            Direction::Inward => place.inner,
        };
        Ok(if with_ports { new } else { End { port: near.port, ..new } })
    }

    /// Begins a mapping, in a place that no other has or needs.
    fn begin(
        &mut self,
        direction: Direction,
        near: End,
        far: End,
        now: Timestamp,
    ) -> Result<usize, Reason> {
        let at = match self.pool.get(self.places.len()) {
            Some(_) => self.places.len(),
            None => self.silent(now).ok_or(Reason::TableFull)?,
        };
        let pooled = self.pool.get(at).ok_or(Reason::TableFull)?;
        let (inner, mapped) = match direction {
            Direction::Outward => (near, pooled),
            Direction::Inward => (pooled, near),
        };
        self.put(at, Place { inner, mapped, far, last: now });
        Ok(at)
    }

    /// Puts a mapping into a place, at most the one behind the last, instead of the one there.
    fn put(&mut self, at: usize, place: Place) {
        let (out, back) = place.keys();
        match self.places.get_mut(at) {
            Some(old) => {
                let (old_out, old_back) = std::mem::replace(old, place).keys();
                self.out.remove(&old_out);
                self.back.remove(&old_back);
            }
            None => self.places.push(place),
        }
        self.out.insert(out, at);
        self.back.insert(back, at);
    }

    /// A mapping that may be forgotten, if one is found soon.
    fn silent(&mut self, now: Timestamp) -> Option<usize> {
        if self.timeout == Timestamp::ZERO {
            return None;
        }
        for _ in 0..self.places.len().min(MOST_EXAMINED) {
            let at = self.cursor % self.places.len();
            self.cursor = at + 1;
            if self.places.get(at).is_some_and(|place| now - place.last > self.timeout) {
                return Some(at);
            }
        }
        None
    }

    /// Takes over the dynamic mappings of another table, if they come from the same pool.
    pub(super) fn take(&mut self, old: &mut Self) {
        let same = |at| self.pool.get(at) == old.pool.get(at);
        if self.begins == old.begins && same(0) && (0..old.places.len()).all(same) {
            self.places = std::mem::take(&mut old.places);
            self.out = std::mem::take(&mut old.out);
            self.back = std::mem::take(&mut old.back);
        }
    }

    /// Forgets the dynamic mappings.
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.out.clear();
        self.back.clear();
    }

    /// The number of dynamic mappings.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Bytes that the tables take when they are full.
    pub(super) fn bytes_when_full(&self) -> usize {
        let entry = size_of::<Place>() + 2 * (size_of::<Key>() + size_of::<usize>() + 1) * 8 / 7;
        self.pool.len().next_power_of_two().saturating_mul(entry)
    }

    /// The text of the handler `table`.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        let statics = self.statics.iter().map(|(inner, mapped)| (inner, mapped, self.static_ports));
        let with_ports = matches!(self.pool, Pool::Ports { .. });
        let dynamic = self.places.iter().map(|place| (&place.inner, &place.mapped, with_ports));
        for (inner, mapped, with_ports) in statics.chain(dynamic) {
            // Writing to a string cannot fail.
            let _ = match with_ports {
                true => writeln!(
                    text,
                    "{} {} => {} {}",
                    inner.address, inner.port, mapped.address, mapped.port
                ),
                false => writeln!(text, "{} => {}", inner.address, mapped.address),
            };
        }
        text
    }
}

impl Pool {
    fn len(&self) -> usize {
        match self {
            Self::Addresses(addresses) => addresses.len(),
            Self::Ports { first, last } => usize::from(last - first.port) + 1,
        }
    }

    fn get(&self, at: usize) -> Option<End> {
        match self {
            Self::Addresses(addresses) => {
                addresses.get(at).map(|address| End { address: *address, port: 0 })
            }
            Self::Ports { first, last } => {
                let port = u16::try_from(at).ok().and_then(|at| first.port.checked_add(at))?;
                (port <= *last).then_some(End { port, ..*first })
            }
        }
    }
}

impl Place {
    fn keys(&self) -> (Key, Key) {
        let (inner, mapped) = (self.inner.sought(), self.mapped.sought());
        (Key { near: inner, far: self.far }, Key { near: mapped, far: self.far })
    }
}

impl End {
    const ANY: Self = Self { address: Ipv6Addr::UNSPECIFIED, port: 0 };

    /// As it is looked up: an IPv4-compatible address is the same as the IPv4-mapped one, because
    /// ProtocolTranslator46 makes the one, and configurations often name the other.
    fn sought(self) -> Self {
        match self.address.octets() {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] if a != 0 => {
                let address = Ipv4Addr::new(a, b, c, d).to_ipv6_mapped();
                Self { address, ..self }
            }
            _ => self,
        }
    }

    fn without_port(self) -> Self {
        Self { port: 0, ..self }
    }
}

//! The routes as configured, from which the forwarding structures are built.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use prefix_trie::PrefixMap;

use super::hops::HopId;
use crate::ip::lookup::routes::address::Address;
use crate::ip::lookup::routes::route::Prefix;

/// All routes of a table: a map from networks to hops.
///
/// # Resource usage
/// About 20 bytes per IPv4 route.
#[derive(Debug)]
pub(crate) struct Rib<A: Address = Ipv4Addr> {
    routes: PrefixMap<A::Key, Entry>,
    slots: Slots,
}

/// The route of one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hop: HopId,
    /// The route's place in the list of the `table` handler.
    pub(crate) slot: u32,
}

/// The order in which the `table` handler lists routes and a linear search tries them. Click's classes keep arrays in
/// which a new route fills the place of a removed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By address.
    Address,
    /// In the order of addition. A new route takes the most recently freed place; a replaced route takes a new place.
    LastLeft,
    /// In the order of addition. A new route takes the first free place; a replaced route keeps its place.
    FirstFree,
}

impl<A: Address> Rib<A> {
    pub(crate) fn new(order: Order) -> Rib<A> {
        Rib { routes: PrefixMap::new(), slots: Slots::new(order) }
    }

    pub(crate) fn len(&self) -> usize {
        self.routes.len()
    }

    pub(crate) fn get(&self, prefix: Prefix<A>) -> Option<Entry> {
        self.routes.get(&A::key(prefix)).copied()
    }

    /// Sets a network's route; returns the previous one.
    pub(crate) fn set(&mut self, prefix: Prefix<A>, hop: HopId) -> Option<Entry> {
        let keeps_place = self.slots.order == Order::FirstFree;
        let kept = if keeps_place { self.get(prefix) } else { None };
        let slot = kept.map_or_else(|| self.slots.take(), |kept| kept.slot);
        let old = self.routes.insert(A::key(prefix), Entry { hop, slot });
        if let (None, Some(old)) = (kept, old) {
            self.slots.leave(old.slot);
        }
        old
    }

    /// Removes a network's route; returns it.
    pub(crate) fn remove(&mut self, prefix: Prefix<A>) -> Option<Entry> {
        let old = self.routes.remove(&A::key(prefix))?;
        self.slots.leave(old.slot);
        Some(old)
    }

    /// The route of the smallest network around this one, and its length.
    pub(crate) fn cover(&self, prefix: Prefix<A>) -> Option<(u8, HopId)> {
        self.longest(prefix.parent()?)
    }

    /// The route of the smallest network that contains or equals this one, and its length.
    pub(crate) fn longest(&self, prefix: Prefix<A>) -> Option<(u8, HopId)> {
        self.routes
            .get_lpm(&A::key(prefix))
            .map(|(key, entry)| (A::prefix(&key).length(), entry.hop))
    }

    /// Every route; a network comes before those within it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Prefix<A>, Entry)> {
        self.routes.iter().map(|(key, entry)| (A::prefix(&key), *entry))
    }

    /// Every route from this network on, in the order of [`Rib::iter`].
    pub(crate) fn from(&self, prefix: Prefix<A>) -> impl Iterator<Item = (Prefix<A>, Entry)> {
        let routes = self.routes.iter_from(&A::key(prefix), true);
        routes.map(|(key, entry)| (A::prefix(&key), *entry))
    }

    /// Every route of the networks around this one, the largest first.
    pub(crate) fn around(&self, prefix: Prefix<A>) -> impl Iterator<Item = (Prefix<A>, Entry)> {
        let key = prefix.parent().map(A::key);
        let routes = key.into_iter().flat_map(|key| self.routes.cover(&key).collect::<Vec<_>>());
        routes.map(|(key, entry)| (A::prefix(&key), *entry))
    }

    /// Every route in the table's order.
    pub(crate) fn list(&self) -> Vec<(Prefix<A>, Entry)> {
        let mut routes: Vec<_> = self.iter().collect();
        routes.sort_by_key(|(_, entry)| entry.slot);
        routes
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.routes.mem_size() + self.slots.memory()
    }
}

/// Places in a list.
#[derive(Debug)]
struct Slots {
    order: Order,
    /// One more than the highest place ever used.
    end: u32,
    /// Freed places, the most recent at the end.
    left: Vec<u32>,
    /// Freed places, by number.
    free: BTreeSet<u32>,
}

impl Slots {
    fn new(order: Order) -> Slots {
        Slots { order, end: 0, left: Vec::new(), free: BTreeSet::new() }
    }

    /// A place for a new route.
    fn take(&mut self) -> u32 {
        let place = match self.order {
            Order::Address => return 0,
            Order::FirstFree => self.free.pop_first(),
            Order::LastLeft => self.left.pop(),
        };
        place.unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    fn leave(&mut self, place: u32) {
        match self.order {
            Order::Address => {}
            Order::LastLeft => self.left.push(place),
            Order::FirstFree => {
                self.free.insert(place);
            }
        }
    }

    fn memory(&self) -> usize {
        // A B-tree is two thirds full on average.
        (self.left.capacity() + self.free.len() * 3 / 2) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(number: u32) -> Prefix {
        Prefix::new(number << 24, 8)
    }

    fn listed(order: Order, steps: &[i32]) -> Vec<u32> {
        let mut rib = Rib::new(order);
        for &step in steps {
            let prefix = prefix(step.unsigned_abs());
            if step < 0 {
                rib.remove(prefix);
            } else {
                rib.set(prefix, HopId(1));
            }
        }
        rib.list().into_iter().map(|(prefix, _)| prefix.first() >> 24).collect()
    }

    #[test]
    fn each_order_lists_routes_in_its_own_way() {
        let steps = [5, 4, 3, 2, -5, -3, 7, 2, 8];
        assert_eq!(listed(Order::Address, &steps), [2, 4, 7, 8]);
        assert_eq!(listed(Order::FirstFree, &steps), [7, 4, 8, 2]);
        // 7 takes the place of 3, 2 that of 5, and 8 the one that 2 left.
        assert_eq!(listed(Order::LastLeft, &steps), [2, 4, 7, 8]);
        assert_eq!(listed(Order::LastLeft, &[5, 4, 5]), [4, 5]);
        assert_eq!(listed(Order::FirstFree, &[5, 4, 5]), [5, 4]);
    }

    #[test]
    fn networks_around_and_after_a_network_are_found() {
        let mut rib = Rib::new(Order::Address);
        let networks = [(0, 0), (0x0a00_0000, 8), (0x0a01_0000, 16), (0x0a01_0200, 24)];
        for (id, (bits, length)) in (1..).zip(networks) {
            rib.set(Prefix::new(bits, length), HopId(id));
        }
        let sixteen = Prefix::new(0x0a01_0000, 16);
        assert_eq!(rib.cover(sixteen), Some((8, HopId(2))));
        assert_eq!(rib.longest(sixteen), Some((16, HopId(3))));
        assert_eq!(rib.cover(Prefix::DEFAULT), None);
        assert_eq!(rib.longest(Prefix::new(0x0a01_0203, 32)), Some((24, HopId(4))));
        let ids = |routes: Vec<(Prefix, Entry)>| -> Vec<u32> {
            routes.into_iter().map(|(_, entry)| entry.hop.0).collect()
        };
        assert_eq!(ids(rib.around(sixteen).collect()), [1, 2]);
        assert_eq!(ids(rib.from(sixteen).collect()), [3, 4]);
        assert_eq!(ids(rib.from(Prefix::new(0x0a01_0000, 17)).collect()), [4]);
        assert_eq!(ids(rib.around(Prefix::DEFAULT).collect()), [0; 0]);
    }
}

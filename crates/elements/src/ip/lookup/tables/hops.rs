//! Next hops, each stored once and named by a small number.
//!
//! A table of half a million routes has a few hundred different hops. Forwarding structures hold their numbers; the
//! hops themselves are in one array that stays in the L1 cache.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::memory::zeroed;
use crate::ip::lookup::routes::address::Address;
use crate::ip::lookup::routes::error::Error;
use crate::ip::lookup::routes::route::Hop;

/// The number of a hop in its table; 0 means no route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HopId(pub(crate) u32);

impl HopId {
    /// No route.
    pub const NONE: HopId = HopId(0);

    /// Whether this means no route.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// The readers' side: hops by number. An entry is written before its number is published, and does not change while a
/// reader may hold it.
#[derive(Debug)]
pub(crate) struct HopTable<A: Address = Ipv4Addr> {
    entries: Box<[A::Cell]>,
}

impl<A: Address> HopTable<A> {
    fn new(capacity: usize) -> Result<HopTable<A>, Error<A>> {
        Ok(HopTable { entries: zeroed(capacity).map_err(|_| Error::NoMemory)? })
    }

    #[inline]
    pub(crate) fn get(&self, id: HopId) -> Option<Hop<A>> {
        A::load(self.entries.get(id.0 as usize)?)
    }

    fn set(&self, id: HopId, hop: Hop<A>) {
        if let Some(entry) = self.entries.get(id.0 as usize) {
            A::store(entry, hop);
        }
    }

    fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }
}

/// The writer's side: the number of each hop, and how many routes use it.
#[derive(Debug)]
pub(crate) struct Hops<A: Address = Ipv4Addr> {
    shared: Arc<HopTable<A>>,
    ids: HashMap<Hop<A>, HopId, foldhash::fast::RandomState>,
    /// Indexed by number.
    uses: Vec<Use<A>>,
    free: Vec<HopId>,
}

#[derive(Clone, Copy, Debug)]
struct Use<A: Address> {
    hop: Hop<A>,
    routes: u32,
}

/// The initial capacity; the table grows when it is exceeded.
const FIRST_CAPACITY: usize = 256;

/// The maximum number of different hops in a table.
pub(crate) const MAX_HOPS: u32 = 1 << 24;

impl<A: Address> Hops<A> {
    pub(crate) fn new() -> Result<Hops<A>, Error<A>> {
        let none = Use { hop: Hop { gateway: A::UNSPECIFIED, port: 0 }, routes: 0 };
        Ok(Hops {
            shared: Arc::new(HopTable::new(FIRST_CAPACITY)?),
            ids: HashMap::default(),
            uses: vec![none],
            free: Vec::new(),
        })
    }

    /// The readers' side.
    pub(crate) fn shared(&self) -> &Arc<HopTable<A>> {
        &self.shared
    }

    /// One more than the highest number ever allocated.
    pub(crate) fn limit(&self) -> u32 {
        self.uses.len() as u32
    }

    /// The hop with this number.
    pub(crate) fn get(&self, id: HopId) -> Option<Hop<A>> {
        let entry = self.uses.get(id.0 as usize).filter(|entry| entry.routes > 0)?;
        Some(entry.hop)
    }

    /// The number of a hop, for one more route.
    ///
    /// # Errors
    /// There are too many different hops.
    pub(crate) fn acquire(&mut self, hop: Hop<A>) -> Result<HopId, Error<A>> {
        if let Some(&id) = self.ids.get(&hop) {
            self.uses_of(id, |entry| entry.routes += 1);
            return Ok(id);
        }
        let entry = Use { hop, routes: 1 };
        let id = match self.free.pop() {
            Some(id) => {
                self.uses_of(id, |slot| *slot = entry);
                id
            }
            None if self.limit() == MAX_HOPS => return Err(Error::Full),
            None => {
                self.uses.push(entry);
                HopId(self.limit() - 1)
            }
        };
        self.shared.set(id, hop);
        self.ids.insert(hop, id);
        Ok(id)
    }

    /// Releases the number of a hop for one route. Returns whether no route uses it any more. If so, the caller must
    /// [free](Hops::free) it when no reader can hold it.
    #[must_use]
    pub(crate) fn release(&mut self, id: HopId) -> bool {
        let mut hop = None;
        self.uses_of(id, |entry| {
            entry.routes = entry.routes.saturating_sub(1);
            hop = (entry.routes == 0).then_some(entry.hop);
        });
        match hop {
            // The next route to this hop gets a new number, because readers may still hold this one.
            Some(hop) => self.ids.remove(&hop).is_some(),
            None => false,
        }
    }

    /// Makes a released number available again.
    pub(crate) fn free(&mut self, id: HopId) {
        self.free.push(id);
    }

    /// Whether numbers were allocated that readers cannot look up until they see a [grown](Hops::grow) table.
    pub(crate) fn has_outgrown(&self) -> bool {
        self.limit() > self.shared.capacity()
    }

    /// Makes a table that has room for all numbers.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn grow(&mut self) -> Result<(), Error<A>> {
        let table = HopTable::new(self.limit().next_power_of_two() as usize * 2)?;
        for (id, entry) in (0..).zip(&self.uses) {
            if entry.routes > 0 {
                table.set(HopId(id), entry.hop);
            }
        }
        self.shared = Arc::new(table);
        Ok(())
    }

    /// Bytes of memory in use, on both sides.
    pub(crate) fn memory(&self) -> usize {
        self.shared.entries.len() * size_of::<A::Cell>()
            + self.uses.capacity() * size_of::<Use<A>>()
            + self.ids.capacity() * (size_of::<(Hop<A>, HopId)>() + 1)
            + self.free.capacity() * size_of::<HopId>()
    }

    fn uses_of(&mut self, id: HopId, change: impl FnOnce(&mut Use<A>)) {
        if let Some(entry) = self.uses.get_mut(id.0 as usize) {
            change(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::lookup::routes::route::MAX_PORT;

    fn hop(port: u32) -> Hop {
        Hop { gateway: Ipv4Addr::new(10, 0, 0, 1), port }
    }

    #[test]
    fn a_number_is_shared_and_reused_only_when_freed() {
        let mut hops = Hops::new().unwrap();
        let one = hops.acquire(hop(1)).unwrap();
        assert_eq!(hops.acquire(hop(1)).unwrap(), one);
        assert_eq!((hops.get(one), hops.shared().get(one)), (Some(hop(1)), Some(hop(1))));
        assert!(!hops.release(one));
        assert!(hops.release(one));
        assert_eq!(hops.get(one), None);
        assert_eq!(hops.shared().get(one), Some(hop(1)), "readers may still hold it");

        let again = hops.acquire(hop(1)).unwrap();
        assert_ne!(again, one);
        hops.free(one);
        assert_eq!(hops.acquire(hop(2)).unwrap(), one);
        assert_eq!(hops.shared().get(HopId::NONE), None);
    }

    #[test]
    fn more_hops_than_the_table_holds_make_it_grow() {
        let mut hops = Hops::new().unwrap();
        let ids: Vec<_> = (0..1000).map(|port| hops.acquire(hop(port)).unwrap()).collect();
        assert!(hops.has_outgrown());
        hops.grow().unwrap();
        assert!(!hops.has_outgrown());
        for (port, id) in (0..).zip(ids) {
            assert_eq!(hops.shared().get(id), Some(hop(port)));
        }
    }

    #[test]
    fn the_largest_port_is_kept() {
        let mut hops = Hops::new().unwrap();
        let id = hops.acquire(hop(MAX_PORT)).unwrap();
        assert_eq!(hops.shared().get(id), Some(hop(MAX_PORT)));
    }
}

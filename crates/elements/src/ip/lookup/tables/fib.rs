//! The structures in which forwarding threads look up addresses, and how they follow the routes.

use std::net::Ipv4Addr;

use super::hops::HopId;
use super::rib::Rib;
use crate::ip::lookup::routes::address::Address;
use crate::ip::lookup::routes::error::Error;
use crate::ip::lookup::routes::route::Prefix;

/// A forwarding structure, which finds the longest prefix that contains an address.
///
/// A thread holds it for the duration of a batch. Most of it may be shared with other views of the same table, and may
/// be changed in place meanwhile.
pub trait Fib<A: Address = Ipv4Addr>: Send + Sync + 'static {
    /// The hop of the longest prefix that contains an address.
    fn lookup(&self, address: A::Bits) -> HopId;

    /// Looks up many addresses. Stops at the end of the shorter slice.
    fn lookup_batch(&self, addresses: &[A::Bits], hops: &mut [HopId]) {
        for (hop, &address) in hops.iter_mut().zip(addresses) {
            *hop = self.lookup(address);
        }
    }
}

/// The one writer of a forwarding structure.
pub trait FibWriter<A: Address = Ipv4Addr>: Send + Sized + 'static {
    /// The structure that it writes.
    type Fib: Fib<A>;

    /// Starts with no routes.
    ///
    /// # Errors
    /// There is not enough memory.
    fn new() -> Result<Self, Error<A>>;

    /// The structure as it is now, for readers.
    fn fib(&self) -> Self::Fib;

    /// Rebuilds the structure from all routes, beside the one that readers use.
    ///
    /// # Errors
    /// There is not enough memory; the structure is unchanged.
    fn rebuild(&mut self, routes: Routes<'_, A>) -> Result<(), Error<A>>;

    /// Applies changes to the structure. Changes that readers may see before the next [`Readers::publish`] are made in
    /// the order given, so that each address goes directly from its old hop to its new one.
    ///
    /// # Errors
    /// There is not enough memory; the structure is unchanged.
    fn update(
        &mut self,
        routes: Routes<'_, A>,
        changes: &[Change<A>],
        readers: &mut dyn Readers<Self::Fib>,
    ) -> Result<(), Error<A>>;

    /// Makes parts that were [retired](Readers::retire) available for reuse.
    fn reuse(&mut self, _parts: &[Part]) {}

    /// Bytes of memory in use by the structure, including the writer's notes.
    fn memory(&self) -> usize;
}

/// The readers of a structure, as its writer sees them.
pub trait Readers<F> {
    /// Makes the structure available to new readers.
    fn publish(&mut self, fib: F);

    /// Reports a part that new lookups no longer reach. It may be reused when lookups in progress have ended.
    fn retire(&mut self, part: Part);

    /// Discards the parts reported so far, because the structure that they belong to no longer exists.
    fn forget(&mut self);
}

/// The routes that a structure must hold.
#[derive(Clone, Copy)]
pub struct Routes<'a, A: Address = Ipv4Addr> {
    pub(crate) rib: &'a Rib<A>,
    /// One more than the highest number of a hop.
    pub(crate) hop_limit: u32,
}

/// The number of a part of a structure; each structure defines its parts.
pub type Part = u32;

/// What happened to the route of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<A: Address = Ipv4Addr> {
    pub(crate) prefix: Prefix<A>,
    /// [`HopId::NONE`] when the route is new.
    pub(crate) old: HopId,
    /// [`HopId::NONE`] when the route is removed.
    pub(crate) new: HopId,
}

impl<A: Address> Change<A> {
    /// The position of the change in its transaction: first the additions and replacements, from the longest prefix to
    /// the shortest, then the removals, from the shortest to the longest.
    ///
    /// In this order every address changes its hop at most once. Consider the longest prefix that contains an address,
    /// among all that exist before or after. If it is added or replaced, that is the first change that affects the
    /// address, and also the last. If it stays, no change affects the address. If it is removed, it hides all other
    /// changes until its removal, which is the last of them, and the hop found after that is final.
    pub(crate) fn rank(&self) -> (bool, u8, Prefix<A>) {
        let length = self.prefix.length();
        match self.new.is_none() {
            false => (false, A::LENGTH - length, self.prefix),
            true => (true, length, self.prefix),
        }
    }
}

/// The entries of an expanded table that a change affects, by the length of the prefix that each entry comes from, and
/// their new value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repaint {
    owners: (u8, u8),
    /// The new hop of the entries.
    pub(crate) hop: HopId,
    /// The length of the prefix that this hop comes from.
    pub(crate) length: u8,
}

impl Repaint {
    /// The effect of a change on the entries in its network's range. Entries of longer prefixes stay. A removed route
    /// is replaced by the route of the network around it.
    pub(crate) fn of(change: &Change, rib: &Rib) -> Repaint {
        let own = change.prefix.length();
        if change.new.is_none() {
            let (length, hop) = rib.cover(change.prefix).unwrap_or_default();
            Repaint { owners: (own, own), hop, length }
        } else {
            Repaint { owners: (0, own), hop: change.new, length: own }
        }
    }

    /// Whether the change affects an entry that comes from a prefix of this length.
    #[inline]
    pub(crate) fn takes(&self, owner: u8) -> bool {
        self.owners.0 <= owner && owner <= self.owners.1
    }
}

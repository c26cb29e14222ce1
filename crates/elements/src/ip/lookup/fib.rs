//! What forwarding threads look addresses up in, and how it follows the routes.

use std::net::Ipv4Addr;

use super::address::Address;
use super::error::Error;
use super::hops::HopId;
use super::rib::Rib;
use super::route::Prefix;

/// A forwarding structure: the longest prefix that holds an address, by whatever means.
///
/// This is what a thread holds for the length of a batch. The bulk of it may be shared with other
/// views of the same table and be changed in place meanwhile.
pub trait Fib<A: Address = Ipv4Addr>: Send + Sync + 'static {
    /// The hop of the longest prefix that holds an address.
    fn lookup(&self, address: A::Bits) -> HopId;

    /// Looks up many addresses; as many results are written as there are addresses or room.
    fn lookup_batch(&self, addresses: &[A::Bits], hops: &mut [HopId]) {
        for (hop, &address) in hops.iter_mut().zip(addresses) {
            *hop = self.lookup(address);
        }
    }
}

/// The one writer of a forwarding structure.
pub trait FibWriter<A: Address = Ipv4Addr>: Send + Sized + 'static {
    /// What it writes.
    type Fib: Fib<A>;

    /// Starts with no routes.
    ///
    /// # Errors
    /// There is not enough memory.
    fn new() -> Result<Self, Error<A>>;

    /// The structure as it is now, for readers.
    fn fib(&self) -> Self::Fib;

    /// Makes the structure anew from all routes, beside the one that readers have.
    ///
    /// # Errors
    /// There is not enough memory; the structure is as it was.
    fn rebuild(&mut self, routes: Routes<'_, A>) -> Result<(), Error<A>>;

    /// Brings the structure up to date. Changes that readers may see before the next
    /// [`Readers::publish`] are made in the order given: then each address goes from its old hop to
    /// its new one directly.
    ///
    /// # Errors
    /// There is not enough memory; the structure is as it was.
    fn update(
        &mut self,
        routes: Routes<'_, A>,
        changes: &[Change<A>],
        readers: &mut dyn Readers<Self::Fib>,
    ) -> Result<(), Error<A>>;

    /// Allows parts that were [retired](Readers::retire) to be used again.
    fn reuse(&mut self, _parts: &[Part]) {}

    /// Bytes of memory in use by the structure, the writer's notes included.
    fn memory(&self) -> usize;
}

/// The readers of a structure, as its writer sees them.
pub trait Readers<F> {
    /// Gives the structure to readers that come from now on.
    fn publish(&mut self, fib: F);

    /// Names a part that new lookups no longer reach: it may be used again when those under way
    /// have ended.
    fn retire(&mut self, part: Part);

    /// Forgets the parts named so far: they belong to a structure that is no more.
    fn forget(&mut self);
}

/// The routes that a structure must hold.
#[derive(Clone, Copy)]
pub struct Routes<'a, A: Address = Ipv4Addr> {
    pub(crate) rib: &'a Rib<A>,
    /// One more than the highest number of a hop.
    pub(crate) hop_limit: u32,
}

/// The number of a part of a structure, whatever it calls so.
pub type Part = u32;

/// What has become of the route of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<A: Address = Ipv4Addr> {
    pub(crate) prefix: Prefix<A>,
    /// [`HopId::NONE`] when the route is new.
    pub(crate) old: HopId,
    /// [`HopId::NONE`] when it is gone.
    pub(crate) new: HopId,
}

impl<A: Address> Change<A> {
    /// Where the change stands among those of one transaction: what is added or replaced from the
    /// longest prefix to the shortest, then what is removed from the shortest to the longest.
    ///
    /// In this order every address changes its hop at most once. Take the longest prefix that holds
    /// an address among all that are there before or after. If it is added or replaced, it is the
    /// first change of the additions that shows, and it is the address's last. If it stays, nothing
    /// shows. If it is removed, it hides all other changes until it goes as the last of them, and
    /// what then shows is final.
    pub(super) fn rank(&self) -> (bool, u8, Prefix<A>) {
        let length = self.prefix.length();
        match self.new.is_none() {
            false => (false, A::LENGTH - length, self.prefix),
            true => (true, length, self.prefix),
        }
    }
}

/// Which entries of an expanded table a change concerns, by the length of the prefix that each
/// entry comes from, and what they become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repaint {
    owners: (u8, u8),
    /// The hop that the entries get.
    pub(super) hop: HopId,
    /// The length of the prefix that it comes from.
    pub(super) length: u8,
}

impl Repaint {
    /// What a change does to the entries in its network's range. Entries of longer prefixes stay.
    /// Where a route is gone, that of the network around it shows again.
    pub(super) fn of(change: &Change, rib: &Rib) -> Repaint {
        let own = change.prefix.length();
        if change.new.is_none() {
            let (length, hop) = rib.cover(change.prefix).unwrap_or_default();
            Repaint { owners: (own, own), hop, length }
        } else {
            Repaint { owners: (0, own), hop: change.new, length: own }
        }
    }

    /// Whether an entry that comes from a prefix of this length is concerned.
    #[inline]
    pub(super) fn takes(&self, owner: u8) -> bool {
        self.owners.0 <= owner && owner <= self.owners.1
    }
}

//! DIR-24-8: one memory access for most addresses, two for the others.
//!
//! Source: P. Gupta, S. Lin, N. McKeown, "Routing Lookups in Hardware at Memory Access Speeds", IEEE Infocom 1998. The
//! first table has an entry for each of the 2^24 networks of 24 bits. The entry holds a hop or, where there are longer
//! prefixes, the number of a group of 256 entries, one for each address.
//!
//! # Two widths
//! Entries of 16 bits halve the first table to 32 MiB: at 512,000 routes and random addresses a
//! lookup in a batch took 11 ns against 17 ns with 32 bits, and 1.4 ns against 2.6 ns where
//! addresses keep to 2,000 networks of 16 bits (Xeon virtual machine, 4 KiB pages). Sixteen bits can
//! name 32,767 hops and 32,768 groups. A table that needs more is rebuilt with 32 bits.
//!
//! # Changes in place
//! For each entry, the writer keeps the length of the prefix that it comes from. So it knows which entries a new route
//! may overwrite, and which ones belong to a removed route. A change is one store per entry, and readers need no lock.
//!
//! Entries that the default route would fill stay zero, so that the system allocates no memory for networks without
//! routes. The default route's hop is stored beside the tables. A reader with an old entry and the new default could
//! find a hop that the address never had. So where an entry is zero, a reader loads the default before and after the
//! entry, until both are the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering, fence};

use millrace_core::isa;
use millrace_core::memory::prefer_huge_pages;
use zerocopy::FromZeros;

use super::entry::Entry;
use super::fib::{Change, Fib, FibWriter, Part, Readers, Repaint, Routes};
use super::hops::HopId;
use super::memory::zeroed;
use super::rib::Rib;
use crate::ip::lookup::routes::error::Error;
use crate::ip::lookup::routes::route::Prefix;

/// Entries of the first table.
const FIRST: usize = 1 << 24;

/// Entries of a group.
const GROUP: usize = 256;

/// The number of groups in a table of narrow entries: as many as its entries can name.
const NARROW_GROUPS: usize = 1 << 15;

/// The initial number of groups in a table of wide entries.
const WIDE_GROUPS: usize = 1 << 17;

/// The tables.
#[derive(Clone, Debug)]
pub struct Dir24x8 {
    tables: Arc<Width>,
}

/// The tables, with entries as wide as necessary.
#[derive(Debug)]
enum Width {
    Narrow(Tables<AtomicU16>),
    Wide(Tables<AtomicU32>),
}

impl Width {
    /// The hop of addresses whose entry is zero.
    fn default(&self) -> &AtomicU32 {
        match self {
            Self::Narrow(tables) => &tables.default,
            Self::Wide(tables) => &tables.default,
        }
    }
}

#[derive(Debug)]
struct Tables<E> {
    first: Box<[E; FIRST]>,
    groups: Box<[[E; GROUP]]>,
    /// The hop of addresses whose entry is zero.
    default: AtomicU32,
}

impl<E: Entry> Tables<E> {
    fn new(groups: usize) -> Result<Self, Error> {
        let first = <[E; FIRST]>::new_box_zeroed().map_err(|_| Error::NoMemory)?;
        prefer_huge_pages(&*first);
        Ok(Self { first, groups: zeroed(groups)?, default: AtomicU32::new(0) })
    }

    #[inline(always)]
    fn first(&self, address: u32) -> u32 {
        self.first[(address >> 8) as usize].load()
    }

    /// The hop that an entry of the first table leads to; 0 for the default.
    #[inline(always)]
    fn resolve(&self, mut entry: u32, address: u32) -> u32 {
        if entry & E::MARK != 0 {
            let group = self.groups.get((entry & !E::MARK) as usize);
            entry = group.map_or(0, |group| group[(address & 0xff) as usize].load());
        }
        entry
    }

    #[inline(always)]
    fn lookup(&self, address: u32) -> HopId {
        let entry = self.first(address);
        // The group of an entry was written before the entry.
        fence(Ordering::Acquire);
        match self.resolve(entry, address) {
            0 => self.lookup_with_default(address),
            hop => HopId(hop),
        }
    }

    #[inline]
    fn lookup_with_default(&self, address: u32) -> HopId {
        loop {
            let default = self.default.load(Ordering::Acquire);
            let entry = self.first(address);
            // The group of an entry was written before the entry.
            fence(Ordering::Acquire);
            match self.resolve(entry, address) {
                0 => {}
                hop => return HopId(hop),
            }
            fence(Ordering::Acquire);
            if self.default.load(Ordering::Relaxed) == default {
                return HopId(default);
            }
        }
    }

    #[inline(always)]
    fn lookup_batch(&self, addresses: &[u32], hops: &mut [HopId]) {
        // The lookups are independent, so that the processor can have many cache misses in flight at once.
        for (hop, &address) in hops.iter_mut().zip(addresses) {
            hop.0 = self.first(address);
        }
        // The group of an entry was written before the entry.
        fence(Ordering::Acquire);
        for (addresses, hops) in addresses.chunks(LANES).zip(hops.chunks_mut(LANES)) {
            // Few networks contain longer prefixes; the others are handled with vector instructions.
            if hops.iter().fold(0, |any, hop| any | hop.0) & E::MARK != 0 {
                for (hop, &address) in hops.iter_mut().zip(addresses) {
                    hop.0 = self.resolve(hop.0, address);
                }
            }
            for (hop, &address) in hops.iter_mut().zip(addresses) {
                if hop.is_none() {
                    *hop = self.lookup(address);
                }
            }
        }
    }
}

/// The number of entries tested together.
const LANES: usize = 16;

impl Fib for Dir24x8 {
    #[inline(always)]
    fn lookup(&self, address: u32) -> HopId {
        match &*self.tables {
            Width::Narrow(tables) => tables.lookup(address),
            Width::Wide(tables) => tables.lookup(address),
        }
    }

    #[inline]
    fn lookup_batch(&self, addresses: &[u32], hops: &mut [HopId]) {
        isa::run(
            #[inline(always)]
            || match &*self.tables {
                Width::Narrow(tables) => tables.lookup_batch(addresses, hops),
                Width::Wide(tables) => tables.lookup_batch(addresses, hops),
            },
        );
    }
}

/// The writer of [`Dir24x8`].
#[derive(Debug)]
pub struct Dir24x8Writer {
    fib: Dir24x8,
    notes: Notes,
}

/// The writer's notes on the entries.
#[derive(Debug)]
struct Notes {
    /// For each entry of the first table, the length of the prefix that it comes from, or
    /// [`IN_GROUP`]; 0 where the entry is zero.
    owners: Box<[u8]>,
    /// Notes for each group ever used.
    groups: Vec<GroupNotes>,
    free: Vec<Part>,
    /// Groups that new lookups no longer reach.
    left: Vec<Part>,
}

#[derive(Debug)]
struct GroupNotes {
    owners: [u8; GROUP],
    /// The number of routes of more than 24 bits. The group exists as long as there are any.
    routes: u32,
}

const IN_GROUP: u8 = u8::MAX;

impl Notes {
    /// Makes one change, which is not of the default route.
    fn change<E: Entry>(&mut self, tables: &Tables<E>, change: &Change, rib: &Rib) {
        let mut paint = Repaint::of(change, rib);
        if paint.length == 0 {
            paint.hop = HopId::NONE;
        }
        match change.prefix.length() {
            0..=24 => self.paint_first(tables, change.prefix, paint),
            25.. => self.paint_group(tables, change, paint),
        }
    }

    fn paint_first<E: Entry>(&mut self, tables: &Tables<E>, prefix: Prefix, paint: Repaint) {
        let range = (prefix.first() >> 8) as usize..=(prefix.last() >> 8) as usize;
        let owners = self.owners.get_mut(range.clone()).unwrap_or_default();
        for (owner, entry) in owners.iter_mut().zip(&tables.first[range]) {
            if *owner == IN_GROUP {
                let group = (entry.load() & !E::MARK) as usize;
                if let (Some(notes), Some(entries)) =
                    (self.groups.get_mut(group), tables.groups.get(group))
                {
                    paint_all(&mut notes.owners, entries, paint);
                }
            } else if paint.takes(*owner) {
                entry.store(paint.hop.0);
                *owner = paint.length;
            }
        }
    }

    fn paint_group<E: Entry>(&mut self, tables: &Tables<E>, change: &Change, paint: Repaint) {
        let prefix = change.prefix;
        let index = (prefix.first() >> 8) as usize;
        let entry = &tables.first[index];
        let Some(owner) = self.owners.get(index).copied() else { return };
        let group = match owner {
            IN_GROUP => entry.load() & !E::MARK,
            owner => self.new_group(tables, entry.load(), owner),
        };
        let (Some(notes), Some(entries)) =
            (self.groups.get_mut(group as usize), tables.groups.get(group as usize))
        else {
            return;
        };
        let range = (prefix.first() & 0xff) as usize..=(prefix.last() & 0xff) as usize;
        paint_all(&mut notes.owners[range.clone()], &entries[range], paint);
        notes.routes += u32::from(change.old.is_none());
        notes.routes -= u32::from(change.new.is_none()).min(notes.routes);
        let (routes, rest) = (notes.routes, (entries[0].load(), notes.owners[0]));
        if routes == 0 {
            // All entries belong to the one remaining prefix, which has at most 24 bits.
            entry.store(rest.0);
            self.set_owner(index, rest.1);
            self.left.push(group);
        } else if owner != IN_GROUP {
            entry.store(group | E::MARK);
            self.set_owner(index, IN_GROUP);
        }
    }

    /// Fills a group that no reader reaches yet with the hop that all of its addresses had.
    fn new_group<E: Entry>(&mut self, tables: &Tables<E>, hop: u32, owner: u8) -> Part {
        let notes = GroupNotes { owners: [owner; GROUP], routes: 0 };
        let group = match self.free.pop() {
            Some(group) => {
                if let Some(slot) = self.groups.get_mut(group as usize) {
                    *slot = notes;
                }
                group
            }
            None => {
                self.groups.push(notes);
                self.groups.len() as Part - 1
            }
        };
        for entry in tables.groups.get(group as usize).into_iter().flatten() {
            entry.store(hop);
        }
        group
    }

    fn set_owner(&mut self, index: usize, length: u8) {
        if let Some(owner) = self.owners.get_mut(index) {
            *owner = length;
        }
    }
}

fn paint_all<E: Entry>(owners: &mut [u8], entries: &[E], paint: Repaint) {
    for (owner, entry) in owners.iter_mut().zip(entries) {
        if paint.takes(*owner) {
            entry.store(paint.hop.0);
            *owner = paint.length;
        }
    }
}

impl FibWriter for Dir24x8Writer {
    type Fib = Dir24x8;

    fn new() -> Result<Self, Error> {
        let tables = Tables::new(NARROW_GROUPS)?;
        let tables = Arc::new(Width::Narrow(tables));
        Ok(Self { fib: Dir24x8 { tables }, notes: Notes::new()? })
    }

    fn fib(&self) -> Dir24x8 {
        self.fib.clone()
    }

    fn rebuild(&mut self, routes: Routes<'_>) -> Result<(), Error> {
        let mut groups: Vec<u32> = routes
            .rib
            .iter()
            .filter(|(prefix, _)| prefix.length() > 24)
            .map(|(prefix, _)| prefix.first() >> 8)
            .collect();
        groups.dedup();
        let (tables, notes) =
            if routes.hop_limit <= AtomicU16::MARK && groups.len() <= NARROW_GROUPS {
                let tables = Tables::new(NARROW_GROUPS)?;
                let notes = Notes::of(&tables, routes)?;
                (Width::Narrow(tables), notes)
            } else {
                // Leave room for twice as many groups, to avoid another rebuild soon.
                let tables = Tables::new(WIDE_GROUPS.max(groups.len() * 2))?;
                let notes = Notes::of(&tables, routes)?;
                (Width::Wide(tables), notes)
            };
        let default = routes.rib.get(Prefix::DEFAULT).map_or(HopId::NONE, |entry| entry.hop);
        tables.default().store(default.0, Ordering::Release);
        self.fib = Dir24x8 { tables: Arc::new(tables) };
        self.notes = notes;
        Ok(())
    }

    fn update(
        &mut self,
        routes: Routes<'_>,
        changes: &[Change],
        readers: &mut dyn Readers<Dir24x8>,
    ) -> Result<(), Error> {
        let fits = match &*self.fib.tables {
            Width::Narrow(tables) => self.notes.fit(tables, routes, changes),
            Width::Wide(tables) => self.notes.fit(tables, routes, changes),
        };
        if !fits {
            self.rebuild(routes)?;
            readers.forget();
            readers.publish(self.fib());
            return Ok(());
        }
        for change in changes {
            if change.prefix == Prefix::DEFAULT {
                self.fib.tables.default().store(change.new.0, Ordering::Release);
                continue;
            }
            match &*self.fib.tables {
                Width::Narrow(tables) => self.notes.change(tables, change, routes.rib),
                Width::Wide(tables) => self.notes.change(tables, change, routes.rib),
            }
        }
        self.notes.left.drain(..).for_each(|group| readers.retire(group));
        Ok(())
    }

    fn reuse(&mut self, groups: &[Part]) {
        self.notes.free.extend_from_slice(groups);
    }

    fn memory(&self) -> usize {
        let entry = match &*self.fib.tables {
            Width::Narrow(_) => size_of::<AtomicU16>(),
            Width::Wide(_) => size_of::<AtomicU32>(),
        };
        FIRST * (entry + 1) + self.notes.groups.len() * (GROUP * entry + size_of::<GroupNotes>())
    }
}

impl Notes {
    fn new() -> Result<Notes, Error> {
        let owners = zeroed(FIRST)?;
        prefer_huge_pages(&owners);
        Ok(Notes { owners, groups: Vec::new(), free: Vec::new(), left: Vec::new() })
    }

    /// Fills empty tables. Networks come before those within them, so each may overwrite all entries in its range.
    fn of<E: Entry>(tables: &Tables<E>, routes: Routes<'_>) -> Result<Notes, Error> {
        let mut notes = Notes::new()?;
        for (prefix, entry) in routes.rib.iter().filter(|(prefix, _)| *prefix != Prefix::DEFAULT) {
            let change = Change { prefix, old: HopId::NONE, new: entry.hop };
            notes.change(tables, &change, routes.rib);
        }
        Ok(notes)
    }

    /// Whether there is room for the changes, even if each long prefix needs a new group.
    fn fit<E: Entry>(&self, tables: &Tables<E>, routes: Routes<'_>, changes: &[Change]) -> bool {
        let needs_group = |change: &&Change| change.prefix.length() > 24 && !change.new.is_none();
        let groups = changes.iter().filter(needs_group).count();
        let free = self.free.len() + (tables.groups.len() - self.groups.len());
        routes.hop_limit <= E::MARK && groups <= free
    }
}

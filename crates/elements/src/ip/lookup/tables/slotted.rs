//! How structures with a directory are kept up to date with the routes.
//!
//! Such a structure divides the addresses into slots of equal size and has a directory with an entry for each slot. An
//! entry holds the common hop of all addresses in the slot, or leads to a part of the structure built for this slot
//! alone. A change of a route builds new parts for the slots that it touches, beside the old ones, and then stores the
//! entries. So each address goes directly from its old hop to its new one, and a part is never written while a reader
//! may be in it.

use std::sync::atomic::AtomicU32;

use super::entry::Entry;
use super::fib::{Change, Fib, FibWriter, Part, Readers, Routes};
use super::rib::Rib;
use super::sweep::{Range, sweep};
use crate::ip::lookup::routes::error::Error;

/// A structure with a directory, and its writer's notes.
pub trait Slotted: Send + Sized + 'static {
    /// The structure that readers use.
    type Fib: Fib;

    /// The base-2 logarithm of the number of slots.
    const SLOT_BITS: u8;

    /// An empty structure with room for about this many routes, to hops with numbers below a limit.
    ///
    /// # Errors
    /// There is not enough memory.
    fn with_room(routes: usize, hop_limit: u32) -> Result<Self, Error>;

    /// Whether entries can hold hop numbers below the limit.
    fn fits(&self, hop_limit: u32) -> bool;

    /// The entries of the slots: the number of a hop, or [`PART`] and the number of a part.
    fn directory(&self) -> &[AtomicU32];

    /// Builds a part from two or more ranges; `None` when there is no room.
    fn make(&mut self, ranges: &[Range]) -> Option<Part>;

    /// Frees a part that is no longer needed.
    fn free(&mut self, part: Part);

    /// The structure for readers.
    fn fib(&self) -> Self::Fib;

    /// Bytes of memory in use.
    fn memory(&self) -> usize;
}

/// Marks an entry of a directory that holds the number of a part.
pub(super) const PART: u32 = 1 << 31;

/// The writer of a structure with a directory.
#[derive(Debug)]
pub struct SlotWriter<S> {
    structure: S,
}

/// If a change touches more than one slot in this many, rebuilding the whole structure is faster.
const MANY: u32 = 8;

/// The minimum number of routes that there is room for.
const FEW: usize = 1 << 12;

impl<S: Slotted> FibWriter for SlotWriter<S> {
    type Fib = S::Fib;

    fn new() -> Result<Self, Error> {
        S::with_room(FEW, 0).map(|structure| Self { structure })
    }

    fn fib(&self) -> S::Fib {
        self.structure.fib()
    }

    fn rebuild(&mut self, routes: Routes<'_>) -> Result<(), Error> {
        // Leave room for twice as many routes, to avoid another rebuild soon.
        let mut room = FEW.max(routes.rib.len() * 2);
        loop {
            let mut new = Self { structure: S::with_room(room, routes.hop_limit)? };
            let mut done = Some(());
            sweep(routes.rib, S::SLOT_BITS, (0, last_slot::<S>()), |slots, ranges| {
                done = done.and_then(|()| new.set(slots, ranges, |_, _| ()));
            });
            if done.is_some() {
                *self = new;
                return Ok(());
            }
            room *= 2;
        }
    }

    fn update(
        &mut self,
        routes: Routes<'_>,
        changes: &[Change],
        readers: &mut dyn Readers<S::Fib>,
    ) -> Result<(), Error> {
        let runs = touched(changes, 32 - u32::from(S::SLOT_BITS));
        let slots: u32 = runs.iter().map(|(first, last)| last - first + 1).sum();
        let few = slots <= last_slot::<S>() / MANY && self.structure.fits(routes.hop_limit);
        let mut former = Vec::new();
        let mut remake = |run: &_| self.remake(routes.rib, *run, &mut former).is_some();
        if few && runs.iter().all(&mut remake) {
            let parts = former.iter().map(|(_, entry)| entry).filter(|entry| *entry & PART != 0);
            parts.for_each(|part| readers.retire(part & !PART));
            return Ok(());
        }
        if let Err(error) = self.rebuild(routes) {
            // The next rebuild reclaims the parts built in vain.
            for &(slot, entry) in former.iter().rev() {
                self.swap(slot, entry);
            }
            return Err(error);
        }
        readers.forget();
        readers.publish(self.fib());
        Ok(())
    }

    fn reuse(&mut self, parts: &[Part]) {
        parts.iter().for_each(|&part| self.structure.free(part));
    }

    fn memory(&self) -> usize {
        self.structure.memory()
    }
}

impl<S: Slotted> SlotWriter<S> {
    /// Rebuilds a run of slots and records their former entries; `None` when there is no room.
    fn remake(&mut self, rib: &Rib, run: (u32, u32), former: &mut Vec<(u32, u32)>) -> Option<()> {
        let mut done = Some(());
        sweep(rib, S::SLOT_BITS, run, |slots, ranges| {
            let note = |slot, entry| former.push((slot, entry));
            done = done.and_then(|()| self.set(slots, ranges, note));
        });
        done
    }

    /// Rebuilds slots that have the same ranges and reports their former entries; `None` when there is no room.
    fn set(
        &mut self,
        (first, last): (u32, u32),
        ranges: &[Range],
        mut former: impl FnMut(u32, u32),
    ) -> Option<()> {
        let entry = match ranges {
            [Range { hop, .. }] => hop.0,
            ranges => self.structure.make(ranges)? | PART,
        };
        (first..=last).for_each(|slot| former(slot, self.swap(slot, entry)));
        Some(())
    }

    /// Stores an entry and returns the former one.
    fn swap(&self, slot: u32, entry: u32) -> u32 {
        // There is only one writer, so the loaded value is the one that it stored last.
        self.structure.directory().get(slot as usize).map_or(0, |place| {
            let former = Entry::load(place);
            if former != entry {
                Entry::store(place, entry);
            }
            former
        })
    }
}

fn last_slot<S: Slotted>() -> u32 {
    (1 << S::SLOT_BITS) - 1
}

/// The runs of slots that the changes touch, in order; each is given by its first and last slot.
fn touched(changes: &[Change], shift: u32) -> Vec<(u32, u32)> {
    let run = |change: &Change| (change.prefix.first() >> shift, change.prefix.last() >> shift);
    let mut all: Vec<_> = changes.iter().map(run).collect();
    all.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::with_capacity(all.len());
    for (first, last) in all {
        match runs.last_mut() {
            Some(run) if first <= run.1 + 1 => run.1 = run.1.max(last),
            _ => runs.push((first, last)),
        }
    }
    runs
}

//! A radix trie: eight bits of the address, then four at a time, at most seven steps.
//!
//! The shape is that of Click's RadixIPLookup. A slot of a node holds a hop and a child. The hop of an address is the
//! last one on its way down. The owner of each slot is the length of the prefix that its hop comes from. It tells the
//! writer which slots a new route may overwrite, and which ones a removed route returns to the next shorter one in the
//! same node.
//!
//! # Changes beside readers
//! A lookup reads several nodes and must not combine nodes from before and after a change. So the writer never changes
//! nodes that readers have. It copies the nodes on the way from the root to a change, and publishes the new root when
//! all changes of a transaction are made. The replaced nodes are reused when no reader has the old root any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::fib::{Change, Fib, FibWriter, Part, Readers, Repaint, Routes};
use super::hops::HopId;
use super::memory::zeroed;
use crate::ip::lookup::routes::error::Error;
use crate::ip::lookup::routes::route::Prefix;

/// Slots of the root.
const ROOT: usize = 256;

/// Slots of any other node.
const NODE: usize = 16;

/// The shift that turns an address into an index, for each level of nodes below the root.
const SHIFTS: [u32; 6] = [20, 16, 12, 8, 4, 0];

/// The initial capacity of a trie, in nodes.
const FIRST_CAPACITY: usize = 1 << 12;

/// The trie.
#[derive(Clone, Debug)]
pub struct Radix {
    root: Box<[Slot; ROOT]>,
    /// Node 0 stays empty: as a child, it means "none". The box leaves unused nodes unwritten, so that they need no
    /// memory; an [`Arc`] of the array would copy them.
    nodes: Arc<Box<[[AtomicU64; NODE]]>>,
    /// The hop of addresses for which no slot has a hop.
    default: HopId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    hop: HopId,
    child: Part,
}

impl Slot {
    #[inline(always)]
    fn load(word: &AtomicU64) -> Slot {
        let word = word.load(Relaxed);
        Slot { hop: HopId((word >> 32) as u32), child: word as u32 }
    }

    fn store(self, word: &AtomicU64) {
        word.store(u64::from(self.hop.0) << 32 | u64::from(self.child), Relaxed);
    }
}

impl Radix {
    fn new(capacity: usize) -> Result<Radix, Error> {
        let nodes = Arc::new(zeroed(capacity)?);
        Ok(Radix { root: Box::new([Slot::default(); ROOT]), nodes, default: HopId::NONE })
    }

    #[inline(always)]
    fn root(&self, address: u32) -> Slot {
        self.root[(address >> 24) as usize]
    }

    #[inline(always)]
    fn slot(&self, node: Part, index: u32) -> Slot {
        let node = self.nodes.get(node as usize);
        node.map_or(Slot::default(), |node| Slot::load(&node[index as usize % NODE]))
    }
}

impl Fib for Radix {
    #[inline]
    fn lookup(&self, address: u32) -> HopId {
        let mut slot = self.root(address);
        let mut best = if slot.hop.is_none() { self.default } else { slot.hop };
        for shift in SHIFTS {
            if slot.child == 0 {
                break;
            }
            slot = self.slot(slot.child, address >> shift);
            if !slot.hop.is_none() {
                best = slot.hop;
            }
        }
        best
    }

    fn lookup_batch(&self, addresses: &[u32], hops: &mut [HopId]) {
        /// The number of lookups that descend together, so that their cache misses overlap.
        const LANES: usize = 16;

        for (addresses, hops) in addresses.chunks(LANES).zip(hops.chunks_mut(LANES)) {
            let mut children = [0; LANES];
            for ((best, child), &address) in hops.iter_mut().zip(&mut children).zip(addresses) {
                let slot = self.root(address);
                *best = if slot.hop.is_none() { self.default } else { slot.hop };
                *child = slot.child;
            }
            for shift in SHIFTS {
                if children == [0; LANES] {
                    break;
                }
                for ((best, child), &address) in hops.iter_mut().zip(&mut children).zip(addresses) {
                    let slot = self.slot(*child, address >> shift);
                    if !slot.hop.is_none() {
                        *best = slot.hop;
                    }
                    *child = slot.child;
                }
            }
        }
    }
}

/// The writer of [`Radix`].
#[derive(Debug)]
pub struct RadixWriter {
    /// The trie as readers have it, or will have it after the current transaction.
    trie: Radix,
    /// For each slot of the root, the length of the prefix that its hop comes from; 0 if it has none.
    root_owners: [u8; ROOT],
    /// Notes for each node that was ever used, and for node 0.
    notes: Vec<NodeNotes>,
    free: Vec<Part>,
    /// The number of the transaction, or [`BROKEN`].
    now: u32,
    /// Nodes replaced by this transaction.
    replaced: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeNotes {
    owners: [u8; NODE],
    /// The transaction that made the node. Only this transaction may write it, until it ends.
    made: u32,
}

/// Marks a trie that must be rebuilt.
const BROKEN: u32 = u32::MAX;

/// The steps from the root down to a node: for each node, the slot taken.
type Path = [(Part, usize); SHIFTS.len()];

impl RadixWriter {
    fn with_capacity(nodes: usize) -> Result<Self, Error> {
        Ok(Self {
            trie: Radix::new(nodes)?,
            root_owners: [0; ROOT],
            notes: vec![NodeNotes::default()],
            free: Vec::new(),
            now: 1,
            replaced: Vec::new(),
        })
    }

    /// Makes one change, only in nodes that no reader has; `None` when there is no room for their copies.
    fn change(&mut self, change: &Change, mut paint: Repaint) -> Option<()> {
        let prefix = change.prefix;
        let length = prefix.length();
        if length == 0 {
            self.trie.default = change.new;
            return Some(());
        }
        // A node of level n, where the root is level 0, holds prefixes of up to 8 + 4 n bits.
        let level = usize::from(length.saturating_sub(8).div_ceil(4));
        let longest = 8 + 4 * level as u8;
        let shorter = if level == 0 { 0 } else { longest - 4 };
        if paint.length <= shorter {
            // The next shorter prefix is in a node above this one.
            (paint.hop, paint.length) = (HopId::NONE, 0);
        }
        let count = 1 << (longest - length);
        if level == 0 {
            let start = (prefix.first() >> 24) as usize;
            let owners = self.root_owners.iter_mut().zip(self.trie.root.iter_mut());
            for (owner, slot) in owners.skip(start).take(count) {
                if paint.takes(*owner) {
                    slot.hop = paint.hop;
                    *owner = paint.length;
                }
            }
            return Some(());
        }
        let (node, path) = self.descend(prefix, level)?;
        let start = index(prefix, level);
        let notes = self.notes.get_mut(node as usize)?;
        let slots = self.trie.nodes.get(node as usize)?;
        for (owner, slot) in notes.owners.iter_mut().zip(slots).skip(start).take(count) {
            if paint.takes(*owner) {
                Slot { hop: paint.hop, ..Slot::load(slot) }.store(slot);
                *owner = paint.length;
            }
        }
        if change.new.is_none() {
            self.prune(node, &path, level);
        }
        Some(())
    }

    /// The writable node of a level that a prefix belongs to, and the path to it.
    fn descend(&mut self, prefix: Prefix, level: usize) -> Option<(Part, Path)> {
        let mut path = Path::default();
        let mut node = 0;
        for (depth, step) in path.iter_mut().enumerate().take(level) {
            let at = index(prefix, depth);
            *step = (node, at);
            let child = self.own(self.slot(depth, node, at).child)?;
            let slot = Slot { child, ..self.slot(depth, node, at) };
            self.set_slot(depth, node, at, slot);
            node = child;
        }
        Some((node, path))
    }

    /// A node that this transaction may write, with the slots of node `old`, which it replaces.
    fn own(&mut self, old: Part) -> Option<Part> {
        let notes = *self.notes.get(old as usize)?;
        if old != 0 && notes.made == self.now {
            return Some(old);
        }
        let notes = NodeNotes { made: self.now, ..notes };
        let node = match self.free.pop() {
            Some(node) => {
                *self.notes.get_mut(node as usize)? = notes;
                node
            }
            None if self.notes.len() == self.trie.nodes.len() => return None,
            None => {
                self.notes.push(notes);
                self.notes.len() as Part - 1
            }
        };
        let slots = self.trie.nodes.get(old as usize)?.iter();
        for (from, to) in slots.zip(self.trie.nodes.get(node as usize)?) {
            Slot::load(from).store(to);
        }
        if old != 0 {
            self.replaced.push(old);
        }
        Some(node)
    }

    /// Removes empty nodes from the end of a path. They belong to this transaction.
    fn prune(&mut self, mut node: Part, path: &Path, level: usize) {
        for (depth, &(parent, at)) in path.iter().enumerate().take(level).rev() {
            let slots = self.trie.nodes.get(node as usize).into_iter().flatten();
            if slots.map(Slot::load).any(|slot| slot != Slot::default()) {
                return;
            }
            let slot = Slot { child: 0, ..self.slot(depth, parent, at) };
            self.set_slot(depth, parent, at, slot);
            self.free.push(node);
            node = parent;
        }
    }

    fn slot(&self, depth: usize, node: Part, at: usize) -> Slot {
        match depth {
            0 => self.trie.root.get(at).copied().unwrap_or_default(),
            _ => self.trie.slot(node, at as u32),
        }
    }

    fn set_slot(&mut self, depth: usize, node: Part, at: usize, slot: Slot) {
        if depth == 0 {
            if let Some(place) = self.trie.root.get_mut(at) {
                *place = slot;
            }
        } else if let Some(word) = self.trie.nodes.get(node as usize).and_then(|node| node.get(at))
        {
            slot.store(word);
        }
    }

    /// Makes all changes; `None` when there is no room.
    fn change_all(
        &mut self,
        routes: Routes<'_>,
        changes: impl Iterator<Item = Change>,
    ) -> Option<()> {
        for change in changes {
            self.change(&change, Repaint::of(&change, routes.rib))?;
        }
        Some(())
    }
}

/// The slot of a node that a prefix leads to or starts in.
fn index(prefix: Prefix, depth: usize) -> usize {
    match depth.checked_sub(1).and_then(|below| SHIFTS.get(below)) {
        Some(shift) => (prefix.first() >> shift) as usize % NODE,
        None => (prefix.first() >> 24) as usize,
    }
}

impl FibWriter for RadixWriter {
    type Fib = Radix;

    fn new() -> Result<Self, Error> {
        Self::with_capacity(FIRST_CAPACITY)
    }

    fn fib(&self) -> Radix {
        self.trie.clone()
    }

    fn rebuild(&mut self, routes: Routes<'_>) -> Result<(), Error> {
        let mut capacity = FIRST_CAPACITY.max(routes.rib.len() / 2);
        loop {
            let mut writer = Self::with_capacity(capacity)?;
            let all = routes.rib.iter().map(|(prefix, entry)| Change {
                prefix,
                old: HopId::NONE,
                new: entry.hop,
            });
            let done = writer.change_all(routes, all);
            // Leave room for twice as many nodes, to avoid another rebuild soon.
            if done.is_some() && writer.notes.len() <= capacity / 2 {
                writer.now += 1;
                *self = writer;
                return Ok(());
            }
            capacity *= 2;
        }
    }

    fn update(
        &mut self,
        routes: Routes<'_>,
        changes: &[Change],
        readers: &mut dyn Readers<Radix>,
    ) -> Result<(), Error> {
        let broken = self.now == BROKEN;
        if broken || self.change_all(routes, changes.iter().copied()).is_none() {
            // No reader has seen the changes made so far. If there is no memory for a rebuild, no reader may see them
            // later either.
            self.now = BROKEN;
            self.rebuild(routes)?;
            readers.forget();
        }
        self.now += 1;
        self.replaced.drain(..).for_each(|node| readers.retire(node));
        readers.publish(self.fib());
        Ok(())
    }

    fn reuse(&mut self, nodes: &[Part]) {
        self.free.extend_from_slice(nodes);
    }

    fn memory(&self) -> usize {
        let node = NODE * size_of::<AtomicU64>() + size_of::<NodeNotes>();
        ROOT * (size_of::<Slot>() + 1) + self.notes.len() * node
    }
}

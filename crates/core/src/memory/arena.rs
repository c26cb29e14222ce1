//! The arena: the memory of all packets.
//!
//! One mapping for each NUMA node and size class. It uses huge pages if the system has any, and otherwise
//! ordinary pages, with a request for transparent huge pages; [`Arena::report`] tells which. A mapping is
//! divided into slots of equal stride. Slots are carved when first needed, so that unused memory is never
//! committed.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::class::SlotClass;
use super::descriptor::{Descriptor, Slot};
use super::mapping::{Mapping, PageKind};
use super::numa;
use crate::Lock;

/// The maximum number of slots of one class that a thread keeps.
pub(super) const MAGAZINE: usize = 512;

/// How many slots of each class the arena may hold, for all NUMA nodes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaConfig {
    /// Standard slots.
    pub standard: usize,
    /// Jumbo slots.
    pub jumbo: usize,
    /// Shells.
    pub shells: usize,
    /// NUMA nodes to divide them among; by default all of the machine's.
    pub nodes: Option<usize>,
}

impl Default for ArenaConfig {
    /// 65,536 standard slots (156 MiB), 1,024 jumbo slots (65 MiB), 65,536 shells (12 MiB).
    fn default() -> Self {
        // The interpreter keeps a shadow of every byte.
        ArenaConfig::from(if cfg!(miri) { 256 } else { 65_536 })
    }
}

impl From<usize> for ArenaConfig {
    /// This many standard slots, as many shells, and one jumbo slot for every 64 standard ones (at least 16).
    fn from(standard: usize) -> Self {
        ArenaConfig { standard, jumbo: (standard / 64).max(16), shells: standard, nodes: None }
    }
}

impl ArenaConfig {
    fn slots(&self, class: SlotClass) -> usize {
        match class {
            SlotClass::Standard => self.standard,
            SlotClass::Jumbo => self.jumbo,
            SlotClass::Shell => self.shells,
        }
    }
}

/// The arena has handed out slots already; its size can no longer be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the packet arena is in use already; its size must be chosen before the first packet")]
pub struct ArenaInUse;

/// The process's packet memory. There is one arena; it is created with the first packet.
#[derive(Debug)]
pub struct Arena {
    nodes: usize,
    /// `SlotClass::ALL` for node 0, then for node 1 and all further nodes.
    pools: Vec<Pool>,
}

static ARENA: OnceLock<Arena> = OnceLock::new();
static CONFIG: Lock<Option<ArenaConfig>> = Lock::new(None);

impl Arena {
    /// Chooses the arena's size (a number of standard slots, or an [`ArenaConfig`]).
    ///
    /// # Errors
    /// [`ArenaInUse`] when a packet was made already.
    pub fn configure(config: impl Into<ArenaConfig>) -> Result<(), ArenaInUse> {
        let mut chosen = CONFIG.lock();
        if ARENA.get().is_some() {
            return Err(ArenaInUse);
        }
        *chosen = Some(config.into());
        Ok(())
    }

    /// Whether a size was [chosen](Self::configure).
    pub fn is_chosen() -> bool {
        CONFIG.lock().is_some()
    }

    /// Bytes on each NUMA node when every slot is in use, and the number of slots with buffers. Does not create the
    /// arena.
    pub fn extent() -> (Vec<u64>, u64) {
        let config = CONFIG.lock().unwrap_or_default();
        let nodes = config.nodes.unwrap_or_else(numa::nodes).clamp(1, numa::MAX_NODES);
        // A free slot is an entry in a list.
        let slot = |class: SlotClass| class.stride() + size_of::<Slot>();
        let of_node = SlotClass::ALL.iter().fold(0u64, |sum, &class| {
            let slots = config.slots(class).div_ceil(nodes);
            sum.saturating_add(slots.saturating_mul(slot(class)) as u64)
        });
        (vec![of_node; nodes], (config.standard as u64).saturating_add(config.jumbo as u64))
    }

    /// The mapped memory, for registration with a device or the kernel (AF_XDP, CUDA).
    pub fn regions() -> Vec<Region> {
        Arena::get().pools.iter().filter_map(Pool::region).collect()
    }

    pub(super) fn get() -> &'static Arena {
        ARENA.get_or_init(|| {
            let config = CONFIG.lock().unwrap_or_default();
            Arena::new(config)
        })
    }

    fn new(config: ArenaConfig) -> Arena {
        let online = numa::nodes();
        let nodes = config.nodes.unwrap_or(online).clamp(1, numa::MAX_NODES);
        let mut pools = Vec::with_capacity(nodes * SlotClass::ALL.len());
        for node in 0..nodes {
            for class in SlotClass::ALL {
                let slots = config.slots(class).div_ceil(nodes);
                pools.push(Pool::new(class, node, slots, online > 1));
            }
        }
        Arena { nodes, pools }
    }

    /// The node itself; an unknown one counts as the first.
    pub(super) fn known_node(&self, node: usize) -> usize {
        if node < self.nodes { node } else { 0 }
    }

    /// The pool of a class on a node.
    pub(super) fn pool(&self, node: usize, class: SlotClass) -> Option<&Pool> {
        self.pools.get(self.known_node(node) * SlotClass::ALL.len() + class as usize)
    }

    pub(super) fn pools(&self) -> &[Pool] {
        &self.pools
    }
}

/// A mapping and the layout of its slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The class of its slots.
    pub class: SlotClass,
    /// The NUMA node that the memory was requested from.
    pub node: usize,
    /// The first byte, aligned to 2 MiB.
    pub base: NonNull<u8>,
    /// Bytes mapped.
    pub len: usize,
    /// Bytes from one slot to the next; the first one starts at `base`.
    pub stride: usize,
    /// The number of slots.
    pub slots: usize,
    /// Page size in bytes.
    pub page: usize,
}

impl Region {
    /// The descriptor of the slot that contains the byte at `offset`.
    /// [`Packet::from_raw`](super::Packet::from_raw) uses it to make a packet from what the kernel hands back.
    pub fn descriptor_at(&self, offset: usize) -> Option<NonNull<Descriptor>> {
        let index = offset / self.stride;
        if index >= self.slots {
            return None;
        }
        // SAFETY: the slot lies within the mapping.
        Some(unsafe { self.base.add(index * self.stride) }.cast())
    }
}

// SAFETY: a region is a description; its pointer is not followed here.
unsafe impl Send for Region {}

/// The slots of one class on one node: the free ones, and the lock around them, which threads lock once for
/// hundreds of slots.
#[derive(Debug)]
pub(super) struct Pool {
    class: SlotClass,
    node: usize,
    mapping: Option<Mapping>,
    slots: usize,
    /// How many free slots a thread may keep.
    hold: usize,
    shared: Lock<Shared>,
    exhausted: AtomicU64,
    /// The most slots that were ever out of the pool, including those that threads keep for later.
    peak: AtomicUsize,
}

#[derive(Debug)]
struct Shared {
    free: Vec<Slot>,
    carved: usize,
}

impl Pool {
    fn new(class: SlotClass, node: usize, slots: usize, bind: bool) -> Pool {
        let mapping = slots
            .checked_mul(class.stride())
            .filter(|bytes| *bytes > 0)
            .and_then(|bytes| Mapping::new(bytes, bind.then_some(node)));
        let slots = if mapping.is_some() { slots } else { 0 };
        Pool {
            class,
            node,
            mapping,
            slots,
            hold: (slots / 32).clamp(2, MAGAZINE),
            // Room for every slot, so that giving back never allocates; untouched until needed.
            shared: Lock::new(Shared { free: Vec::with_capacity(slots), carved: 0 }),
            exhausted: AtomicU64::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    pub(super) fn class(&self) -> SlotClass {
        self.class
    }

    pub(super) fn node(&self) -> usize {
        self.node
    }

    pub(super) fn hold(&self) -> usize {
        self.hold
    }

    /// Hands out up to `most` slots; the one that `sink` gets last has the lowest address.
    pub(super) fn take(&self, most: usize, mut sink: impl FnMut(Slot)) -> usize {
        let mut shared = self.shared.lock();
        let kept = shared.free.len().saturating_sub(most);
        let mut taken = 0;
        for slot in shared.free.drain(kept..) {
            sink(slot);
            taken += 1;
        }
        if taken == 0 {
            // Fresh slots only when the old ones are all out: what was used is in the caches.
            let fresh = most.min(self.slots - shared.carved);
            let first = shared.carved;
            for index in (first..first + fresh).rev() {
                if let Some(slot) = self.carve(index) {
                    sink(slot);
                    taken += 1;
                }
            }
            shared.carved += fresh;
        }
        self.peak.fetch_max(shared.carved - shared.free.len(), Ordering::Relaxed);
        taken
    }

    /// Returns slots to the pool.
    pub(super) fn put(&self, slots: impl Iterator<Item = Slot>) {
        self.shared.lock().free.extend(slots);
    }

    /// Counts a packet that could not be allocated.
    #[cold]
    pub(super) fn count_exhausted(&self) {
        self.exhausted.fetch_add(1, Ordering::Relaxed);
    }

    fn carve(&self, index: usize) -> Option<Slot> {
        let memory = self.mapping.as_ref()?.at(index * self.class.stride(), self.class.stride())?;
        let pool = std::ptr::from_ref(self).cast();
        // SAFETY: `at` checked that the stride lies within the mapping, which is zeroed, aligned to a page
        // (and strides are whole lines) and never unmapped; each index is carved once, under the lock.
        Some(unsafe { Slot::carve(memory, self.class.room() as u32, pool) })
    }

    fn region(&self) -> Option<Region> {
        let mapping = self.mapping.as_ref()?;
        Some(Region {
            class: self.class,
            node: self.node,
            base: mapping.base(),
            len: mapping.len(),
            stride: self.class.stride(),
            slots: self.slots,
            page: mapping.kind().page(),
        })
    }

    pub(super) fn count(&self) -> PoolCounts {
        let (free, carved) = {
            let shared = self.shared.lock();
            (shared.free.len(), shared.carved)
        };
        PoolCounts {
            slots: self.slots,
            out: carved.saturating_sub(free),
            peak: self.peak.load(Ordering::Relaxed),
            exhausted: self.exhausted.load(Ordering::Relaxed),
            bytes: self.mapping.as_ref().map_or(0, Mapping::len),
            pages: self.mapping.as_ref().map(Mapping::kind),
        }
    }
}

/// What a pool knows of its slots.
pub(super) struct PoolCounts {
    pub(super) slots: usize,
    /// Slots out of the pool, those that threads keep for later included.
    pub(super) out: usize,
    pub(super) peak: usize,
    pub(super) exhausted: u64,
    pub(super) bytes: usize,
    pub(super) pages: Option<PageKind>,
}

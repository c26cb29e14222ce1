//! The arena: the memory of all packets.
//!
//! One mapping for each NUMA node and size class. It uses huge pages if the system has any, and otherwise
//! ordinary pages, with a request for transparent huge pages; [`Arena::report`] tells which. A mapping is
//! divided into slots of equal stride. Slots are carved when first needed, so that unused memory is never
//! committed.
//!
//! # Stride
//! The stride of every class is an **odd** number of cache lines. With a power of two, all descriptors would
//! share one or two of the 64 sets of an L1 cache, and a batch of 32 would already evict itself. With an odd
//! stride, 64 consecutive descriptors use 64 different sets. The example `slot_stride` repeatedly touches
//! three lines of each packet of a batch (descriptor lines 0 and 2, first line of the data); on a Sapphire
//! Rapids with 48 KiB of L1 cache, nanoseconds per packet:
//!
//! | stride | 16 packets | 32 | 64 | 256 |
//! |---|---|---|---|---|
//! | 2,048 B, a power of two | 1.1 | 7.6 | 13.0 | 14.9 |
//! | 4,096 B, a power of two | 9.2 | 5.3 | 15.6 | 15.4 |
//! | 2,560 B, 40 lines | 1.1 | 1.1 | 1.1 | 4.3 |
//! | **2,496 B, 39 lines** | 1.0 | 1.0 | 1.0 | 1.8 |
//!
//! | class | stride | buffer | for |
//! |---|---|---|---|
//! | standard | 39 lines, 2,496 B | 2,304 B (128 headroom + 2,176) | frames up to an MTU of 2,000 |
//! | jumbo | 1,035 lines, 66,240 B | 66,048 B (128 headroom + 65,920) | jumbo frames, merged segments |
//! | shell | 3 lines, 192 B | none | a shared packet's second descriptor |

use std::fmt;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::descriptor::{DESCRIPTOR_LEN, Descriptor, Slot};
use super::packet::Packet;
use super::{cache, mapping, numa};
use crate::Lock;
use mapping::{Mapping, PageKind};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of headroom that a packet gets by default.
pub const DEFAULT_HEADROOM: usize = 128;

/// Bytes of a standard slot's buffer.
pub const STANDARD_ROOM: usize = 39 * LINE - DESCRIPTOR_LEN;

/// Bytes of a jumbo slot's buffer.
pub const JUMBO_ROOM: usize = 1_035 * LINE - DESCRIPTOR_LEN;

/// The sizes of slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum SlotClass {
    /// A frame of ordinary size.
    Standard,
    /// Anything up to the largest IP datagram with its link-layer header.
    Jumbo,
    /// Only a descriptor.
    Shell,
}

impl SlotClass {
    /// Every class.
    pub const ALL: [SlotClass; 3] = [SlotClass::Standard, SlotClass::Jumbo, SlotClass::Shell];

    /// Bytes of the slot's buffer.
    pub const fn room(self) -> usize {
        match self {
            SlotClass::Standard => STANDARD_ROOM,
            SlotClass::Jumbo => JUMBO_ROOM,
            SlotClass::Shell => 0,
        }
    }

    /// Bytes from one slot to the next.
    pub const fn stride(self) -> usize {
        DESCRIPTOR_LEN + self.room()
    }

    /// The class in one lower-case word.
    pub fn name(self) -> &'static str {
        match self {
            SlotClass::Standard => "standard",
            SlotClass::Jumbo => "jumbo",
            SlotClass::Shell => "shell",
        }
    }
}

const _: () = {
    assert!((SlotClass::Standard.stride() / LINE) % 2 == 1);
    assert!((SlotClass::Jumbo.stride() / LINE) % 2 == 1);
    assert!((SlotClass::Shell.stride() / LINE) % 2 == 1);
    assert!(STANDARD_ROOM >= DEFAULT_HEADROOM + 2048);
    assert!(JUMBO_ROOM >= DEFAULT_HEADROOM + 65_536 + 14);
};

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

    /// The arena's layout and current usage. Creates the arena if there is none yet.
    pub fn stats() -> ArenaStats {
        let arena = Arena::get();
        let pools = arena.pools.iter().map(Pool::stats).collect();
        ArenaStats { pools, heap_slots: cache::heap_slots() }
    }

    /// The mapped memory, for registration with a device or the kernel (AF_XDP, CUDA).
    pub fn regions() -> Vec<Region> {
        Arena::get().pools.iter().filter_map(Pool::region).collect()
    }

    /// Makes the calling thread allocate its packets from this NUMA node from now on, for example that of its
    /// device. Without this call, a thread allocates from the node that it runs on when it makes its first
    /// packet, so pin threads before that. When the node has no slots left, other nodes provide them. Packets
    /// always return to the node that they came from.
    pub fn use_node(node: usize) {
        cache::use_node(node);
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
    /// The offset of the packet's data from `base`, in bytes; `None` for a packet of another region. For a
    /// shared packet the data is in the slot that holds the bytes, not in that of its descriptor.
    pub fn offset_of(&self, packet: &Packet) -> Option<usize> {
        let offset = packet.data().as_ptr().addr().checked_sub(self.base.addr().get())?;
        (offset < self.len).then_some(offset)
    }

    /// The descriptor of the slot that contains the byte at `offset`. [`Packet::from_raw`] uses it to make a
    /// packet from what the kernel hands back.
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
            hold: (slots / 32).clamp(2, cache::MAGAZINE),
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
        // SAFETY: `at` checked that the stride lies within the mapping, which is zeroed, aligned to a page
        // (and strides are whole lines) and never unmapped; each index is carved once, under the lock.
        Some(unsafe { Slot::carve(memory, self.class.room() as u32, self) })
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

    fn stats(&self) -> PoolStats {
        let (free, carved) = {
            let shared = self.shared.lock();
            (shared.free.len(), shared.carved)
        };
        let cached = cache::held(self);
        PoolStats {
            class: self.class,
            node: self.node,
            slots: self.slots,
            in_use: carved.saturating_sub(free).saturating_sub(cached),
            cached,
            peak: self.peak.load(Ordering::Relaxed),
            exhausted: self.exhausted.load(Ordering::Relaxed),
            bytes: self.mapping.as_ref().map_or(0, Mapping::len),
            pages: self.mapping.as_ref().map(Mapping::kind),
        }
    }
}

/// The current usage of one pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolStats {
    /// The size class.
    pub class: SlotClass,
    /// The NUMA node.
    pub node: usize,
    /// The number of slots.
    pub slots: usize,
    /// Slots that packets hold. Exact when no thread is at work.
    pub in_use: usize,
    /// Free slots that threads keep for their next packets.
    pub cached: usize,
    /// The most slots out of the pool at once, including those that threads keep.
    pub peak: usize,
    /// Packets that could not be allocated because the pool was empty.
    pub exhausted: u64,
    /// Bytes mapped (committed only where used, except with reserved huge pages).
    pub bytes: usize,
    /// The kind of pages; `None` when the system refused the memory.
    pub pages: Option<PageKind>,
}

/// The current usage of the arena. Its `Display` is the report that `millrace run` prints, one line per node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArenaStats {
    /// One entry for each node and class.
    pub pools: Vec<PoolStats>,
    /// Packets on the heap: those too large for any slot, or copied while the arena was empty.
    pub heap_slots: usize,
}

impl ArenaStats {
    /// All nodes' pools of a class combined.
    pub fn class(&self, class: SlotClass) -> PoolStats {
        let empty = PoolStats {
            class,
            node: 0,
            slots: 0,
            in_use: 0,
            cached: 0,
            peak: 0,
            exhausted: 0,
            bytes: 0,
            pages: None,
        };
        self.pools.iter().filter(|pool| pool.class == class).fold(empty, |sum, pool| PoolStats {
            class,
            node: 0,
            slots: sum.slots + pool.slots,
            in_use: sum.in_use + pool.in_use,
            cached: sum.cached + pool.cached,
            peak: sum.peak + pool.peak,
            exhausted: sum.exhausted + pool.exhausted,
            bytes: sum.bytes + pool.bytes,
            pages: pool.pages,
        })
    }

    /// Packets that could not be allocated, of all classes.
    pub fn exhausted(&self) -> u64 {
        self.pools.iter().map(|pool| pool.exhausted).sum()
    }

    /// Slots with buffers that packets hold.
    pub fn in_use(&self) -> usize {
        let buffers = self.pools.iter().filter(|pool| pool.class != SlotClass::Shell);
        buffers.map(|pool| pool.in_use).sum::<usize>() + self.heap_slots
    }
}

impl fmt::Display for ArenaStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alike = |a: &PoolStats, b: &PoolStats| (a.node, &a.pages) == (b.node, &b.pages);
        for (index, pools) in self.pools.chunk_by(alike).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let slots = pools.iter().map(|pool| {
                let mib = pool.bytes.div_ceil(1 << 20);
                format!("{} {} slots ({mib} MiB)", pool.slots, pool.class.name())
            });
            let node = pools.first().map_or(0, |pool| pool.node);
            write!(f, "node {node}: {}", slots.collect::<Vec<_>>().join(", "))?;
            match pools.first().and_then(|pool| pool.pages.as_ref()) {
                Some(kind) => write!(f, " on {kind}")?,
                None if pools.iter().all(|pool| pool.slots == 0) => {
                    write!(f, " (no memory mapped)")?
                }
                None => {}
            }
        }
        Ok(())
    }
}

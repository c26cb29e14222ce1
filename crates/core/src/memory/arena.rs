//! The arena: the memory that every packet lives in.
//!
//! One mapping for each NUMA node and size class, on huge pages when the system has any to give and on
//! ordinary pages (with transparent huge pages asked for) when not; [`Arena::report`] says which. A
//! mapping is divided into slots of equal stride and slots are carved on first need, so that memory
//! nobody used is never committed.
//!
//! # Stride
//! The stride of every class is an **odd** number of cache lines. With a power of two, all descriptors
//! would share one or two of the 64 sets of a first-level cache and a batch of 32 would already evict
//! itself; with an odd stride, 64 consecutive descriptors take 64 different sets. The example `slot_stride`
//! touches three lines of each packet (descriptor lines 0 and 2, first line of the data) of a batch over and
//! over; on a Sapphire Rapids with 48 KiB of first-level cache, nanoseconds a packet:
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

/// Bytes of headroom that a packet gets when nobody says otherwise.
pub const DEFAULT_HEADROOM: usize = 128;

/// Bytes of a standard slot's buffer.
pub const STANDARD_ROOM: usize = 39 * LINE - DESCRIPTOR_LEN;

/// Bytes of a jumbo slot's buffer.
pub const JUMBO_ROOM: usize = 1_035 * LINE - DESCRIPTOR_LEN;

/// The sizes that slots come in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum SlotClass {
    /// A frame of ordinary size.
    Standard,
    /// Anything up to the largest IP datagram with its link header.
    Jumbo,
    /// A descriptor alone.
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

/// How many slots of each class the arena may hold, all NUMA nodes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaConfig {
    /// Standard slots.
    pub standard: usize,
    /// Jumbo slots.
    pub jumbo: usize,
    /// Shells.
    pub shells: usize,
    /// NUMA nodes to divide them among; none for as many as the machine has.
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
    /// So many standard slots, as many shells, and one jumbo slot for every 64 standard ones (at least 16).
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

/// The arena has given out slots already; its size can no longer be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the packet arena is in use already; its size must be chosen before the first packet")]
pub struct ArenaInUse;

/// The process's packet memory. There is one; it comes into being with the first packet.
#[derive(Debug)]
pub struct Arena {
    nodes: usize,
    /// `SlotClass::ALL` for node 0, then for node 1, and so on.
    pools: Vec<Pool>,
}

static ARENA: OnceLock<Arena> = OnceLock::new();
static CONFIG: Lock<Option<ArenaConfig>> = Lock::new(None);

impl Arena {
    /// Chooses the arena's size (a number of standard slots, or an [`ArenaConfig`]).
    ///
    /// # Errors
    /// [`ArenaInUse`] when a packet was made before.
    pub fn configure(config: impl Into<ArenaConfig>) -> Result<(), ArenaInUse> {
        let mut chosen = CONFIG.lock();
        if ARENA.get().is_some() {
            return Err(ArenaInUse);
        }
        *chosen = Some(config.into());
        Ok(())
    }

    /// What the arena is made of and where it stands. Makes the arena when there is none yet.
    pub fn stats() -> ArenaStats {
        let arena = Arena::get();
        let pools = arena.pools.iter().map(Pool::stats).collect();
        ArenaStats { pools, heap_slots: cache::heap_slots() }
    }

    /// The mapped memory, for whoever registers it with a device or the kernel (AF_XDP, CUDA).
    pub fn regions() -> Vec<Region> {
        Arena::get().pools.iter().filter_map(Pool::region).collect()
    }

    /// Makes the calling thread take its packets from this NUMA node from now on, such as that of its device.
    /// Without it, a thread takes them from the node that it runs on when it makes its first packet, so pin
    /// threads before that. When the node has none left, others help out. Packets always go back to the node
    /// that they came from.
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
    /// The NUMA node that the memory was asked from.
    pub node: usize,
    /// The first byte, aligned to 2 MiB.
    pub base: NonNull<u8>,
    /// Bytes mapped.
    pub len: usize,
    /// Bytes from one slot to the next; the first one starts at `base`.
    pub stride: usize,
    /// How many slots there are room for.
    pub slots: usize,
    /// Bytes of a page.
    pub page: usize,
}

impl Region {
    /// Where the packet's data starts, in bytes from `base`; none for a packet of another region. For a shared
    /// packet this is in the slot that holds the bytes, not in that of its descriptor.
    pub fn offset_of(&self, packet: &Packet) -> Option<usize> {
        let offset = packet.data().as_ptr().addr().checked_sub(self.base.addr().get())?;
        (offset < self.len).then_some(offset)
    }

    /// The descriptor of the slot that the byte at `offset` belongs to, with which
    /// [`Packet::from_raw`] makes a packet of what the kernel hands back.
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

/// The slots of one class on one node: those nobody uses, and the lock around them that threads take
/// once for hundreds of slots.
#[derive(Debug)]
pub(super) struct Pool {
    class: SlotClass,
    node: usize,
    mapping: Option<Mapping>,
    slots: usize,
    /// How many slots a thread may keep to itself.
    hold: usize,
    shared: Lock<Shared>,
    exhausted: AtomicU64,
    /// Most slots that were ever out of the pool, those that threads keep for later included.
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

    /// Takes slots back.
    pub(super) fn put(&self, slots: impl Iterator<Item = Slot>) {
        self.shared.lock().free.extend(slots);
    }

    /// Counts a packet that could not be had.
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

/// Where one pool stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolStats {
    /// The size class.
    pub class: SlotClass,
    /// The NUMA node.
    pub node: usize,
    /// Slots there can be.
    pub slots: usize,
    /// Slots that packets hold. Exact when no thread is at work.
    pub in_use: usize,
    /// Slots that threads keep for their next packets.
    pub cached: usize,
    /// Most slots ever out of the pool at once, those that threads keep included.
    pub peak: usize,
    /// Packets that could not be had because the pool was empty.
    pub exhausted: u64,
    /// Bytes mapped (committed only where used, except on reserved huge pages).
    pub bytes: usize,
    /// The kind of pages; none when the system refused the memory.
    pub pages: Option<PageKind>,
}

/// Where the arena stands. Its `Display` is the one-line-a-node report that `millrace run` announces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArenaStats {
    /// One entry for each node and class.
    pub pools: Vec<PoolStats>,
    /// Packets that live on the heap: those too large for any slot, or copied while the arena was empty.
    pub heap_slots: usize,
}

impl ArenaStats {
    /// All nodes' pools of a class together.
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

    /// Packets that could not be had, for want of any class.
    pub fn exhausted(&self) -> u64 {
        self.pools.iter().map(|pool| pool.exhausted).sum()
    }

    /// Slots that packets hold, buffers only.
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

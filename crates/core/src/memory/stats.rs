//! Where the arena stands.

use std::fmt;

use super::arena::{Arena, Pool};
use super::cache;
use super::class::SlotClass;
use super::mapping::PageKind;

/// What needs to know what threads keep for later.
impl Arena {
    /// The arena's layout and current usage. Creates the arena if there is none yet.
    pub fn stats() -> ArenaStats {
        let arena = Arena::get();
        let pools = arena.pools().iter().map(PoolStats::of).collect();
        ArenaStats { pools, heap_slots: cache::heap_slots() }
    }

    /// Makes the calling thread allocate its packets from this NUMA node from now on, for example that of its
    /// device. Without this call, a thread allocates from the node that it runs on when it makes its first
    /// packet, so pin threads before that. When the node has no slots left, other nodes provide them. Packets
    /// always return to the node that they came from.
    pub fn use_node(node: usize) {
        cache::use_node(node);
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

impl PoolStats {
    fn of(pool: &Pool) -> Self {
        let counts = pool.count();
        let cached = cache::held(pool);
        Self {
            class: pool.class(),
            node: pool.node(),
            slots: counts.slots,
            in_use: counts.out.saturating_sub(cached),
            cached,
            peak: counts.peak,
            exhausted: counts.exhausted,
            bytes: counts.bytes,
            pages: counts.pages,
        }
    }
}

//! Packet memory: the arena, packets, their annotations, and batches of packets.
//!
//! ```text
//!            one slot (standard: 39 cache lines, 2,496 bytes)
//! +--------------------------+--------------------------+----------+---------------+----------+
//! | line 0, 1: an rte_mbuf   | line 2: annotations,     | headroom | packet data   | tailroom |
//! | (place, length, count)   | timestamp, headers       | 128      | len()         |          |
//! +--------------------------+--------------------------+----------+---------------+----------+
//! ^ Packet (one pointer)                                           ^ data()
//! ```
//!
//! A [`Packet`] owns its slot. Dropping it returns the slot to the thread's own free list, and a [`Batch`]
//! returns all of its slots in one call. [`Packet::share`] makes a second descriptor for the same bytes. The
//! first write to a shared packet copies it, which is counted in [`copies`].
//!
//! # Cost
//! Instructions per packet, counted by callgrind over batches of 32 (example `packet_costs`, including its
//! own few):
//!
//! | operation | instructions |
//! |---|---|
//! | allocate and free a batch | 28, of which 9 to free |
//! | make one packet and drop it | 44 |
//! | share and drop the share, atomic count | 133 |
//! | share and drop the share, plain count ([`PlainCounts`]) | 139, in two thirds of the time |
//! | `for_each`, one annotation written | 11 |
//! | `for_each`, first byte of data read | 21 |
//! | `map_filter`, all kept | 9 |
//! | `classify` and `distribute` to one output | 32 |
//! | the same to four outputs in turn, runs of one | 89 |

#![allow(unsafe_code, reason = "packets are pointers into memory that the arena owns")]

pub mod annotations;
mod arena;
mod batch;
mod cache;
mod cause;
mod class;
pub mod copies;
mod descriptor;
mod headers;
mod heap;
mod homes;
mod mapping;
mod mbufs;
mod numa;
mod packet;
mod plain;
mod stats;
mod view;

#[cfg(test)]
mod tests;

pub use annotations::{ANNOTATIONS, AnnotationInfo};
pub use arena::{Arena, ArenaConfig, ArenaInUse, Region};
pub use batch::{Batch, Drain, Ports};
pub use cache::register_external_release;
pub use class::{DEFAULT_HEADROOM, JUMBO_ROOM, STANDARD_ROOM, SlotClass};
pub use copies::CopyCause;
pub use descriptor::{ANNOTATION_LEN, Descriptor};
pub use heap::limit_heaps;
pub use mapping::{PageKind, prefer_huge_pages};
pub use mbufs::{Burst, Limits, Mbuf, Window};
pub use packet::{Packet, PacketType};
pub use plain::PlainCounts;
pub use stats::{ArenaStats, PoolStats};
pub(crate) use view::Readiness;
pub use view::View;

/// Prefetches the cache line where a value begins that will be read soon.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    descriptor::prefetch(std::ptr::from_ref(value).cast());
}

//! The sizes that slots come in.
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

use super::descriptor::DESCRIPTOR_LEN;

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

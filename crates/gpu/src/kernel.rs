//! Kernels and what they are given: the Rust side of `kernels/millrace.h`.
//!
//! One source serves two targets: CUDA C++ as text ([`Kernel::source`]), C11 for the host ([`Kernel::host_function`]).
//!
//! A new kernel is a file `kernels/NAME.cu`, a [`Kernel`] with its names, a line each in `kernel/host.rs` and `kernel/source.rs`,
//! and a differential test beside the others; an empty `kernels/ptx/NAME.ptx` lets `cargo xtask kernels` begin.

#[cfg(test)]
pub(crate) mod aho_corasick;
mod classify;
mod host;
mod source;
#[cfg(test)]
pub(crate) mod testing;

use std::ffi::CStr;

use zerocopy::{Immutable, IntoBytes};

pub use classify::CLASSIFY_REGIONS;
pub use host::HostFunction;

pub use crate::region::MAX_EXTENSIONS;

/// Rows of a tile, threads of a block. As many as an engine batch has packets, so that a batch fills a tile.
pub const TILE: usize = 256;
/// Most slices of a launch.
pub const MAX_INPUTS: usize = 6;
/// Most conditions of a launch.
pub const MAX_CONDITIONS: usize = 8;
/// Most tables of a plan.
pub const MAX_TABLES: usize = 16;
/// The result of a row that a kernel did not treat, or for which there is none.
pub const NONE: u32 = u32::MAX;
/// The decision to drop a packet.
pub const DROP: u32 = u32::MAX - 1;

/// A kernel: a function of `kernels/NAME.cu`, whose head says what it is given and what its results mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Longest prefix match of an IPv4 address. Slice 0: its 4 bytes. Table: [`Lpm4`](crate::table::Lpm4). The result is the hop.
    Lpm4,
    /// Longest prefix match of an IPv6 address. Slice 0: its 16 bytes. Table: [`Lpm6`](crate::table::Lpm6). The result is the hop.
    Lpm6,
    /// First rule of seven fields that holds.
    Classify,
    /// Lowest-numbered pattern rule that alerts. Payload: the text. Table: a pattern set's
    /// [image](millrace_match::patterns::image). The result is the rule, the decision 1 for an alert and 0 for none.
    ///
    /// Constants: threads for a text (1 to 32, a power of two); 1 + the slice with the network header that tells the
    /// text's protocol, or 0; the protocol of all texts when there is none (a [`Kind`](millrace_match::patterns::Kind)).
    AhoCorasick,
    /// Turns every bit of its first slice, in place: for tests of slices that are written. The result is how many bytes.
    Invert,
}

/// Threads for a payload, where nothing else is known. With 1,024 packets of 1,400 bytes an H100 (132 multiprocessors of 4
/// schedulers) has half a warp a scheduler, three with the batches of a lane's six slots, each of which mostly waits for
/// loads; a walk is an eighth as long, and the longest trigger more. Not measured: `bench gpu-calibrate` does.
pub const PAYLOAD_LANES: u32 = 8;

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Lpm4, Self::Lpm6, Self::Classify, Self::AhoCorasick, Self::Invert];

    /// The name of the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lpm4 => "lpm4",
            Self::Lpm6 => "lpm6",
            Self::Classify => "classify",
            Self::AhoCorasick => "aho_corasick",
            Self::Invert => "invert",
        }
    }

    /// The name of the function. On a device it has two parameters: a [`Launch`], by value, and the slot's address.
    pub const fn entry(self) -> &'static CStr {
        match self {
            Self::Lpm4 => c"mr_lpm4",
            Self::Lpm6 => c"mr_lpm6",
            Self::Classify => c"mr_classify",
            Self::AhoCorasick => c"mr_aho_corasick",
            Self::Invert => c"mr_invert",
        }
    }

    /// How many threads of a device share a row of a launch: 1, or a power of two up to 32.
    pub const fn lanes(self, launch: &Launch) -> usize {
        match (self, launch.constants[0]) {
            (Self::AhoCorasick, lanes @ 2..=32) if lanes.is_power_of_two() => lanes as usize,
            _ => 1,
        }
    }

    /// The launch with one thread for each row, which gives the same results: where there are no threads to share the work,
    /// each part would only begin anew.
    pub const fn alone(self, mut launch: Launch) -> Launch {
        if self.lanes(&launch) > 1 {
            launch.constants[0] = 1;
        }
        launch
    }

    /// How many blocks of [`TILE`] threads a launch for so many rows takes.
    pub const fn blocks(self, launch: &Launch, rows: usize) -> usize {
        (rows * self.lanes(launch)).div_ceil(TILE)
    }
}

/// The start of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Packets in the batch.
    pub rows: u32,
    /// Number of the batch; the last step of the plan writes it where the host polls.
    pub sequence: u32,
    /// Bytes of packed payload.
    pub payload: u32,
    /// Zero.
    pub reserved: u32,
    /// Device addresses of the tables.
    pub table: [u64; MAX_TABLES],
}

/// A column of a slot: row `r` is at `at + (r / TILE) * tile + (r % TILE) * stride`, in bytes from the slot's start.
/// With stride 0 there is no such column. Columns of `u32` and `u16` are aligned to their size, slices need not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Column {
    /// Where the first tile's part begins.
    pub at: u32,
    /// Bytes from one tile to the next.
    pub tile: u32,
    /// Bytes from one row to the next.
    pub stride: u32,
}

impl Column {
    /// Where row `row` is, in bytes from the slot's start.
    #[inline]
    pub const fn of(self, row: usize) -> usize {
        self.at as usize + row / TILE * self.tile as usize + row % TILE * self.stride as usize
    }
}

/// `(predicate & mask) == value`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Condition {
    /// The bits that are looked at.
    pub mask: u32,
    /// What they must be.
    pub value: u32,
}

/// What one launch of a kernel is given beside the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Launch {
    /// Slices, in the order in which the stage asked for them.
    pub input: [Column; MAX_INPUTS],
    /// `u16`: how many bytes of each slice the packet has; the rest is zero. No column: all of them.
    pub valid: [Column; MAX_INPUTS],
    /// `u32`: where the row's payload begins, from `payload` on: a multiple of 16.
    pub offset: Column,
    /// `u32`: bytes of the row's payload.
    pub length: Column,
    /// `u32`: the predicate word.
    pub predicate: Column,
    /// `u32`: the result.
    pub result: Column,
    /// Where the packed payload begins in the slot: a multiple of 16.
    pub payload: u32,
    /// Which of the header's tables.
    pub table: u32,
    /// What the kernel's description says.
    pub constants: [u32; 4],
    /// How many conditions there are; a row is treated when there is none or one holds.
    pub conditions: u32,
    /// The conditions.
    pub condition: [Condition; MAX_CONDITIONS],
    /// The lowest bit of the decision's field in the predicate word.
    pub field_shift: u32,
    /// The bits of the field, in their place: `mask << field_shift`; 0 when there is none. A decision writes
    /// output + 1, [`DROP`] all ones.
    pub field_mask: u32,
}

//! Kernels and their parameters: the Rust side of `kernels/millrace.h`.
//!
//! One source serves two targets: CUDA C++ as text ([`Kernel::source`]), and C11 for the host
//! ([`Kernel::host_function`]).
//!
//! To add a kernel, write a file `kernels/NAME.cu`, a variant of [`Kernel`] with its names, a line each in
//! `kernel/host.rs` and `kernel/source.rs`, and a differential test next to the others. Create an empty
//! `kernels/ptx/NAME.ptx` for the first run of `cargo xtask kernels`.

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

/// Rows of a tile, and threads of a block. It equals the number of packets of an engine batch, so that a batch fills
/// a tile.
pub const TILE: usize = 256;
/// Maximum number of slices of a launch.
pub const MAX_INPUTS: usize = 6;
/// Maximum number of conditions of a launch.
pub const MAX_CONDITIONS: usize = 8;
/// Maximum number of tables of a plan.
pub const MAX_TABLES: usize = 16;
/// The result of a row that a kernel did not process, or that has no result.
pub const NONE: u32 = u32::MAX;
/// The decision to drop a packet.
pub const DROP: u32 = u32::MAX - 1;

/// A kernel: a function of `kernels/NAME.cu`. The comment at the start of that file describes its inputs and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Longest prefix match of an IPv4 address. Slice 0: its 4 bytes. Table: [`Lpm4`](crate::table::Lpm4). The result is the hop.
    Lpm4,
    /// Longest prefix match of an IPv6 address. Slice 0: its 16 bytes. Table: [`Lpm6`](crate::table::Lpm6). The result is the hop.
    Lpm6,
    /// The first rule of up to seven fields that matches.
    Classify,
    /// The lowest-numbered pattern rule that matches. Payload: the text. Table: a pattern set's
    /// [image](millrace_match::patterns::image). The result is the rule. The decision is 1 for an alert, and 0
    /// otherwise.
    ///
    /// Constants: the number of threads per text (1 to 32, a power of two); 1 + the index of the slice with the
    /// network header, from which the kernel takes the text's protocol, or 0; and the protocol of all texts if there
    /// is no such slice (a [`Kind`](millrace_match::patterns::Kind)).
    AhoCorasick,
    /// Inverts every bit of its first slice, in place. It exists for tests of slices that are written. The result is
    /// the number of bytes.
    Invert,
}

/// The default number of threads per payload. With 1,024 packets of 1,400 bytes, each scheduler of an H100 (132
/// multiprocessors of 4 schedulers) has half a warp, or three warps with the batches of a lane's six slots. Each
/// thread mostly waits for loads. The walk of a thread is an eighth of the text, plus the length of the longest
/// trigger. This is an estimate; `bench gpu-calibrate` measures it.
pub const PAYLOAD_LANES: u32 = 8;

impl Kernel {
    /// All kernels.
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

    /// The name of the function. On a device it has two parameters: a [`Launch`] by value, and the slot's address.
    pub const fn entry(self) -> &'static CStr {
        match self {
            Self::Lpm4 => c"mr_lpm4",
            Self::Lpm6 => c"mr_lpm6",
            Self::Classify => c"mr_classify",
            Self::AhoCorasick => c"mr_aho_corasick",
            Self::Invert => c"mr_invert",
        }
    }

    /// The number of threads that share a row of a launch on a device: 1, or a larger power of two up to 32.
    pub const fn lanes(self, launch: &Launch) -> usize {
        match (self, launch.constants[0]) {
            (Self::AhoCorasick, lanes @ 2..=32) if lanes.is_power_of_two() => lanes as usize,
            _ => 1,
        }
    }

    /// The same launch with one thread per row, which gives the same results. The host uses it, because it has no
    /// threads to share a row, and each part of a text has a fixed cost.
    pub const fn alone(self, mut launch: Launch) -> Launch {
        if self.lanes(&launch) > 1 {
            launch.constants[0] = 1;
        }
        launch
    }

    /// The number of blocks of [`TILE`] threads that a launch needs for this number of rows.
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
    /// Number of the batch. The last step of the plan writes it to the word that the host polls.
    pub sequence: u32,
    /// Bytes of packed payload in the batch.
    pub payload: u32,
    /// Zero.
    pub reserved: u32,
    /// Device addresses of the tables.
    pub table: [u64; MAX_TABLES],
}

/// A column of a slot: row `r` is at `at + (r / TILE) * tile + (r % TILE) * stride`, in bytes from the slot's start.
/// If the stride is 0, the column does not exist. Columns of `u32` and `u16` are aligned to their size; slices need
/// not be aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Column {
    /// Offset of the first tile's part.
    pub at: u32,
    /// Bytes from one tile to the next.
    pub tile: u32,
    /// Bytes from one row to the next.
    pub stride: u32,
}

impl Column {
    /// Offset of row `row`, in bytes from the slot's start.
    #[inline]
    pub const fn of(self, row: usize) -> usize {
        self.at as usize + row / TILE * self.tile as usize + row % TILE * self.stride as usize
    }
}

/// A condition on the predicate word: `(predicate & mask) == value`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Condition {
    /// The bits that are compared.
    pub mask: u32,
    /// Their required value.
    pub value: u32,
}

/// The parameters of one launch of a kernel, besides the slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Launch {
    /// Slices, in the order of the stage's regions.
    pub input: [Column; MAX_INPUTS],
    /// `u16`: the number of bytes that the packet has of each slice; the rest is zero. If there is no column, every
    /// packet has all bytes.
    pub valid: [Column; MAX_INPUTS],
    /// `u32`: the offset of the row's payload, from `payload` on: a multiple of 16.
    pub offset: Column,
    /// `u32`: the number of bytes of the row's payload.
    pub length: Column,
    /// `u32`: the predicate word.
    pub predicate: Column,
    /// `u32`: the result.
    pub result: Column,
    /// Offset of the packed payload in the slot: a multiple of 16.
    pub payload: u32,
    /// Index of the table in the header.
    pub table: u32,
    /// Constants, as the kernel's description defines them.
    pub constants: [u32; 4],
    /// Number of conditions. A row is processed if there is no condition or if one of them holds.
    pub conditions: u32,
    /// The conditions.
    pub condition: [Condition; MAX_CONDITIONS],
    /// The lowest bit of the decision's field in the predicate word.
    pub field_shift: u32,
    /// The bits of the field at their position: `mask << field_shift`; 0 if there is no field. A decision is written
    /// as output + 1, and [`DROP`] as all ones.
    pub field_mask: u32,
}

//! Plans: how a section processes each batch.
//!
//! A plan is made once, from the section's stages and the paths between them. It defines which slices are copied to
//! the device, which kernels are launched in which order and on which packets, and what is copied back.
//!
//! # Predicates
//!
//! A stage that chooses among outputs has a **field** of bits in each packet's predicate word: 0 before it has
//! decided, output + 1 afterwards, and all ones to drop the packet. A stage that only some outputs lead to processes
//! the rows for which one of its conditions holds. All threads are launched, and those of other rows return at once
//! (Snap, section 4.3).
//!
//! A stage that chooses must decide about every packet that it processes. If its [`only`](Node::only) excludes a
//! packet, the packet passes unprocessed, by output 0.

mod build;
mod layout;
mod node;
mod predicate;
mod print;

#[cfg(test)]
mod tests;

use std::ops::Range;

pub use layout::{Area, HEADER_BYTES, Packed, Slice, Valid, Way};
pub use node::{Edge, Node, PlanError};
pub use predicate::{Decision, Field};

use crate::kernel::{Column, Header, Kernel, Launch, TILE};
use crate::region::{Base, Region};

/// The limits of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of packets, 1 to [`MAX_PACKETS`](Self::MAX_PACKETS); rounded up to a multiple of [`TILE`].
    pub packets: usize,
    /// Maximum number of bytes of packed payload, rounded up to a multiple of 16. Without effect if no stage uses
    /// payload.
    pub payload: usize,
}

impl Limits {
    /// The highest possible number of packets of a batch.
    pub const MAX_PACKETS: usize = 1 << 20;
}

/// A launch of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kernel.
    pub kernel: Kernel,
    /// The parameters of the launch.
    pub launch: Launch,
    /// True if the stage has a table. The launch contains its index.
    pub has_table: bool,
    /// The stage's bits of the predicate word, if it chooses among outputs.
    pub field: Option<Field>,
}

impl Step {
    /// True if the stage processes a row with this predicate word.
    #[inline]
    pub fn treats(&self, predicate: u32) -> bool {
        let conditions = self.launch.condition.get(..self.launch.conditions as usize);
        conditions.is_none_or(|some| some.is_empty() || some.iter().any(|c| c.holds(predicate)))
    }
}

/// The description of a stage, for output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageInfo {
    /// The element's name.
    pub name: String,
    /// Its regions.
    pub regions: Vec<Region>,
    /// The outputs that its packets come from.
    pub from: Vec<Edge>,
    /// The output whose packets it processes, if it does not process all.
    pub only: Option<Edge>,
}

/// How a section processes each batch.
///
/// A slot consists of the header, the input area, the area of both directions, the output area, and packed payload.
/// An area is an array of tiles. A tile contains the rows of [`TILE`] packets of each of the area's columns.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Maximum number of packets of a batch: a multiple of [`TILE`].
    pub capacity: usize,
    /// Slices of the packets: the union of all requests.
    pub slices: Vec<Slice>,
    /// The number of bytes that each packet has of the slices that stages use. Not for annotations that are only
    /// read.
    pub valids: Vec<Valid>,
    /// Packed payloads: one for each different region to the packet's end.
    pub payloads: Vec<Packed>,
    /// Launches in order, one per node.
    pub steps: Vec<Step>,
    /// The descriptions of the stages.
    pub stages: Vec<StageInfo>,
    /// `u32`: the predicate words; `None` if no stage chooses.
    pub predicate: Option<Column>,
    /// How deep packets are parsed. If it is `Annotation`, no packet's bytes are read.
    pub depth: Base,
    /// Columns that are copied to the device, after the slot's header.
    pub input: Area,
    /// Columns that are copied in both directions: predicates, and slices that are written.
    pub both: Area,
    /// Columns that are copied to the host: results.
    pub output: Area,
    /// Packed payload, copied to the device; `tile` is 0.
    pub payload: Area,
    /// The size of a slot in bytes, including packed payload.
    pub slot_bytes: usize,
    /// Maximum number of bytes of packed payload; 0 if no stage uses any.
    pub payload_bytes: usize,
}

/// The ranges of the slot that are copied for a batch; some may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Header, input columns, columns of both directions, packed payload.
    pub to_device: [Range<usize>; 4],
    /// Columns of both directions, output columns.
    pub to_host: [Range<usize>; 2],
}

impl Plan {
    /// Makes a plan.
    ///
    /// # Errors
    /// The first node that cannot be part of it, and why.
    pub fn new(nodes: &[Node], limits: Limits) -> Result<Self, PlanError> {
        build::plan(nodes, limits, &[])
    }

    /// Makes a plan that also copies these slices, besides those that the stages use.
    ///
    /// # Errors
    /// As [`new`](Self::new). An error in one of the slices is attributed to the first node.
    pub fn with_slices(
        nodes: &[Node],
        limits: Limits,
        slices: &[Region],
    ) -> Result<Self, PlanError> {
        build::plan(nodes, limits, slices)
    }

    /// The ranges that are copied for `rows` packets with `payload` bytes of packed payload. The ranges to the host
    /// contain no other bytes, because bytes between them belong to the host.
    pub fn copies(&self, rows: usize, payload: usize) -> Copies {
        let tiles = rows.min(self.capacity).div_ceil(TILE);
        let (both, payload_at) = (self.both.range(tiles), self.payload.at as usize);
        let payload = payload_at..payload_at + payload.min(self.payload_bytes);
        Copies {
            to_device: [0..size_of::<Header>(), self.input.range(tiles), both.clone(), payload],
            to_host: [both, self.output.range(tiles)],
        }
    }

    /// The number of tables of the launches.
    pub fn tables(&self) -> usize {
        self.steps.iter().filter(|step| step.has_table).count()
    }
}

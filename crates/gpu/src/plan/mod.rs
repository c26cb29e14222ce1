//! Plans: what a section does with each batch.
//!
//! A plan is made once from the section's stages and the ways between them, and then only read: which slices are copied
//! in, which kernels are launched in which order and on which packets, what comes back.
//!
//! # Predicates
//! A stage that decides between outputs has a **field** of bits in each packet's predicate word: 0 before it has decided,
//! output + 1 afterwards, all ones to drop the packet. A stage that only some outputs lead to treats the rows for which one
//! of its conditions holds; all threads are launched, those of other rows return at once (Snap, section 4.3).
//!
//! A stage that decides must decide about every packet that it treats. A packet that comes to a stage but that its
//! [`only`](Node::only) excludes passes it untreated, by output 0.

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

/// How large batches may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most packets, 1 to [`MAX_PACKETS`](Self::MAX_PACKETS); rounded up to a multiple of [`TILE`].
    pub packets: usize,
    /// Most bytes of packed payload, rounded up to a multiple of 16. Of no account when no stage asks for payload.
    pub payload: usize,
}

impl Limits {
    /// Most packets of a batch.
    pub const MAX_PACKETS: usize = 1 << 20;
}

/// A launch of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kernel.
    pub kernel: Kernel,
    /// What it is given.
    pub launch: Launch,
    /// Whether the stage has a table; its place among the tables is in the launch.
    pub has_table: bool,
    /// The stage's bits of the predicate word, when it decides between outputs.
    pub field: Option<Field>,
}

impl Step {
    /// Whether the stage treats a row with this predicate word.
    #[inline]
    pub fn treats(&self, predicate: u32) -> bool {
        let conditions = self.launch.condition.get(..self.launch.conditions as usize);
        conditions.is_none_or(|some| some.is_empty() || some.iter().any(|c| c.holds(predicate)))
    }
}

/// What a stage is called and asked for: for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageInfo {
    /// The element's name.
    pub name: String,
    /// Its regions.
    pub regions: Vec<Region>,
    /// Where its packets come from.
    pub from: Vec<Edge>,
    /// Which of them it treats.
    pub only: Option<Edge>,
}

/// What a section does with each batch.
///
/// A slot is: header, input area, area of both ways, output area, packed payload. An area is a row of tiles, a tile holds the
/// rows of [`TILE`] packets of each of the area's columns.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Most packets of a batch: a multiple of [`TILE`].
    pub capacity: usize,
    /// Slices of the packets, after the union of all requests.
    pub slices: Vec<Slice>,
    /// How many bytes each packet has of the slices that stages asked for; none of annotations that are only read.
    pub valids: Vec<Valid>,
    /// Packed payloads: one for each different region to the packet's end.
    pub payloads: Vec<Packed>,
    /// Launches in order, one a node.
    pub steps: Vec<Step>,
    /// What the launches are called.
    pub stages: Vec<StageInfo>,
    /// `u32`: the predicate words; none when no stage decides.
    pub predicate: Option<Column>,
    /// How deep packets are parsed: nothing of them is touched when this is `Annotation`.
    pub depth: Base,
    /// Columns that are copied to the device, behind the slot's header.
    pub input: Area,
    /// Columns that are copied both ways: predicates, slices that are written.
    pub both: Area,
    /// Columns that are copied to the host: results.
    pub output: Area,
    /// Packed payload, copied to the device; `tile` is 0.
    pub payload: Area,
    /// Bytes of a slot, packed payload included.
    pub slot_bytes: usize,
    /// Most bytes of packed payload; 0 when no stage asks for any.
    pub payload_bytes: usize,
}

/// What is copied for a batch, as ranges of the slot; some may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// Header, input columns, columns of both ways, packed payload.
    pub to_device: [Range<usize>; 4],
    /// Columns of both ways, output columns.
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

    /// Makes a plan by which these slices are copied beside those that the stages ask for.
    ///
    /// # Errors
    /// As [`new`](Self::new); what is wrong with one of the slices is said of the first node.
    pub fn with_slices(
        nodes: &[Node],
        limits: Limits,
        slices: &[Region],
    ) -> Result<Self, PlanError> {
        build::plan(nodes, limits, slices)
    }

    /// What is copied for `rows` packets with `payload` bytes of packed payload. Not a byte more comes to the host: what lies
    /// between is the host's.
    pub fn copies(&self, rows: usize, payload: usize) -> Copies {
        let tiles = rows.min(self.capacity).div_ceil(TILE);
        let (both, payload_at) = (self.both.range(tiles), self.payload.at as usize);
        let payload = payload_at..payload_at + payload.min(self.payload_bytes);
        Copies {
            to_device: [0..size_of::<Header>(), self.input.range(tiles), both.clone(), payload],
            to_host: [both, self.output.range(tiles)],
        }
    }

    /// How many tables the launches have.
    pub fn tables(&self) -> usize {
        self.steps.iter().filter(|step| step.has_table).count()
    }
}

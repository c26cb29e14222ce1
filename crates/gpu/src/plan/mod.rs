//! Plans: what a section does with each batch.
//!
//! A plan is made once from the section's stages and the ways between them, and then only read: which slices are copied
//! in, which kernels are launched in which order and on which packets, what comes back.
//!
//! # Predicates
//! A stage that decides between outputs has a **field** of bits in each packet's predicate word: 0 before it has decided,
//! output + 1 afterwards, all ones to drop the packet. A stage that only some outputs lead to treats the rows for which one
//! of its conditions holds; all threads are launched, those of other rows return at once (Snap, section 4.3).

use std::sync::Arc;

use crate::Stage;
use crate::kernel::{Kernel, Launch};
use crate::region::Region;

/// A stage's place in a section, and where its packets come from.
pub struct Node {
    /// The stage.
    pub stage: Arc<dyn Stage>,
    /// The outputs of earlier nodes that lead here; empty when all packets of the batch come.
    pub from: Vec<Edge>,
    /// Predicates of which one must hold beside (`CHK_ANNO`): a node and its output.
    pub only: Option<Edge>,
}

/// An output of a node: its index in the section, and the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The node.
    pub node: usize,
    /// Its output.
    pub output: u32,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PlanError {
    /// The node that it is about.
    pub node: usize,
    /// What is wrong with it.
    pub message: String,
}

/// A launch of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kernel.
    pub kernel: Kernel,
    /// What it is given.
    pub launch: Launch,
}

/// A part of a slot that is copied as one: for `n` rows the first `n / TILE` tiles of it, rounded up. So a partial batch
/// costs what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Where it begins in the slot.
    pub at: u32,
    /// Bytes of a tile.
    pub tile: u32,
}

/// What a section does with each batch.
///
/// A slot is: header, input area, area of both ways, output area, packed payload. An area is a row of tiles, a tile holds the
/// rows of [`TILE`](crate::kernel::TILE) packets of each of the area's columns.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Most packets of a batch: a multiple of [`TILE`](crate::kernel::TILE).
    pub capacity: usize,
    /// Slices that the batch is gathered from, after the union of all requests.
    pub columns: Vec<Region>,
    /// Launches in order, one a node.
    pub steps: Vec<Step>,
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

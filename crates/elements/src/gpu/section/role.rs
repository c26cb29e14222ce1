//! The role of each GPU element in its section, from its arguments.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use millrace_core::Reason;
use millrace_core::element::Receiver;
use millrace_gpu::Stage;
use millrace_gpu::region::Region;
use millrace_gpu::section::Mode;

use super::predicate::Predicate;

/// The role of an element in its section.
pub(crate) enum Role {
    /// The entry for packets.
    Batcher(Collecting),
    /// Chooses between device and CPU.
    Balancer(Balancing),
    /// The start of the work on the device.
    ToDevice,
    /// A step of the work on the device.
    Stage(StageRole),
    /// The end of the work on the device.
    ToHost,
    /// Keeps batches in order; the maximum number of them.
    CompletionQueue(Option<usize>),
    /// The exit for packets: its tasks, and the annotation for predicates.
    Debatcher(Receiver, usize),
}

/// The roles of a router's elements by index.
pub(crate) type Roles = BTreeMap<usize, Role>;

/// How to collect packets.
#[derive(Clone, Debug)]
pub(crate) struct Collecting {
    /// Maximum number of packets in a batch.
    pub(crate) capacity: usize,
    /// Maximum age of a batch's oldest packet.
    pub(crate) timeout: Duration,
    /// Maximum bytes of payload in a batch.
    pub(crate) bytes: usize,
    /// Maximum number of a thread's batches on the device at once, if the Batcher sets it.
    pub(crate) slots: Option<usize>,
    /// What to copy in addition to what the elements need.
    pub(crate) slices: Vec<Region>,
}

/// How to divide batches between device and CPU.
#[derive(Clone, Debug)]
pub(crate) struct Balancing {
    pub(crate) mode: Mode,
    /// The time between adjustments.
    pub(crate) interval: Duration,
    /// The part of the batches that goes the other way.
    pub(crate) probe: f64,
}

/// An element's [`Stage`].
pub(crate) struct StageRole {
    pub(crate) stage: Arc<dyn Stage>,
    /// The packets that it processes, of those that arrive (CHK_ANNO).
    pub(crate) only: Option<Predicate>,
    /// The number of its element's outputs.
    pub(crate) ports: usize,
    /// The drop reason of a packet that it decides to drop, by its result.
    pub(crate) reason: fn(u32) -> Reason,
    /// The bytes of the annotations that it writes when packets leave the section.
    pub(crate) notes: Option<Range<usize>>,
}

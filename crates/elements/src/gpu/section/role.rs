//! What each GPU element is to its section, as its arguments say.

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

/// What an element is to its section.
pub(crate) enum Role {
    /// Where packets go in.
    Batcher(Collecting),
    /// What chooses between device and CPU.
    Balancer(Balancing),
    /// The beginning of what is done on the device.
    ToDevice,
    /// Something done on the device.
    Stage(StageRole),
    /// The end of what is done on the device.
    ToHost,
    /// What keeps batches in order, and how many of them.
    CompletionQueue(Option<usize>),
    /// Where packets come out: its tasks, and the annotation for predicates.
    Debatcher(Receiver, usize),
}

/// The roles of a router's elements by index.
pub(crate) type Roles = BTreeMap<usize, Role>;

/// How packets are collected.
#[derive(Clone, Debug)]
pub(crate) struct Collecting {
    /// The most packets of a batch.
    pub(crate) capacity: usize,
    /// How old a batch may grow before it ends.
    pub(crate) timeout: Duration,
    /// The most bytes of payload of a batch.
    pub(crate) bytes: usize,
    /// Batches of a thread on the device at once, if the Batcher says so.
    pub(crate) slots: Option<usize>,
    /// What is copied beside what the elements ask for.
    pub(crate) slices: Vec<Region>,
}

/// How batches are divided between device and CPU.
#[derive(Clone, Debug)]
pub(crate) struct Balancing {
    pub(crate) mode: Mode,
    /// The time between two looks.
    pub(crate) interval: Duration,
    /// The part of the batches that goes the other way.
    pub(crate) probe: f64,
}

/// A [`Stage`] among the elements.
pub(crate) struct StageRole {
    pub(crate) stage: Arc<dyn Stage>,
    /// The packets that it treats, of those that come (CHK_ANNO).
    pub(crate) only: Option<Predicate>,
    /// How many outputs its element has.
    pub(crate) ports: usize,
    /// Why a packet is dropped that it decides to drop, by its result.
    pub(crate) reason: fn(u32) -> Reason,
    /// Bytes of the annotations that it writes when packets leave the section.
    pub(crate) notes: Option<Range<usize>>,
}

//! What an element of a section is to the rest of it.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

use millrace_core::{Context, Packet};

use crate::kernel::{Kernel, NONE};
use crate::plan::{Decision, Field};
use crate::region::{Layers, Region};
use crate::table::Changes;

/// What a stage needs of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSpec {
    /// The kernel that does its work.
    pub kernel: Kernel,
    /// The slices that it reads and writes, in the kernel's order; at most one of them to the packet's end.
    pub regions: Vec<Region>,
    /// What the kernel's description says.
    pub constants: [u32; 4],
    /// Whether it has a table.
    pub table: bool,
    /// How many outputs it decides between, about every packet that it treats; 0 when it decides nothing (one output,
    /// which all packets take).
    pub outputs: u32,
}

/// An element of a section: what it does on a device, and its twin on the CPU.
///
/// Both give each packet a result (32 bits, [`NONE`] where there is none) and, when the stage decides between
/// outputs, one of them or [`Rows::DROP`]. They must agree on every packet.
pub trait Stage: Send + Sync {
    /// The element's name, for messages.
    fn name(&self) -> &str;

    /// What it needs of the plan. Does not change.
    fn spec(&self) -> StageSpec;

    /// The table that the kernel reads now; none when it has none. Called some times a batch: must be cheap.
    fn table(&self) -> Option<StageTable>;

    /// What the twin reads now in place of the table. Taken once for a batch that the twin treats, and kept until it is
    /// delivered, so that a batch sees one epoch however many calls of [`run`](Self::run) it takes.
    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    /// Does the kernel's work on the CPU, on the rows that are [active](Rows::is_active): as many as an engine batch
    /// holds, at most. `snapshot` is what [`snapshot`](Self::snapshot) gave for their batch.
    fn run(&self, snapshot: &Snapshot, rows: &mut Rows<'_>);

    /// Hands results to the packets (annotations), and counts. Called once for the packets of each batch, on the lane's
    /// thread and in order, as many as an engine batch holds at a time, whichever side did the work; `results` are
    /// those of the packets in their order. `snapshot` is that of the
    /// [table](StageTable::snapshot) that the kernel had, or the one that [`run`](Self::run) had.
    fn deliver(
        &self,
        cx: &mut Context,
        snapshot: &Snapshot,
        packets: &mut [Packet],
        results: &Results<'_>,
    );
}

/// What a stage found about packets, in their order: the results, [`NONE`] of packets that it did not treat, and what it
/// decided.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    results: &'a [u32],
    predicates: &'a [u32],
    field: Option<Field>,
}

impl<'a> Results<'a> {
    pub(crate) fn new(results: &'a [u32], predicates: &'a [u32], field: Option<Field>) -> Self {
        Self { results, predicates, field }
    }

    /// What the stage decided about each packet: [`Decision::Open`] about those that it did not treat, and about all
    /// when it decides nothing.
    pub fn decisions(&self) -> impl Iterator<Item = Decision> + use<'a> {
        let field = self.field;
        let decision =
            move |predicate| field.map_or(Decision::Open, |field| field.decision(predicate));
        self.predicates.iter().map(move |&predicate| decision(predicate))
    }
}

impl Deref for Results<'_> {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        self.results
    }
}

/// A stage's table at one time.
#[derive(Clone, Debug)]
pub struct StageTable {
    /// Grows by every change.
    pub epoch: u64,
    /// What the kernel reads.
    pub words: Arc<Vec<u32>>,
    /// Where the words have changed lately, as far as that is known.
    pub changes: Arc<Changes>,
    /// What [`Stage::deliver`] is given with results that come of it.
    pub snapshot: Snapshot,
}

/// What a stage knows of itself at one time: whatever it needs to treat a batch to its end, though it changes meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(Option<Arc<dyn Any + Send + Sync>>);

impl Snapshot {
    /// A snapshot that is this.
    pub fn of<T: Any + Send + Sync>(what: Arc<T>) -> Self {
        Self(Some(what))
    }

    /// What it is; none in the empty snapshot.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.clone()?.downcast().ok()
    }
}

/// The packets of a batch, as a CPU twin sees them.
pub struct Rows<'a> {
    packets: &'a mut [Packet],
    layers: &'a [Layers],
    active: &'a [bool],
    results: &'a mut [u32],
    decisions: &'a mut [u32],
}

impl<'a> Rows<'a> {
    /// The decision to drop a packet.
    pub const DROP: u32 = u32::MAX - 1;

    /// Rows of as many packets as there are flags, results and decisions.
    pub fn new(
        packets: &'a mut [Packet],
        active: &'a [bool],
        results: &'a mut [u32],
        decisions: &'a mut [u32],
    ) -> Self {
        results.fill(NONE);
        decisions.fill(NONE);
        Self { packets, layers: &[], active, results, decisions }
    }

    /// Slices are taken from where layers were when the batch was gathered, even if a stage before has
    /// changed headers since.
    pub(crate) fn with_layers(self, layers: &'a [Layers]) -> Self {
        Self { layers, ..self }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packets, active or not.
    pub fn packets(&self) -> &[Packet] {
        self.packets
    }

    /// Packets, which of them are active, results and decisions, each for itself: for loops that treat many at once.
    pub fn parts(&mut self) -> (&mut [Packet], &[bool], &mut [u32], &mut [u32]) {
        (self.packets, self.active, self.results, self.decisions)
    }

    /// Whether the stage treats this row.
    pub fn is_active(&self, row: usize) -> bool {
        self.active.get(row).copied().unwrap_or(false)
    }

    /// What a row's packet has of a region that the stage asked for: the bytes that the kernel is given, without zeros behind.
    pub fn slice(&self, row: usize, region: &Region) -> &[u8] {
        let Some(packet) = self.packets.get(row) else { return &[] };
        self.layers_of(row, packet, region).slice(packet, region)
    }

    /// As [`slice`](Self::slice), for writing: only with a region that the stage asked to write. A shared packet gets a copy of
    /// its own first.
    pub fn slice_mut(&mut self, row: usize, region: &Region) -> &mut [u8] {
        let Some(packet) = self.packets.get(row) else { return &mut [] };
        let layers = self.layers_of(row, packet, region);
        match self.packets.get_mut(row) {
            Some(packet) => layers.slice_mut(packet, region),
            None => &mut [],
        }
    }

    fn layers_of(&self, row: usize, packet: &Packet, region: &Region) -> Layers {
        self.layers.get(row).copied().unwrap_or_else(|| Layers::of(packet, region.depth()))
    }

    /// Sets a row's result.
    pub fn set_result(&mut self, row: usize, result: u32) {
        if let Some(slot) = self.results.get_mut(row) {
            *slot = result;
        }
    }

    /// Sets the output that a row takes, or [`DROP`](Self::DROP).
    pub fn decide(&mut self, row: usize, output: u32) {
        if let Some(slot) = self.decisions.get_mut(row) {
            *slot = output;
        }
    }
}

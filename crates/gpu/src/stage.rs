//! The interface between an element of a section and the rest of the section.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

use millrace_core::{Context, Packet};

use crate::kernel::{Kernel, NONE};
use crate::plan::{Decision, Field};
use crate::region::{Layers, Region};
use crate::table::Changes;

/// What a stage needs from the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSpec {
    /// The kernel of the stage.
    pub kernel: Kernel,
    /// The slices that it reads and writes, in the order that the kernel expects. At most one of them extends to the
    /// packet's end.
    pub regions: Vec<Region>,
    /// Constants, as the kernel's description defines them.
    pub constants: [u32; 4],
    /// True if the stage has a table.
    pub table: bool,
    /// The number of outputs among which the stage chooses for every packet that it processes. 0 if it does not
    /// choose: all packets take its only output.
    pub outputs: u32,
}

/// An element of a section: its work on a device, and its twin on the CPU.
///
/// Both give each packet a result (32 bits, [`NONE`] if there is none). If the stage chooses among outputs, they also
/// choose an output or [`Rows::DROP`] for each packet. Both must agree on every packet.
pub trait Stage: Send + Sync {
    /// The element's name, for messages.
    fn name(&self) -> &str;

    /// What it needs from the plan. The value must not change.
    fn spec(&self) -> StageSpec;

    /// The table that the kernel reads at present; `None` if it has none. Called several times per batch, so it must
    /// be cheap.
    fn table(&self) -> Option<StageTable>;

    /// What the twin reads at present instead of the table. It is taken once for a batch that the twin processes, and
    /// kept until the batch is delivered. So a batch sees one epoch, in however many calls of [`run`](Self::run) it
    /// is processed.
    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    /// Does the kernel's work on the CPU, on the rows that are [active](Rows::is_active). There are at most as many
    /// rows as packets in an engine batch. `snapshot` is the value of [`snapshot`](Self::snapshot) for their batch.
    fn run(&self, snapshot: &Snapshot, rows: &mut Rows<'_>);

    /// Stores results in the packets' annotations, and counts. It is called for the packets of each batch, on the
    /// lane's thread and in order, with at most an engine batch at a time, whether the device or the CPU did the
    /// work. `results` are in the order of the packets. `snapshot` is that of the [table](StageTable::snapshot) that
    /// the kernel used, or the one that [`run`](Self::run) used.
    fn deliver(
        &self,
        cx: &mut Context,
        snapshot: &Snapshot,
        packets: &mut [Packet],
        results: &Results<'_>,
    );
}

/// The results of a stage about packets, in their order. The result of a packet that the stage did not process is
/// [`NONE`]. Includes the decisions of the stage.
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

    /// The stage's decision about each packet. It is [`Decision::Open`] for packets that the stage did not process,
    /// and for all packets if the stage does not choose.
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

/// A stage's table at one moment.
#[derive(Clone, Debug)]
pub struct StageTable {
    /// Increases with every change.
    pub epoch: u64,
    /// The words that the kernel reads.
    pub words: Arc<Vec<u32>>,
    /// The ranges that changed recently, as far as they are known.
    pub changes: Arc<Changes>,
    /// The value that [`Stage::deliver`] gets together with results that were computed from this table.
    pub snapshot: Snapshot,
}

/// The state of a stage at one moment: all that it needs to finish a batch, even if it changes meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(Option<Arc<dyn Any + Send + Sync>>);

impl Snapshot {
    /// A snapshot that contains this value.
    pub fn of<T: Any + Send + Sync>(what: Arc<T>) -> Self {
        Self(Some(what))
    }

    /// The value; `None` in the empty snapshot.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.clone()?.downcast().ok()
    }
}

/// The packets of a batch, as a CPU twin processes them.
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

    /// Rows for packets. There must be as many flags, results and decisions as packets.
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

    /// Makes slices use the header positions at the time when the batch was gathered, even if an earlier stage has
    /// changed headers since.
    pub(crate) fn with_layers(self, layers: &'a [Layers]) -> Self {
        Self { layers, ..self }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packets, active or not.
    pub fn packets(&self) -> &[Packet] {
        self.packets
    }

    /// Packets, active flags, results and decisions, for loops that process several rows at once.
    pub fn parts(&mut self) -> (&mut [Packet], &[bool], &mut [u32], &mut [u32]) {
        (self.packets, self.active, self.results, self.decisions)
    }

    /// True if the stage processes this row.
    pub fn is_active(&self, row: usize) -> bool {
        self.active.get(row).copied().unwrap_or(false)
    }

    /// The bytes of a region that a row's packet has. The stage must have asked for the region. The kernel gets the
    /// same bytes, padded with zeros.
    pub fn slice(&self, row: usize, region: &Region) -> &[u8] {
        let Some(packet) = self.packets.get(row) else { return &[] };
        self.layers_of(row, packet, region).slice(packet, region)
    }

    /// As [`slice`](Self::slice), for writing. The stage must have asked to write the region. A shared packet is
    /// copied first.
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

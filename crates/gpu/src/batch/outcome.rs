//! What became of a batch.

use std::ops::Range;

use crate::kernel::{Column, TILE};
use crate::plan::{Field, Plan};
use crate::region::Layers;
use crate::stage::Results;

/// What became of a batch, on a device or on the CPU: each step's results, and the predicate words. Kept for the next batch, it
/// allocates no more once it has seen the largest.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub(super) results: Vec<Vec<u32>>,
    pub(super) predicates: Vec<u32>,
    pub(super) layers: Vec<Layers>,
    pub(super) active: Vec<bool>,
    pub(super) decisions: Vec<u32>,
}

impl Outcome {
    /// Forgets everything, for the next batch of this plan.
    pub fn clear(&mut self, plan: &Plan) {
        self.predicates.clear();
        self.results.resize_with(plan.steps.len(), Vec::new);
        self.results.iter_mut().for_each(Vec::clear);
    }

    /// How many packets there were.
    pub fn rows(&self) -> usize {
        self.predicates.len()
    }

    /// A step's results, one a packet: [`NONE`](crate::kernel::NONE) where there is none.
    pub fn results(&self, step: usize) -> &[u32] {
        self.results.get(step).map(Vec::as_slice).unwrap_or_default()
    }

    /// The predicate words, one a packet: 0 when no stage decides.
    pub fn predicates(&self) -> &[u32] {
        &self.predicates
    }

    /// What became of some of the packets.
    pub(crate) fn part(&self, rows: Range<usize>) -> Part<'_> {
        Part { outcome: self, rows }
    }
}

/// What became of some packets of a batch, in their order.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    outcome: &'a Outcome,
    rows: Range<usize>,
}

impl<'a> Part<'a> {
    /// A step's results, one a packet: [`NONE`](crate::kernel::NONE) where there is none.
    pub fn results(&self, step: usize) -> &'a [u32] {
        self.outcome.results(step).get(self.rows.clone()).unwrap_or_default()
    }

    /// The predicate words, one a packet: 0 when no stage decides.
    pub fn predicates(&self) -> &'a [u32] {
        self.outcome.predicates().get(self.rows.clone()).unwrap_or_default()
    }

    /// What a step's stage is given to deliver, whose field of the predicate word is `field`.
    pub(crate) fn of_step(&self, step: usize, field: Option<Field>) -> Results<'a> {
        Results::new(self.results(step), self.predicates(), field)
    }
}

impl Plan {
    /// Takes results and predicate words of a batch of `rows` packets from a slot that is done.
    pub fn collect(&self, block: &[u8], rows: usize, outcome: &mut Outcome) {
        outcome.clear(self);
        let rows = rows.min(self.capacity);
        match self.predicate {
            Some(column) => read(column, block, rows, &mut outcome.predicates),
            None => outcome.predicates.resize(rows, 0),
        }
        for (step, results) in self.steps.iter().zip(&mut outcome.results) {
            read(step.launch.result, block, rows, results);
        }
    }
}

/// Reads a column of `u32`.
fn read(column: Column, block: &[u8], rows: usize, out: &mut Vec<u32>) {
    for first in (0..rows).step_by(TILE) {
        let bytes = (rows - first).min(TILE) * size_of::<u32>();
        let at = column.of(first);
        let tile = block.get(at..at + bytes).unwrap_or_default();
        let (words, _) = tile.as_chunks();
        out.extend(words.iter().map(|&word| u32::from_ne_bytes(word)));
    }
    out.resize(rows, crate::kernel::NONE);
}

//! Runs a plan on the CPU, with the stages' twins instead of the kernels.

use std::sync::Arc;

use millrace_core::Packet;

use super::Outcome;
use crate::kernel::{NONE, TILE};
use crate::plan::Plan;
use crate::region::{Base, Layers};
use crate::stage::{Rows, Snapshot, Stage};

impl Plan {
    /// Processes a batch, or a part of it, on the CPU, and appends the results to `outcome`. Slices that stages write
    /// are written in the packets. Predicate words are the same as those of the kernels. `snapshots` are those of the
    /// stages, taken once for all parts of a batch.
    pub fn run_on_cpu(
        &self,
        stages: &[Arc<dyn Stage>],
        snapshots: &[Snapshot],
        packets: &mut [Packet],
        outcome: &mut Outcome,
    ) {
        outcome.results.resize_with(self.steps.len(), Vec::new);
        for packets in packets.chunks_mut(TILE) {
            self.run_tile(stages, snapshots, packets, outcome);
        }
    }

    fn run_tile(
        &self,
        stages: &[Arc<dyn Stage>],
        snapshots: &[Snapshot],
        packets: &mut [Packet],
        outcome: &mut Outcome,
    ) {
        let first = outcome.predicates.len();
        let end = first + packets.len();
        let Outcome { results, predicates, layers, active, decisions } = outcome;
        predicates.resize(end, 0);
        let predicates = predicates.get_mut(first..).unwrap_or_default();
        layers.clear();
        if self.depth > Base::Annotation {
            layers.extend(packets.iter().map(|packet| Layers::of(packet, self.depth)));
        }
        let stages = stages.iter().zip(snapshots);
        for ((step, (stage, snapshot)), results) in self.steps.iter().zip(stages).zip(results) {
            active.clear();
            active.extend(predicates.iter().map(|&predicate| step.treats(predicate)));
            decisions.resize(packets.len(), NONE);
            results.resize(end, NONE);
            let results = results.get_mut(first..).unwrap_or_default();
            let mut rows = Rows::new(packets, active, results, decisions).with_layers(layers);
            stage.run(snapshot, &mut rows);
            let Some(field) = step.field else { continue };
            for ((predicate, &decision), _) in
                predicates.iter_mut().zip(&*decisions).zip(&*active).filter(|(_, active)| **active)
            {
                // As the kernels do: NONE leaves the field 0, DROP sets all bits.
                let value = decision.wrapping_add(1) << field.shift & field.mask();
                *predicate = *predicate & !field.mask() | value;
            }
        }
    }
}

//! A plan as text.

use std::fmt;

use super::layout::Way;
use super::{Edge, Plan, StageInfo, Step};

impl Plan {
    /// Bytes of columns per packet that are copied to the device and back, without packed payload.
    pub fn bytes_a_packet(&self) -> (usize, usize) {
        let (input, both, output) = (self.input.tile, self.both.tile, self.output.tile);
        let rows = crate::kernel::TILE;
        ((input + both) as usize / rows, (both + output) as usize / rows)
    }
}

/// Columns, bytes per packet in each direction, launches with their conditions.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (up, down) = self.bytes_a_packet();
        write!(f, "batch: {} packets at most, {} bytes a slot; ", self.capacity, self.slot_bytes)?;
        writeln!(f, "a packet takes {up} bytes to the device and {down} back")?;
        if self.payload_bytes > 0 {
            writeln!(f, "payload: {} bytes a batch at most, to the device", self.payload_bytes)?;
        }
        for slice in &self.slices {
            let merged = &slice.merged;
            let way = match slice.way {
                Way::In => "to the device",
                Way::Both => "both ways",
                Way::Out => "to the host",
            };
            let (base, from) = (merged.base.name(), merged.begin);
            writeln!(f, "column: {base} {from}/{}, {way}", merged.bytes)?;
        }
        for packed in &self.payloads {
            writeln!(f, "payload column: {}, to the device", packed.region)?;
        }
        for (index, (step, stage)) in self.steps.iter().zip(&self.stages).enumerate() {
            self.print_launch(f, index, step, stage)?;
        }
        Ok(())
    }
}

impl Plan {
    fn print_launch(
        &self,
        f: &mut fmt::Formatter<'_>,
        index: usize,
        step: &Step,
        stage: &StageInfo,
    ) -> fmt::Result {
        write!(f, "launch {index}: {} for {}", step.kernel.name(), stage.name)?;
        if step.has_table {
            write!(f, ", table {}", step.launch.table)?;
        }
        for (nth, region) in stage.regions.iter().enumerate() {
            write!(f, "{}{region}", if nth == 0 { ", on " } else { "; " })?;
        }
        writeln!(f)?;
        let follows = |a: &Edge, b: &Edge| a.node == b.node && a.output + 1 == b.output;
        for run in stage.from.chunk_by(follows) {
            match run {
                [first, .., last] => {
                    writeln!(f, "  from {} [{}-{}]", self.name(*first), first.output, last.output)?;
                }
                edges => {
                    for edge in edges {
                        writeln!(f, "  from {}", self.edge(*edge))?;
                    }
                }
            }
        }
        if let Some(edge) = stage.only {
            writeln!(f, "  only of {}", self.edge(edge))?;
        }
        for condition in step.launch.condition.iter().take(step.launch.conditions as usize) {
            writeln!(f, "  where predicate & {:#x} = {:#x}", condition.mask, condition.value)?;
        }
        if let Some(field) = step.field {
            let last = field.shift + field.bits - 1;
            let outputs = field.outputs;
            writeln!(f, "  decides between {outputs} outputs: bits {}-{last}", field.shift)?;
        }
        Ok(())
    }

    fn edge(&self, edge: Edge) -> String {
        format!("{} [{}]", self.name(edge), edge.output)
    }

    fn name(&self, edge: Edge) -> &str {
        self.stages.get(edge.node).map_or("?", |stage| &stage.name)
    }
}

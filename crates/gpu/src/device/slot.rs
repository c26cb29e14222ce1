//! The part of a submission that is the same for every backend: checks, the header, and the ranges to copy.

use std::mem::size_of;
use std::ops::Range;

use super::{DeviceError, DeviceId, Table};
use crate::kernel::{Column, Header, Kernel, MAX_CONDITIONS, MAX_TABLES, TILE};
use crate::plan::{Area, Plan};

/// Bytes of the header.
pub(crate) const HEADER: usize = size_of::<Header>();

/// Two ranges with at most this number of bytes between them are copied as one, because another copy would cost more.
const GAP: usize = 256;

/// The size of a slot's memory in bytes. It is larger than in the plan, because kernels read units of up to 16 bytes,
/// also at the end.
pub(crate) fn memory_of(plan: &Plan) -> usize {
    plan.slot_bytes.next_multiple_of(64) + 64
}

/// The number of tiles for this number of rows.
pub(crate) fn tiles(rows: usize) -> usize {
    rows.div_ceil(TILE)
}

/// Ranges of a slot, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    parts: [Range<usize>; 4],
    count: usize,
}

impl Ranges {
    /// The ranges that are copied to the device for a batch.
    pub(crate) fn to_device(plan: &Plan, rows: usize, payload: usize) -> Self {
        let mut ranges = Self::default();
        for range in plan.copies(rows, payload).to_device {
            ranges.push(range, GAP);
        }
        ranges
    }

    /// The ranges that are copied back.
    pub(crate) fn to_host(plan: &Plan, rows: usize) -> Self {
        let mut ranges = Self::default();
        for range in plan.copies(rows, 0).to_host {
            ranges.push(range, 0);
        }
        ranges
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.parts.iter().take(self.count).cloned()
    }

    fn push(&mut self, range: Range<usize>, gap: usize) {
        if range.is_empty() {
            return;
        }
        let last = self.count.checked_sub(1).and_then(|last| self.parts.get_mut(last));
        match last {
            Some(last) if last.end <= range.start && range.start - last.end <= gap => {
                last.end = range.end;
            }
            _ => {
                if let Some(next) = self.parts.get_mut(self.count) {
                    *next = range;
                    self.count += 1;
                }
            }
        }
    }
}

fn part(area: Area, rows: usize) -> Range<usize> {
    let at = area.at as usize;
    at..at + tiles(rows) * area.tile as usize
}

/// Checks that all parts of a plan are within its slot. Kernels rely on it.
pub(crate) fn check_plan(plan: &Plan) -> Result<(), DeviceError> {
    let bad = |what: &str| Err(DeviceError::Unsupported(format!("a plan with {what}")));
    let inside = |from: usize, bytes: usize| {
        from.checked_add(bytes).is_some_and(|end| end <= plan.slot_bytes)
    };
    if plan.capacity == 0 || !plan.capacity.is_multiple_of(TILE) {
        return bad("a capacity that is no multiple of a tile");
    }
    if plan.slot_bytes < HEADER || u32::try_from(plan.slot_bytes).is_err() {
        return bad("a slot without a header, or of 4 GiB");
    }
    for area in [plan.input, plan.both, plan.output] {
        let range = part(area, plan.capacity);
        if area.tile != 0 && (range.start < HEADER || range.end > plan.slot_bytes) {
            return bad("an area outside of its slot");
        }
    }
    let payload = plan.payload.at as usize;
    if plan.payload_bytes != 0 && (payload < HEADER || !inside(payload, plan.payload_bytes)) {
        return bad("payload outside of its slot");
    }
    for step in &plan.steps {
        let launch = &step.launch;
        let last = plan.capacity - 1;
        // A column with stride 0 does not exist, but kernels compute its address nevertheless.
        let fits = |column: &Column, width: usize| {
            (column.stride == 0 || column.at as usize >= HEADER) && inside(column.of(last), width)
        };
        let words = [launch.offset, launch.length, launch.predicate, launch.result];
        let aligned = |column: &Column, to: u32| {
            column.at.is_multiple_of(to)
                && column.tile.is_multiple_of(to)
                && column.stride.is_multiple_of(to)
        };
        if !words.iter().all(|column| fits(column, 4) && aligned(column, 4))
            || !launch.valid.iter().all(|column| fits(column, 2) && aligned(column, 2))
            || !launch.input.iter().all(|column| fits(column, column.stride as usize))
        {
            return bad("a column outside of its slot");
        }
        if launch.offset.stride != 0 && launch.payload as usize != payload {
            return bad("a launch that has its payload elsewhere");
        }
        if launch.table as usize >= MAX_TABLES || launch.conditions as usize > MAX_CONDITIONS {
            return bad("too many tables or conditions");
        }
        if step.kernel != Kernel::Invert && !step.has_table {
            return bad("no table for a kernel that has one");
        }
        if launch.conditions != 0 && launch.predicate.stride == 0 {
            return bad("conditions and no predicates");
        }
    }
    Ok(())
}

/// The number of tables that the plan's batches need.
pub(crate) fn tables_of(plan: &Plan) -> usize {
    let with_table = plan.steps.iter().filter(|step| step.has_table);
    with_table.map(|step| step.launch.table as usize + 1).max().unwrap_or(0)
}

/// Checks the parameters of a submission.
pub(crate) fn check_batch(
    plan: &Plan,
    device: DeviceId,
    needed: usize,
    rows: usize,
    payload: usize,
    tables: &[Table],
) -> Result<(), DeviceError> {
    let refuse = |why: String| Err(DeviceError::Step(why));
    if rows == 0 || rows > plan.capacity {
        return refuse(format!("{rows} packets in a batch of 1 to {}", plan.capacity));
    }
    if payload > plan.payload_bytes {
        return refuse(format!("{payload} bytes of payload where {} fit", plan.payload_bytes));
    }
    if tables.len() < needed || tables.len() > MAX_TABLES {
        return refuse(format!("{} tables for a plan that needs {needed}", tables.len()));
    }
    for table in tables {
        if table.device() != device {
            return refuse("a table of another device, or of this one before it was lost".into());
        }
        if !table.is_resident()? {
            return refuse("a table that has not arrived yet".into());
        }
    }
    Ok(())
}

/// Writes the header of a batch to the start of its slot.
pub(crate) fn write_header(
    block: &mut [u8],
    rows: usize,
    sequence: u32,
    payload: usize,
    tables: &[Table],
) {
    let mut header = [0u8; HEADER];
    let words = [rows as u32, sequence, payload as u32, 0];
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
    let addresses = tables.iter().flat_map(|table| table.address().to_ne_bytes());
    for (to, from) in header.iter_mut().zip(bytes.chain(addresses)) {
        *to = from;
    }
    if let Some(start) = block.get_mut(..HEADER) {
        start.copy_from_slice(&header);
    }
}

/// The number of the next batch. It is never 0, which means no batch.
pub(crate) fn next_sequence(sequence: u32) -> u32 {
    sequence.wrapping_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Step;

    fn plan() -> Plan {
        Plan {
            capacity: 4 * TILE,
            input: Area { at: 192, tile: 1000 },
            both: Area { at: 4192, tile: 10 },
            output: Area { at: 5000, tile: 100 },
            payload: Area { at: 6000, tile: 0 },
            slot_bytes: 8000,
            payload_bytes: 2000,
            ..Plan::default()
        }
    }

    #[test]
    fn a_partial_batch_is_copied_as_far_as_it_goes() {
        let parts = |ranges: Ranges| ranges.iter().collect::<Vec<_>>();
        let plan = plan();
        assert_eq!(parts(Ranges::to_device(&plan, 1, 0)), [0..1192, 4192..4202]);
        assert_eq!(
            parts(Ranges::to_device(&plan, TILE + 1, 100)),
            [0..2192, 4192..4212, 6000..6100]
        );
        assert_eq!(parts(Ranges::to_device(&plan, 4 * TILE, 7)), [0..4232, 6000..6007]);
        assert_eq!(parts(Ranges::to_host(&plan, 4 * TILE)), [4192..4232, 5000..5400]);
    }

    #[test]
    fn all_parts_of_a_plan_are_within_its_slot() {
        assert_eq!(check_plan(&plan()), Ok(()));
        let breaks: [fn(&mut Plan); 7] = [
            |plan| plan.capacity = 100,
            |plan| plan.input.at = 100,
            |plan| plan.output.tile = 1000,
            |plan| plan.payload_bytes = 2001,
            |plan| plan.slot_bytes = 100,
            |plan| plan.steps[0].launch.result = Column { at: 7000, tile: 1024, stride: 4 },
            |plan| plan.steps[0].launch.predicate = Column { at: 5000, tile: 1026, stride: 4 },
        ];
        for (number, spoil) in breaks.iter().enumerate() {
            let mut bad = plan();
            let launch = Default::default();
            let step = Step { kernel: Kernel::Invert, launch, has_table: false, field: None };
            bad.steps.push(step);
            assert_eq!(check_plan(&bad), Ok(()));
            spoil(&mut bad);
            assert!(check_plan(&bad).is_err(), "number {number}");
        }
    }
}

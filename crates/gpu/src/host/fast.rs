//! The host backend's fast mode: a batch is done when `submit` returns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::block::Block;
use super::launch::{HostLaunch, compile_alone};
use crate::device::slot::{
    check_batch, check_plan, memory_of, next_sequence, tables_of, write_header,
};
use crate::device::{
    Caps, Device, DeviceError, DeviceId, DeviceLane, Poll, SlotId, Table, TableMemory, Ticket,
};
use crate::plan::Plan;

/// The processor as a device: no copies, no threads, and deterministic results.
pub struct Fast {
    id: DeviceId,
    caps: Caps,
}

impl Fast {
    /// Opens it. `why` is the reason for this backend, in the message at the start.
    pub fn open(why: &str) -> Arc<dyn Device> {
        let name = if why.is_empty() {
            "host backend".to_owned()
        } else {
            format!("host backend ({why})")
        };
        let caps = Caps { backend: "host", name, memory: 0, asynchronous: false };
        Arc::new(Self { id: DeviceId::new(), caps })
    }
}

impl Device for Fast {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn id(&self) -> DeviceId {
        self.id
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn load_table(&self, words: &Arc<Vec<u32>>) -> Result<Table, DeviceError> {
        // A table's own memory is used if it is aligned as kernels need it.
        let aligned = words.as_ptr().addr().is_multiple_of(16);
        let table = if aligned {
            FastTable { device: self.id, words: Words::Shared(words.clone()) }
        } else {
            let mut block = Block::new(words.len() * 4);
            for (to, from) in block.bytes_mut().chunks_exact_mut(4).zip(words.iter()) {
                to.copy_from_slice(&from.to_ne_bytes());
            }
            FastTable { device: self.id, words: Words::Copied(block) }
        };
        Ok(Table::new(Arc::new(table)))
    }

    fn open_lane(
        &self,
        plan: &Arc<Plan>,
        slots: usize,
    ) -> Result<Box<dyn DeviceLane>, DeviceError> {
        check_plan(plan)?;
        let slot = || FastSlot { block: Block::new(memory_of(plan)), sequence: 0 };
        Ok(Box::new(FastLane {
            device: self.id,
            program: compile_alone(plan),
            tables: tables_of(plan),
            slots: (0..slots).map(|_| slot()).collect(),
            plan: plan.clone(),
            sequence: 0,
        }))
    }
}

struct FastTable {
    device: DeviceId,
    words: Words,
}

enum Words {
    Shared(Arc<Vec<u32>>),
    Copied(Block),
}

impl TableMemory for FastTable {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn address(&self) -> u64 {
        let address = match &self.words {
            Words::Shared(words) => words.as_ptr().expose_provenance(),
            Words::Copied(block) => block.bytes().as_ptr().expose_provenance(),
        };
        address as u64
    }

    fn is_resident(&self) -> Result<bool, DeviceError> {
        Ok(true)
    }
}

struct FastLane {
    device: DeviceId,
    plan: Arc<Plan>,
    program: Vec<HostLaunch>,
    tables: usize,
    slots: Vec<FastSlot>,
    sequence: u32,
}

struct FastSlot {
    block: Block,
    /// The number of the last batch in the slot.
    sequence: u32,
}

impl DeviceLane for FastLane {
    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn block(&mut self, slot: SlotId) -> Option<&mut [u8]> {
        let bytes = self.plan.slot_bytes;
        self.slots.get_mut(slot.0).and_then(|slot| slot.block.bytes_mut().get_mut(..bytes))
    }

    fn submit(
        &mut self,
        id: SlotId,
        rows: usize,
        payload: usize,
        tables: &[Table],
    ) -> Result<Ticket, DeviceError> {
        check_batch(&self.plan, self.device, self.tables, rows, payload, tables)?;
        let Some(slot) = self.slots.get_mut(id.0) else {
            return Err(DeviceError::Step(format!("there is no slot {}", id.0)));
        };
        self.sequence = next_sequence(self.sequence);
        slot.sequence = self.sequence;
        let block = slot.block.bytes_mut();
        write_header(block, rows, self.sequence, payload, tables);
        for step in &self.program {
            step.run(block, 0, rows);
        }
        Ok(Ticket { slot: id, sequence: self.sequence })
    }

    fn poll(&mut self, _: Ticket) -> Poll {
        Poll::Done
    }

    fn time_kernels(
        &mut self,
        rows: usize,
        payload: usize,
        tables: &[Table],
        times: u32,
    ) -> Result<Duration, DeviceError> {
        check_batch(&self.plan, self.device, self.tables, rows, payload, tables)?;
        self.sequence = next_sequence(self.sequence);
        for slot in &mut self.slots {
            slot.sequence = self.sequence;
            write_header(slot.block.bytes_mut(), rows, self.sequence, payload, tables);
        }
        let start = Instant::now();
        for _ in 0..times {
            for slot in &mut self.slots {
                self.program.iter().for_each(|step| step.run(slot.block.bytes_mut(), 0, rows));
            }
        }
        Ok(start.elapsed())
    }

    fn quiesce(&mut self, _: Duration) -> bool {
        true
    }
}

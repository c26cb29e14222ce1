//! A lane of the simulated device: the host's side of a stream.

use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::SimDevice;
use super::arena::Memory;
use super::faults::{Call, Point};
use super::resident::lost;
use super::stream::{Job, Mailbox, Program};
use crate::device::slot::{check_batch, memory_of, next_sequence, tables_of, write_header};
use crate::device::{DeviceError, DeviceLane, Poll, SlotId, Table, Ticket};
use crate::host::block::Block;
use crate::host::launch::{HostLaunch, compile};
use crate::plan::Plan;

pub(super) struct Lane {
    device: Arc<SimDevice>,
    number: u64,
    program: Arc<Program>,
    tables: usize,
    mailbox: Arc<Mailbox>,
    slots: Vec<Slot>,
    sequence: u32,
}

struct Slot {
    /// The number of the last batch in the slot.
    sequence: u32,
    state: State,
}

enum State {
    /// The slot belongs to the host, with the outcome of the last batch.
    Here {
        host: Block,
        device: Memory,
        outcome: Poll,
    },
    UnderWay,
}

impl Lane {
    pub(super) fn open(
        device: Arc<SimDevice>,
        plan: &Arc<Plan>,
        slots: usize,
    ) -> Result<Self, DeviceError> {
        Self::with_launches(device, plan, slots, compile(plan))
    }

    /// A lane with other kernels than the plan's.
    pub(super) fn with_launches(
        device: Arc<SimDevice>,
        plan: &Arc<Plan>,
        slots: usize,
        launches: Vec<HostLaunch>,
    ) -> Result<Self, DeviceError> {
        let slot = |_| {
            let (host, memory) = (Block::new(memory_of(plan)), device.allocate(memory_of(plan))?);
            let outcome = Poll::Failed(DeviceError::Step("there was no batch yet".to_owned()));
            Ok::<_, DeviceError>(Slot {
                sequence: 0,
                state: State::Here { host, device: memory, outcome },
            })
        };
        Ok(Self {
            number: device.machine.open(),
            program: Arc::new(Program { plan: plan.clone(), launches }),
            tables: tables_of(plan),
            mailbox: Mailbox::new(slots),
            slots: (0..slots).map(slot).collect::<Result<_, DeviceError>>()?,
            device,
            sequence: 0,
        })
    }

    /// The slot, with the results of its batch, if they have arrived.
    fn slot(&mut self, id: SlotId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.0)?;
        if matches!(slot.state, State::UnderWay)
            && let Some(back) = self.mailbox.take(id.0, slot.sequence)
        {
            let outcome = back.outcome.map_or_else(Poll::Failed, |()| Poll::Done);
            slot.state = State::Here { host: back.host, device: back.device, outcome };
        }
        Some(slot)
    }
}

impl DeviceLane for Lane {
    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn block(&mut self, id: SlotId) -> Option<&mut [u8]> {
        let bytes = self.program.plan.slot_bytes;
        match &mut self.slot(id)?.state {
            State::Here { host, .. } => host.bytes_mut().get_mut(..bytes),
            State::UnderWay => None,
        }
    }

    fn submit(
        &mut self,
        id: SlotId,
        rows: usize,
        payload: usize,
        tables: &[Table],
    ) -> Result<Ticket, DeviceError> {
        self.device.refuse(Call::Submit)?;
        let plan = &self.program.plan;
        check_batch(plan, self.device.id, self.tables, rows, payload, tables)?;
        let sequence = next_sequence(self.sequence);
        let (program, mailbox) = (self.program.clone(), self.mailbox.clone());
        let Some(slot) = self.slot(id) else {
            return Err(DeviceError::Step(format!("there is no slot {}", id.0)));
        };
        let State::Here { mut host, device, .. } = mem::replace(&mut slot.state, State::UnderWay)
        else {
            return Err(DeviceError::Step(format!("a batch is under way in slot {}", id.0)));
        };
        slot.sequence = sequence;
        let batch = self.device.machine.faults.next_batch();
        write_header(host.bytes_mut(), rows, sequence, payload, tables);
        let job = Job {
            program,
            mailbox,
            slot: id.0,
            sequence,
            batch,
            rows,
            payload,
            host,
            device,
            tables: tables.to_vec(),
            at: Point::CopyIn,
            paced: false,
        };
        self.sequence = sequence;
        self.device.machine.submit(self.number, job);
        Ok(Ticket { slot: id, sequence })
    }

    fn poll(&mut self, ticket: Ticket) -> Poll {
        let is_lost = self.device.machine.is_lost();
        match self.slot(ticket.slot) {
            Some(slot) if slot.sequence == ticket.sequence => match &slot.state {
                State::Here { outcome, .. } => outcome.clone(),
                State::UnderWay if is_lost => Poll::Failed(lost()),
                State::UnderWay => Poll::Pending,
            },
            _ => Poll::Failed(DeviceError::Step("another batch is in this slot".to_owned())),
        }
    }

    fn quiesce(&mut self, most: Duration) -> bool {
        let until = Instant::now() + most;
        loop {
            let all = (0..self.slots.len()).all(|slot| self.block(SlotId(slot)).is_some());
            if all || Instant::now() >= until {
                return all;
            }
            thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.device.machine.abandon(self.number);
    }
}

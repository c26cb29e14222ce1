//! A lane of a GPU: a stream, slots in pinned memory and on the device, and the plan as graphs.
//!
//! A submission launches one graph, which contains all copies and kernels of a batch of a quarter, half or the full
//! capacity. The smallest graph that the batch fits in is used. A plan with packed payload has no graphs, because the
//! amount of payload differs too much: its steps are put on the stream one by one, with the actual number of bytes.

mod kernels;

use std::ffi::c_void;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::context::{Abandoned, Context, DeviceMemory, Function, Graph, HostMemory, Stream};
use crate::device::slot::{
    Ranges, check_batch, memory_of, next_sequence, tables_of, tiles, write_header,
};
use crate::device::{DeviceError, DeviceLane, Poll, SlotId, Table, Ticket};
use crate::kernel::{Kernel, Launch, TILE};
use crate::plan::Plan;

/// Bytes between the words that the device writes: each has a cache line of its own.
const LINE: usize = 64;
/// The alignment of slots, which is that of the driver's allocations.
const ALIGN: usize = 256;
/// After this number of polls without success, the driver is asked whether the device still works.
const LOOK: u32 = 256;
/// The maximum time that a dropped lane waits for batches in flight.
const PARTING: Duration = Duration::from_millis(20);

/// A kernel and its parameters.
pub(super) struct Step {
    pub(super) kernel: Kernel,
    pub(super) function: Arc<Function>,
    pub(super) launch: Launch,
}

pub(super) struct Lane {
    plan: Arc<Plan>,
    tables: usize,
    slots: Vec<Slot>,
    sequence: u32,
    /// The number of polls without success.
    polls: u32,
    /// `None` after the lane was dropped.
    resources: Option<Box<Resources>>,
}

struct Slot {
    /// The number of the last batch in the slot.
    sequence: u32,
    state: State,
    /// The tables that the batch in flight uses.
    tables: Vec<Table>,
}

enum State {
    /// The slot belongs to the host, with the outcome of the last batch.
    Here(Poll),
    /// The device processes its batch.
    UnderWay,
    /// Its batch was submitted only in part, and its results are invalid.
    Spoilt,
}

impl Slot {
    /// The device is done with the slot.
    fn end(&mut self, outcome: Poll) {
        self.state = State::Here(outcome);
        self.tables.clear();
    }

    fn fail(&mut self, why: &str) {
        self.end(Poll::Failed(DeviceError::Step(why.to_owned())));
    }
}

/// The resources that the device uses. Fields are dropped in this order.
struct Resources {
    /// For each slot, graphs in ascending order of capacity.
    graphs: Vec<Vec<(usize, Graph)>>,
    stream: Stream,
    steps: Vec<Step>,
    complete: Arc<Function>,
    memory: DeviceMemory,
    /// A cache line with a word for each slot, then the slots.
    host: HostMemory,
    slots: usize,
    stride: usize,
    /// Tables of batches in flight, after the lane was dropped.
    tables: Vec<Table>,
}

impl Abandoned for Resources {
    fn is_idle(&self) -> bool {
        self.stream.is_idle().unwrap_or(false)
    }
}

impl Resources {
    fn context(&self) -> &Arc<Context> {
        self.stream.context()
    }

    /// The address of a slot on the device.
    fn device(&self, slot: usize) -> u64 {
        self.memory.address() + (slot * self.stride) as u64
    }

    /// The address of a slot on the host.
    fn host(&self, slot: usize) -> *mut u8 {
        let at = (self.slots * LINE).next_multiple_of(ALIGN) + slot * self.stride;
        self.host.host().wrapping_add(at)
    }

    /// The number of the last batch of the slot that is done.
    fn word(&self, slot: usize) -> u32 {
        let word = self.host.host().wrapping_add(slot * LINE).cast();
        // SAFETY: a word of our memory, aligned, written by the device alone: atomically, for it is a word.
        unsafe { AtomicU32::from_ptr(word) }.load(Ordering::Acquire)
    }

    /// Enqueues the copies to the device.
    fn copy_in(
        &self,
        stream: &Stream,
        plan: &Plan,
        slot: usize,
        rows: usize,
        payload: usize,
    ) -> Result<(), DeviceError> {
        let (host, device) = (self.host(slot), self.device(slot));
        for range in Ranges::to_device(plan, rows, payload).iter() {
            let (to, from) = (device + range.start as u64, host.wrapping_add(range.start));
            // SAFETY: the plan was checked: the range lies in the slot, whose memory nobody touches before it is idle.
            unsafe { stream.copy_in(to, from, range.len()) }?;
        }
        Ok(())
    }

    /// Enqueues the kernels.
    fn launch(&self, stream: &Stream, slot: usize, rows: usize) -> Result<(), DeviceError> {
        let mut device = self.device(slot);
        for step in &self.steps {
            let mut launch = step.launch;
            let mut arguments: [*mut c_void; 2] =
                [(&raw mut launch).cast(), (&raw mut device).cast()];
            let blocks = step.kernel.blocks(&launch, rows);
            // SAFETY: the parameters of every kernel; the plan was checked: all columns lie in the slot.
            unsafe { stream.launch(&step.function, blocks, TILE, &mut arguments) }?;
        }
        Ok(())
    }

    /// Enqueues all steps of a batch.
    fn enqueue(
        &self,
        plan: &Plan,
        slot: usize,
        rows: usize,
        payload: usize,
    ) -> Result<(), DeviceError> {
        let (host, mut device) = (self.host(slot), self.device(slot));
        self.copy_in(&self.stream, plan, slot, rows, payload)?;
        self.launch(&self.stream, slot, rows)?;
        for range in Ranges::to_host(plan, rows).iter() {
            let (to, from) = (host.wrapping_add(range.start), device + range.start as u64);
            // SAFETY: as for the copies in.
            unsafe { self.stream.copy_out(to, from, range.len()) }?;
        }
        let mut word = self.host.device() + (slot * LINE) as u64;
        let mut arguments: [*mut c_void; 2] = [(&raw mut device).cast(), (&raw mut word).cast()];
        // SAFETY: its parameters; it reads the slot's header and writes the slot's word.
        unsafe { self.stream.launch(&self.complete, 1, 1, &mut arguments) }
    }

    fn submit(
        &self,
        plan: &Plan,
        slot: usize,
        rows: usize,
        payload: usize,
    ) -> Result<(), DeviceError> {
        let graphs = self.graphs.get(slot).map(Vec::as_slice).unwrap_or_default();
        match graphs.iter().find(|(most, _)| rows <= *most) {
            // SAFETY: as in `enqueue`, whose calls it holds.
            Some((_, graph)) => unsafe { self.stream.run(graph) },
            None => self.enqueue(plan, slot, rows, payload),
        }
    }

    /// The batch sizes that have graphs.
    fn buckets(plan: &Plan) -> Vec<usize> {
        if plan.payload_bytes != 0 {
            return Vec::new();
        }
        let all = tiles(plan.capacity);
        let mut buckets: Vec<usize> =
            [all.div_ceil(4), all.div_ceil(2), all].iter().map(|tiles| tiles * TILE).collect();
        buckets.dedup();
        buckets
    }
}

impl Lane {
    pub(super) fn open(
        context: &Arc<Context>,
        plan: &Arc<Plan>,
        steps: Vec<Step>,
        complete: Arc<Function>,
        slots: usize,
    ) -> Result<Self, DeviceError> {
        let stride = memory_of(plan).next_multiple_of(ALIGN);
        let words = (slots * LINE).next_multiple_of(ALIGN);
        let mut resources = Box::new(Resources {
            graphs: Vec::new(),
            stream: Stream::new(context)?,
            steps,
            complete,
            memory: DeviceMemory::new(context, slots * stride)?,
            host: HostMemory::new(context, words + slots * stride)?,
            slots,
            stride,
            tables: Vec::new(),
        });
        let buckets = Resources::buckets(plan);
        for slot in 0..slots {
            let mut graphs = Vec::with_capacity(buckets.len());
            for rows in &buckets {
                let enqueue = || resources.enqueue(plan, slot, *rows, 0);
                graphs.push((*rows, resources.stream.capture(enqueue)?));
            }
            resources.graphs.push(graphs);
        }
        let none = || Poll::Failed(DeviceError::Step("there was no batch yet".to_owned()));
        let slot = |_| Slot { sequence: 0, state: State::Here(none()), tables: Vec::new() };
        Ok(Self {
            plan: plan.clone(),
            tables: tables_of(plan),
            slots: (0..slots).map(slot).collect(),
            sequence: 0,
            polls: 0,
            resources: Some(resources),
        })
    }

    fn gone() -> DeviceError {
        DeviceError::Step("the lane is closed".to_owned())
    }

    /// Updates the state of a slot from the word that the device writes.
    fn look(&mut self, id: SlotId) {
        let (Some(slot), Some(resources)) = (self.slots.get_mut(id.0), &self.resources) else {
            return;
        };
        match &slot.state {
            State::UnderWay if resources.word(id.0) == slot.sequence => {
                slot.end(Poll::Done);
                self.polls = 0;
            }
            State::Spoilt if resources.is_idle() => slot.fail("the batch was submitted in part"),
            _ => {}
        }
    }

    /// Asks the driver whether the device still works.
    fn ask(&mut self) {
        let Some(resources) = &self.resources else { return };
        if !resources.stream.is_idle().unwrap_or(false) {
            return;
        }
        for id in 0..self.slots.len() {
            self.look(SlotId(id));
            if let Some(slot) = self.slots.get_mut(id)
                && matches!(slot.state, State::UnderWay)
            {
                slot.fail("the stream ended, but the batch was not reported as done");
            }
        }
    }
}

impl DeviceLane for Lane {
    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn block(&mut self, id: SlotId) -> Option<&mut [u8]> {
        self.look(id);
        let resources = self.resources.as_ref()?;
        match self.slots.get(id.0)?.state {
            State::Here(_) => {
                let address = resources.host(id.0);
                // SAFETY: the slot's part of memory that the lane owns; the device does not touch it, since nothing is under
                // way in it; borrowed from the lane alone.
                Some(unsafe { slice::from_raw_parts_mut(address, self.plan.slot_bytes) })
            }
            State::UnderWay | State::Spoilt => None,
        }
    }

    fn submit(
        &mut self,
        id: SlotId,
        rows: usize,
        payload: usize,
        tables: &[Table],
    ) -> Result<Ticket, DeviceError> {
        let Some(resources) = &self.resources else { return Err(Self::gone()) };
        let context = resources.context();
        context.alive()?;
        check_batch(&self.plan, context.id, self.tables, rows, payload, tables)?;
        let sequence = next_sequence(self.sequence);
        let Some(block) = self.block(id) else {
            return Err(DeviceError::Step(format!("slot {} is not free", id.0)));
        };
        write_header(block, rows, sequence, payload, tables);
        self.sequence = sequence;
        let (Some(slot), Some(resources)) = (self.slots.get_mut(id.0), &self.resources) else {
            return Err(Self::gone());
        };
        slot.sequence = sequence;
        slot.tables.extend_from_slice(tables);
        match resources.submit(&self.plan, id.0, rows, payload) {
            Ok(()) => {
                slot.state = State::UnderWay;
                Ok(Ticket { slot: id, sequence })
            }
            Err(error) => {
                slot.state = State::Spoilt;
                Err(error)
            }
        }
    }

    fn poll(&mut self, ticket: Ticket) -> Poll {
        self.look(ticket.slot);
        let is_lost = |lane: &Self| {
            lane.resources.as_ref().and_then(|resources| resources.context().alive().err())
        };
        for asked in [false, true] {
            match self.slots.get(ticket.slot.0) {
                Some(slot) if slot.sequence == ticket.sequence => {
                    if let State::Here(outcome) = &slot.state {
                        return outcome.clone();
                    }
                }
                _ => {
                    let why = "another batch is in this slot".to_owned();
                    return Poll::Failed(DeviceError::Step(why));
                }
            }
            if let Some(error) = is_lost(self) {
                return Poll::Failed(error);
            }
            self.polls += 1;
            if asked || !self.polls.is_multiple_of(LOOK) {
                break;
            }
            self.ask();
        }
        Poll::Pending
    }

    fn time_kernels(
        &mut self,
        rows: usize,
        payload: usize,
        tables: &[Table],
        times: u32,
    ) -> Result<Duration, DeviceError> {
        kernels::time(self, rows, payload, tables, times)
    }

    fn quiesce(&mut self, most: Duration) -> bool {
        let until = Instant::now() + most;
        loop {
            self.ask();
            let free = (0..self.slots.len()).all(|slot| self.block(SlotId(slot)).is_some());
            if free || Instant::now() >= until {
                return free;
            }
            let Some(resources) = &self.resources else { return false };
            if resources.context().is_lost() {
                return false;
            }
            thread::sleep(Duration::from_micros(20));
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let Some(mut resources) = self.resources.take() else { return };
        let context = resources.context().clone();
        // Freeing takes as long as a few batches anyway; only hanging work is left to the context.
        let start = Instant::now();
        while !context.is_lost() && !resources.is_idle() && start.elapsed() < PARTING {
            thread::sleep(Duration::from_micros(20));
        }
        if !context.is_lost() && !resources.is_idle() {
            resources.tables = self.slots.drain(..).flat_map(|slot| slot.tables).collect();
            context.abandon(resources);
        }
    }
}

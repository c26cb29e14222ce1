//! A thread's way through a section.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;

use millrace_core::{Batch, Context, Packet, Reason, Timestamp, cycles};

use super::balance::{Balancer, FEWEST};
use super::flight::{Flight, State};
use super::pause::Pause;
use super::recovery::{Connection, Link, Order};
use super::report::{Counters, Fault};
use super::tables::Resident;
use super::{Mode, Path, Section};
use crate::batch::Part;
use crate::kernel::TILE;
use crate::{DeviceError, Poll};

/// What a batch for the twins may cost, in cycles: some 200 us.
const BUDGET: f64 = 500_000.0;

/// A thread's way through a section: collects packets, has the device or the CPU twins treat them, gives them back in order.
pub struct Lane {
    section: Arc<Section>,
    counters: Arc<Counters>,
    /// The batches that have ended, oldest first.
    queue: VecDeque<Flight>,
    /// The one that is being collected.
    open: Option<Flight>,
    /// Flights to be used again.
    spare: Vec<Flight>,
    /// Engine batches to be used again.
    tiles: Vec<Batch>,
    /// Packets of a lane whose place this one has taken: they go first.
    inherited: VecDeque<Batch>,
    link: Link,
    balancer: Balancer,
    tables: Arc<Resident>,
    tables_version: u64,
    /// Since when the tables on the device are not the newest ones.
    stale_since: Option<u64>,
    /// Whether a batch has been on the device: what is changed before the first one holds for it.
    launched: bool,
    /// Packets held, and bytes of them.
    packets: usize,
    bytes: usize,
    /// Batches on the device.
    flying: usize,
    /// Whether packets have come since the last tick.
    added: bool,
    /// Whether packets have found no room since the last batch was taken.
    full: bool,
}

/// Packets in and out.
impl Lane {
    pub(super) fn new(
        section: Arc<Section>,
        counters: Arc<Counters>,
        connection: Option<Connection>,
    ) -> Self {
        let settings = section.settings();
        let interval = u64::try_from(settings.interval.as_nanos()).unwrap_or(u64::MAX);
        let balancer = Balancer::new(interval, settings.probe, BUDGET);
        // In this order: tables that are newer than their version are only read once more.
        let (tables_version, tables) = (section.tables().version(), section.tables().resident());
        Self {
            tables,
            tables_version,
            section,
            counters,
            queue: VecDeque::new(),
            open: None,
            spare: Vec::new(),
            tiles: Vec::new(),
            inherited: VecDeque::new(),
            link: Link::new(connection),
            balancer,
            stale_since: None,
            launched: false,
            packets: 0,
            bytes: 0,
            flying: 0,
            added: false,
            full: false,
        }
    }

    /// Takes packets in, from the front of `batch`. What is left there found no [room](Self::room).
    pub fn add(&mut self, now: Timestamp, batch: &mut Batch) {
        self.added |= !batch.is_empty();
        self.admit_inherited(now);
        if self.inherited.is_empty() {
            self.admit(now, batch);
        }
        self.count_held();
    }

    /// Takes packets in before all others, as many as there are: those of a lane whose place this one takes.
    pub(super) fn inherit(&mut self, packets: Vec<Batch>) {
        self.inherited.extend(packets);
        self.count_held();
    }

    /// Takes in what is inherited, as far as there is room.
    fn admit_inherited(&mut self, now: Timestamp) {
        while let Some(mut batch) = self.inherited.pop_front() {
            self.admit(now, &mut batch);
            if !batch.is_empty() {
                return self.inherited.push_front(batch);
            }
        }
    }

    fn admit(&mut self, now: Timestamp, batch: &mut Batch) {
        while !batch.is_empty() {
            let count = self.fitting(batch);
            if count == 0 {
                self.full = true;
                break;
            }
            let mut flight = match self.open.take() {
                Some(flight) => flight,
                None => self.begin(now),
            };
            let full = self.collect(&mut flight, batch, count);
            match full {
                true => self.end(flight),
                false => self.open = Some(flight),
            }
        }
    }

    /// How many packets it has room for, as long as they are not many bytes.
    pub fn room(&self) -> usize {
        if self.inherited.is_empty() { self.space() } else { 0 }
    }

    fn space(&self) -> usize {
        let settings = self.section.settings();
        if self.bytes >= settings.bytes && self.packets > 0 {
            return 0;
        }
        let (length, most) = (settings.length.max(1), self.section.packets());
        let by_packets = ((length + 1) * most).saturating_sub(self.packets);
        // Batches that end because they are full have at least so many packets, but for those of very large ones.
        let batches = length * (1 + most / FEWEST);
        by_packets.min(batches.saturating_sub(self.queue.len()) * FEWEST)
    }

    /// Gives the oldest batch to `sink`, if it is done: packets, at most an engine batch at a time, and what became of
    /// them. The stages have delivered their results to the packets before. Returns whether it was done.
    ///
    /// `sink` empties the batches that it gets; what it leaves is dropped as unclaimed.
    pub fn take(
        &mut self,
        cx: &mut Context,
        mut sink: impl FnMut(&mut Context, &mut Batch, &Part<'_>),
    ) -> bool {
        let Some(mut flight) = self.queue.pop_front_if(|flight| flight.is_done()) else {
            return false;
        };
        self.full = false;
        let path = self.conclude(&mut flight);
        let age = (cx.now() - flight.since).as_nanos();
        self.counters.age.note(age.unsigned_abs(), 1);
        let counters = self.counters.path(path);
        counters.batches.add(1);
        counters.packets.add(flight.rows as u64);
        counters.cycles.add(flight.cost);
        self.packets -= flight.rows;
        self.bytes -= flight.bytes;
        self.count_held();

        let mut first = 0;
        for mut tile in flight.tiles.drain(..) {
            let part = flight.outcome.part(first..first + tile.len());
            first += tile.len();
            let stages = self.section.stages().iter().zip(&flight.snapshots);
            for (step, (stage, snapshot)) in stages.enumerate() {
                let field = self.section.plan().steps.get(step).and_then(|step| step.field);
                stage.deliver(cx, snapshot, &mut tile, &part.of_step(step, field));
            }
            sink(cx, &mut tile, &part);
            if !tile.is_empty() {
                cx.drop_batch(&mut tile, Reason::Unclaimed);
            }
            self.tiles.push(tile);
        }
        // What they hold may be large, and no longer in use.
        flight.snapshots.clear();
        self.spare.push(flight);
        true
    }

    /// Takes all packets out, in order and as they came.
    pub fn take_packets(&mut self) -> Vec<Batch> {
        let slots: Vec<_> = self
            .queue
            .iter()
            .filter_map(|flight| match &flight.state {
                State::Flying { ticket, .. } => Some(ticket.slot),
                _ => None,
            })
            .collect();
        if !slots.is_empty() {
            self.link.abandon(self.section.device_now(), slots);
        }
        self.flying = 0;
        let mut packets = Vec::new();
        for mut flight in self.queue.drain(..).chain(self.open.take()) {
            if let Some(slot) = flight.state.slot_at_rest() {
                self.link.give_slot(slot);
            }
            packets.append(&mut flight.tiles);
        }
        packets.extend(self.inherited.drain(..));
        (self.packets, self.bytes, self.full) = (0, 0, false);
        self.count_held();
        packets
    }

    fn count_held(&self) {
        self.counters.held.set(self.held() as u64);
        self.counters.under_way.set(self.queue.len() as u64);
    }

    /// Packets that it holds.
    pub fn held(&self) -> usize {
        self.packets + self.inherited.iter().map(|batch| batch.len()).sum::<usize>()
    }

    /// Whether another batch may end before it is full.
    fn may_end_early(&self) -> bool {
        let full = 1 + self.section.packets() / TILE;
        self.queue.len() < self.section.settings().length * full
    }

    /// How many packets from the front of a batch there is room for.
    fn fitting(&self, batch: &Batch) -> usize {
        let bytes = self.section.settings().bytes - self.bytes.min(self.section.settings().bytes);
        let most = self.space().min(batch.len());
        // An engine batch of the largest packets there are.
        if bytes >= Batch::CAPACITY << 16 {
            return most;
        }
        let mut sum = 0;
        let over = batch.iter().take(most).position(|packet| {
            sum += packet.len();
            sum > bytes
        });
        // Whatever it is, one packet alone is taken.
        over.map_or(most, |over| over.max(usize::from(self.packets == 0)))
    }
}

/// Time.
impl Lane {
    /// Looks after what is under way: ends the batch that is being collected when it is due, sees what the device has done,
    /// waits for it when the lane is full. To be called every round by whoever [takes](Self::take). Returns
    /// whether there is more to come soon, so that the thread must not sleep.
    pub fn tick(&mut self, now: Timestamp) -> bool {
        let mut worked = self.attend() || !self.inherited.is_empty();
        self.admit_inherited(now);
        worked |= self.poll();
        self.launch_waiting();
        let idle = !std::mem::take(&mut self.added) && self.flying == 0;
        let due = |open: &Flight| {
            idle || (now - open.since).to_duration() >= self.section.settings().timeout
        };
        if self.open.as_ref().is_some_and(due) && self.may_end_early() {
            self.flush();
            worked = true;
        }
        if self.full || self.space() < self.section.packets() {
            // Nothing becomes free as long as all of it is being collected.
            if self.queue.is_empty() {
                self.flush();
            }
            self.wait();
        }
        self.balancer.tick(now.as_nanos().unsigned_abs());
        self.counters.share.store((self.balancer.share() * 1e6) as u32, Relaxed);
        worked || self.flying > 0 || self.queue.front().is_some_and(Flight::is_done)
    }

    /// Ends the batch that is being collected.
    pub fn flush(&mut self) {
        if let Some(flight) = self.open.take() {
            self.end(flight);
        }
    }

    /// Ends the batch that is being collected and waits until all that is on the device is done, or has failed:
    /// afterwards [`take`](Self::take) gives everything.
    pub fn finish(&mut self) {
        self.flush();
        let mut pause = Pause::default();
        while self.flying > 0 {
            self.poll();
            self.launch_waiting();
            pause.take();
        }
        // Slots come free when batches are taken, and nobody launches then.
        self.wait_no_more();
    }

    /// Has the twins treat what waits for a slot.
    fn wait_no_more(&mut self) {
        let waiting = self.queue.iter_mut().filter(|flight| flight.is_waiting());
        waiting.for_each(Flight::fall_back);
    }

    /// Looks after the link to the device. Returns whether a connection came.
    fn attend(&mut self) -> bool {
        if !self.section.has_device() {
            return false;
        }
        self.let_go();
        self.counters.good.set(self.link.is_good().into());
        if self.link.is_good() {
            return false;
        }
        match self.link.attend(self.section.device_now()) {
            Order::Nothing => false,
            Order::Connect => {
                let (sender, receiver) = sync_channel(1);
                self.link.asked(receiver);
                self.section.connect_aside(sender);
                true
            }
            Order::Failed(fault) => {
                self.counters.fault(fault);
                false
            }
            Order::Dispose(connection) => {
                self.counters.fault(Fault::Lost);
                self.forget_slots();
                self.section.dispose(connection);
                true
            }
        }
    }

    /// Sees what the device has done.
    fn poll(&mut self) -> bool {
        let mut worked = false;
        for at in 0..self.queue.len() {
            if self.flying == 0 {
                break;
            }
            let Some(flight) = self.queue.get_mut(at) else { break };
            let State::Flying { ticket, since } = flight.state else { continue };
            let start = cycles::now();
            match self.link.poll(ticket) {
                Poll::Done => {
                    flight.state = State::Landed(ticket.slot);
                    flight.cost += cycles::now().wrapping_sub(start);
                    self.flying -= 1;
                    self.link.well();
                    worked = true;
                }
                Poll::Pending => {
                    let patience = self.section.settings().patience.as_nanos() as u64;
                    if self.section.device_now().saturating_sub(since) <= patience {
                        break;
                    }
                    self.fault(Fault::Timeout);
                    return true;
                }
                Poll::Failed(error) => {
                    self.fault(Fault::of(&error, Fault::Step));
                    return true;
                }
            }
        }
        worked
    }

    /// Waits for the oldest batch, when it is on the device: no longer than the device's patience.
    fn wait(&mut self) {
        if !self.queue.front().is_some_and(Flight::is_flying) {
            return;
        }
        self.counters.waits.add(1);
        let start = cycles::now();
        let mut pause = Pause::default();
        while self.queue.front().is_some_and(Flight::is_flying) {
            self.poll();
            pause.take();
        }
        self.balancer.waited(cycles::now().wrapping_sub(start) as f64);
    }

    /// Something went wrong: whatever is on the device, or waits for it, is the twins' now.
    fn fault(&mut self, fault: Fault) {
        self.counters.fault(fault);
        if let Some(open) = self.open.as_mut().filter(|open| open.is_for_device()) {
            if let Some(slot) = open.state.slot_at_rest() {
                self.link.give_slot(slot);
            }
            open.fall_back();
        }
        let mut written = Vec::new();
        for flight in self.queue.iter_mut().filter(|flight| !flight.is_done()) {
            if let State::Flying { ticket, .. } = flight.state {
                written.push(ticket.slot);
                self.counters.again.add(1);
            }
            flight.fall_back();
        }
        self.flying = 0;
        if let Some(connection) = self.link.fault(self.section.device_now(), fault, written) {
            self.forget_slots();
            self.section.dispose(connection);
        }
    }

    /// The slots are gone with their device: what lies in them is done anew.
    fn forget_slots(&mut self) {
        self.tables = Arc::default();
        self.flying = 0;
        let in_slot = |flight: &&mut Flight| flight.is_for_device();
        for flight in self.queue.iter_mut().chain(&mut self.open).filter(in_slot) {
            flight.fall_back();
            self.counters.again.add(1);
        }
    }

    /// Gives its connection up when the device is lost: for a lane that its thread does not look after now.
    pub(super) fn let_go(&mut self) {
        if self.link.generation().is_some_and(|mine| mine != self.section.present()) {
            self.fault(Fault::Lost);
        }
    }
}

/// A batch's way.
impl Lane {
    /// A batch is to be collected: which way it goes.
    fn begin(&mut self, now: Timestamp) -> Flight {
        let mut flight = self.spare.pop().unwrap_or_default();
        flight.begin(now, self.section.plan());
        flight.state = self.way();
        flight
    }

    fn way(&mut self) -> State {
        let mode = self.section.mode();
        if self.balancer.choose(mode) == Path::Cpu || !self.is_ready() {
            return State::Due;
        }
        if self.queue.iter().any(Flight::is_waiting) {
            return State::Waiting;
        }
        match self.link.take_slot() {
            Some(slot) => State::Gathering(slot),
            None => {
                self.counters.crowded.add(1);
                if mode == Mode::Gpu {
                    return State::Waiting;
                }
                self.balancer.crowded();
                State::Due
            }
        }
    }

    /// Whether the device may be used now: it works, and has tables that are new enough.
    fn is_ready(&mut self) -> bool {
        let Some(generation) = self.link.generation() else { return false };
        // One batch alone is tried at a time.
        if !self.link.is_good() && !self.link.is_open() {
            return false;
        }
        if self.has_newest_tables(generation) {
            return true;
        }
        let now = self.section.device_now();
        self.section.load_aside(now);
        if self.section.settings().inline && self.has_newest_tables(generation) {
            return true;
        }
        let since = *self.stale_since.get_or_insert(now);
        let patience = self.section.settings().patience.as_nanos() as u64;
        self.launched
            && self.tables.generation == generation
            && self.tables.complete
            && now.saturating_sub(since) <= patience
    }

    /// Whether the stages' tables of this moment are on the device of a generation.
    fn has_newest_tables(&mut self, generation: u64) -> bool {
        if self.tables_version != self.section.tables().version() {
            self.tables_version = self.section.tables().version();
            self.tables = self.section.tables().resident();
        }
        let newest = self.tables.generation == generation
            && self.tables.complete
            && self.tables.is_newest(self.section.stages());
        if newest {
            self.stale_since = None;
        }
        newest
    }

    /// Moves up to `count` packets from the front of a batch into a flight; returns whether it is full.
    fn collect(&mut self, flight: &mut Flight, batch: &mut Batch, count: usize) -> bool {
        let start = cycles::now();
        let plan = self.section.plan();
        let packets = self.section.packets();
        let most_for_cpu = self.balancer.most_for_cpu().min(packets);
        let limit = if flight.is_for_device() { packets } else { most_for_cpu };
        if flight.tiles.last().is_none_or(Batch::is_full) {
            flight.tiles.push(self.tiles.pop().unwrap_or_default());
        }
        let room = flight.tiles.last().map_or(0, Batch::room);
        let most = count.min(room).min(limit.saturating_sub(flight.rows));
        let packets: &[Packet] = batch.get(..most).unwrap_or_default();
        let mut fitted = match flight.state {
            State::Gathering(slot) => {
                let block = self.link.block(slot).unwrap_or_default();
                flight.gather.add(plan, packets, block)
            }
            State::Waiting => flight.fitting_payload(plan, packets),
            _ => most,
        };
        if fitted == 0 && flight.rows == 0 {
            // A packet that is too large for the device.
            if let State::Gathering(slot) = std::mem::replace(&mut flight.state, State::Due) {
                self.link.give_slot(slot);
            }
            fitted = 1;
        }
        let bytes = batch.iter().take(fitted).map(|packet| packet.len()).sum::<usize>();
        if let Some(tile) = flight.tiles.last_mut() {
            batch.drain_front(fitted).move_to(tile);
        }
        flight.rows += fitted;
        flight.bytes += bytes;
        self.packets += fitted;
        self.bytes += bytes;
        flight.cost += cycles::now().wrapping_sub(start);
        fitted < most || flight.rows >= limit
    }

    /// A batch has been collected: sends it its way.
    fn end(&mut self, mut flight: Flight) {
        if let State::Gathering(slot) = flight.state {
            self.launch(&mut flight, slot);
        }
        let path = if flight.is_for_device() { Path::Gpu } else { Path::Cpu };
        self.balancer.gone(path, flight.rows);
        // Packets stay as they are until they are taken, so twins that write to them wait until then.
        if flight.state == State::Due && !self.section.plan().writes() {
            self.run_twins(&mut flight);
        }
        self.queue.push_back(flight);
    }

    /// Submits a batch that lies in a slot.
    fn launch(&mut self, flight: &mut Flight, slot: crate::SlotId) {
        let start = cycles::now();
        let submitted = match self.tables.complete {
            true => self.link.submit(
                slot,
                flight.gather.rows(),
                flight.gather.payload(),
                &self.tables.tables,
            ),
            false => Err(DeviceError::Step("not all tables are there".to_owned())),
        };
        flight.cost += cycles::now().wrapping_sub(start);
        match submitted {
            Ok(ticket) => {
                flight.snapshots.clone_from(&self.tables.snapshots);
                flight.state = State::Flying { ticket, since: self.section.device_now() };
                self.flying += 1;
                self.launched = true;
            }
            Err(error) => {
                flight.fall_back();
                self.counters.again.add(1);
                self.link.give_slot(slot);
                self.fault(Fault::of(&error, Fault::Submit));
            }
        }
    }

    /// Submits batches that wait for a slot.
    fn launch_waiting(&mut self) {
        if !self.tables.complete {
            // A table could not be loaded since they began to wait, of which the link knows nothing.
            return self.wait_no_more();
        }
        while let Some(at) = self.queue.iter().position(Flight::is_waiting) {
            let Some(slot) = self.link.take_slot() else { return };
            let Some(mut flight) = self.queue.get_mut(at).map(std::mem::take) else { return };
            let start = cycles::now();
            let gathered = self
                .link
                .block(slot)
                .is_some_and(|block| flight.gather_all(self.section.plan(), block));
            flight.cost += cycles::now().wrapping_sub(start);
            if gathered {
                self.launch(&mut flight, slot);
            } else {
                flight.fall_back();
                self.link.give_slot(slot);
            }
            if let Some(place) = self.queue.get_mut(at) {
                *place = flight;
            }
        }
    }

    /// Has the results of the batch that is to be taken ready, and slices written; returns who did it.
    fn conclude(&mut self, flight: &mut Flight) -> Path {
        let plan = self.section.plan().clone();
        if let State::Landed(slot) = flight.state {
            let start = cycles::now();
            let landed = self.link.block(slot).map(|block| flight.unload(&plan, block));
            self.link.give_slot(slot);
            if landed.is_some() {
                flight.cost += cycles::now().wrapping_sub(start);
                self.balancer.note(Path::Gpu, flight.rows, flight.cost as f64);
                return Path::Gpu;
            }
            self.counters.again.add(1);
            flight.fall_back();
        }
        if flight.state == State::Due {
            self.run_twins(flight);
        }
        self.balancer.note(Path::Cpu, flight.rows, flight.cost as f64);
        Path::Cpu
    }

    fn run_twins(&mut self, flight: &mut Flight) {
        let start = cycles::now();
        flight.run_twins(self.section.plan(), self.section.stages());
        flight.cost += cycles::now().wrapping_sub(start);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.counters.held.set(0);
        self.counters.under_way.set(0);
    }
}

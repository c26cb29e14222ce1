//! Collects packets into batches, and chooses the path of each batch.

use millrace_core::{Batch, Packet, Timestamp, cycles};

use super::Lane;
use crate::kernel::TILE;
use crate::section::balance::FEWEST;
use crate::section::flight::{Flight, State};
use crate::section::{Mode, Path};

impl Lane {
    /// Takes packets from the front of `batch`. Packets that remain there found no [room](Self::room).
    pub fn add(&mut self, now: Timestamp, batch: &mut Batch) {
        self.added |= !batch.is_empty();
        self.admit_inherited(now);
        if self.inherited.is_empty() {
            self.admit(now, batch);
        }
        self.count_held();
    }

    /// Takes packets before all others, without a limit: those of a lane that this one replaces.
    pub(in crate::section) fn inherit(&mut self, packets: Vec<Batch>) {
        self.inherited.extend(packets);
        self.count_held();
    }

    /// Takes inherited packets as far as there is room.
    pub(super) fn admit_inherited(&mut self, now: Timestamp) {
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

    /// The number of packets for which there is room, unless they are very large.
    pub fn room(&self) -> usize {
        if self.inherited.is_empty() { self.space() } else { 0 }
    }

    pub(super) fn space(&self) -> usize {
        let settings = self.section.settings();
        if self.bytes >= settings.bytes && self.packets > 0 {
            return 0;
        }
        let (length, most) = (settings.length.max(1), self.section.packets());
        let by_packets = ((length + 1) * most).saturating_sub(self.packets);
        // A batch that ends because it is full has at least this number of packets, unless its packets are very
        // large.
        let batches = length * (1 + most / FEWEST);
        by_packets.min(batches.saturating_sub(self.queue.len()) * FEWEST)
    }

    /// The number of packets at the front of a batch for which there is room.
    pub(super) fn fitting(&self, batch: &Batch) -> usize {
        let bytes = self.section.settings().bytes - self.bytes.min(self.section.settings().bytes);
        let most = self.space().min(batch.len());
        // An engine batch of the largest possible packets.
        if bytes >= Batch::CAPACITY << 16 {
            return most;
        }
        let mut sum = 0;
        let over = batch.iter().take(most).position(|packet| {
            sum += packet.len();
            sum > bytes
        });
        // One packet alone is always accepted, whatever its size.
        over.map_or(most, |over| over.max(usize::from(self.packets == 0)))
    }

    /// True if another batch may end before it is full.
    pub(super) fn may_end_early(&self) -> bool {
        let full = 1 + self.section.packets() / TILE;
        self.queue.len() < self.section.settings().length * full
    }

    /// Begins a batch, and chooses its path.
    pub(super) fn begin(&mut self, now: Timestamp) -> Flight {
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

    /// True if the device can be used now: it works, and its tables are new enough.
    fn is_ready(&mut self) -> bool {
        let Some(generation) = self.link.generation() else { return false };
        // Only one batch is tried at a time.
        if !self.link.is_good() && !self.link.is_open() {
            return false;
        }
        self.has_tables(generation)
    }

    /// Moves up to `count` packets from the front of a batch into a flight. Returns true if the flight is full.
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

    /// Ends the batch that is being collected.
    pub fn flush(&mut self) {
        if let Some(flight) = self.open.take() {
            self.end(flight);
        }
    }

    /// Sends a collected batch on its path.
    pub(super) fn end(&mut self, mut flight: Flight) {
        if let State::Gathering(slot) = flight.state {
            self.launch(&mut flight, slot);
        }
        let path = if flight.is_for_device() { Path::Gpu } else { Path::Cpu };
        self.balancer.gone(path, flight.rows);
        // Packets must stay unchanged until they are taken, so twins that write to them wait until then.
        if flight.state == State::Due && !self.section.plan().writes() {
            self.run_twins(&mut flight);
        }
        self.queue.push_back(flight);
    }
}

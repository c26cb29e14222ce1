//! Delivers packets: with their results when their batch is done, or unchanged.

use millrace_core::{Batch, Context, Reason, cycles};

use super::Lane;
use crate::batch::Part;
use crate::section::Path;
use crate::section::flight::{Flight, State};

impl Lane {
    /// Passes the oldest batch to `sink` if it is done: its packets, at most an engine batch at a time, and their
    /// results. The stages have stored their results in the packets before. Returns true if the batch was done.
    ///
    /// `sink` must empty the batches that it gets. Packets that it leaves are dropped as unclaimed.
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
        // Snapshots may be large, and are no longer used.
        flight.snapshots.clear();
        self.spare.push(flight);
        true
    }

    /// Prepares the results of the batch that is to be taken, and writes slices. Returns the path that processed it.
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

    pub(super) fn run_twins(&mut self, flight: &mut Flight) {
        let start = cycles::now();
        flight.run_twins(self.section.plan(), self.section.stages());
        flight.cost += cycles::now().wrapping_sub(start);
    }

    /// Takes all packets out, in order and unchanged.
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
}

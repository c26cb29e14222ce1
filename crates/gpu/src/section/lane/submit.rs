//! Submits batches to the device.

use millrace_core::cycles;

use super::Lane;
use crate::SlotId;
use crate::section::flight::{Flight, State};
use crate::section::report::Fault;

impl Lane {
    /// Submits the batch in a slot with the present tables, which may have changed while it was collected.
    pub(super) fn launch(&mut self, flight: &mut Flight, slot: SlotId) {
        let start = cycles::now();
        let ready = self.link.generation().is_some_and(|generation| self.has_tables(generation));
        if !ready {
            flight.fall_back();
            return self.link.give_slot(slot);
        }
        let (rows, payload) = (flight.gather.rows(), flight.gather.payload());
        let submitted = self.link.submit(slot, rows, payload, &self.tables.tables);
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
    pub(super) fn launch_waiting(&mut self) {
        if !self.tables.complete {
            // The link does not know if a table could not be loaded since these batches began to wait.
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

    /// Leaves the batches that wait for a slot to the twins.
    pub(super) fn wait_no_more(&mut self) {
        let waiting = self.queue.iter_mut().filter(|flight| flight.is_waiting());
        waiting.for_each(Flight::fall_back);
    }

    /// True if the device of a generation has tables that are new enough. If they are not the newest ones, starts to
    /// load these.
    pub(super) fn has_tables(&mut self, generation: u64) -> bool {
        if self.has_newest_tables(generation) {
            return true;
        }
        let now = self.section.device_now();
        self.section.load_aside(now);
        let settings = self.section.settings();
        let patience = settings.patience.as_nanos() as u64;
        if settings.inline && self.has_newest_tables(generation) {
            return true;
        }
        let since = *self.stale_since.get_or_insert(now);
        self.launched
            && self.tables.generation == generation
            && self.tables.complete
            && now.saturating_sub(since) <= patience
    }

    /// True if the stages' present tables are on the device of a generation.
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
}

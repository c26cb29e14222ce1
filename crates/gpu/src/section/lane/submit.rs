//! Batches onto the device.

use millrace_core::cycles;

use super::Lane;
use crate::section::flight::{Flight, State};
use crate::section::report::Fault;
use crate::{DeviceError, SlotId};

impl Lane {
    /// Submits a batch that lies in a slot.
    pub(super) fn launch(&mut self, flight: &mut Flight, slot: SlotId) {
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
    pub(super) fn launch_waiting(&mut self) {
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

    /// Has the twins treat what waits for a slot.
    pub(super) fn wait_no_more(&mut self) {
        let waiting = self.queue.iter_mut().filter(|flight| flight.is_waiting());
        waiting.for_each(Flight::fall_back);
    }
}

//! One batch in a section.

use std::sync::Arc;

use millrace_core::{Batch, Packet, Timestamp};

use crate::batch::{Gather, Outcome};
use crate::plan::Plan;
use crate::{SlotId, Snapshot, Stage, Ticket};

/// The state of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The CPU twins are to process it.
    #[default]
    Due,
    /// The CPU twins have processed it.
    Treated,
    /// It is being collected and gathered into a slot.
    Gathering(SlotId),
    /// It is for the device, and waits for a slot.
    Waiting,
    /// It is on the device since this time.
    Flying { ticket: Ticket, since: u64 },
    /// The device is done with it, and the slot contains the results.
    Landed(SlotId),
}

impl State {
    /// The slot that it has, if the device does not use the slot.
    pub(super) fn slot_at_rest(self) -> Option<SlotId> {
        match self {
            Self::Gathering(slot) | Self::Landed(slot) => Some(slot),
            _ => None,
        }
    }
}

/// A batch, with its packets.
#[derive(Default)]
pub(super) struct Flight {
    /// The packets. All tiles but the last one are full.
    pub(super) tiles: Vec<Batch>,
    pub(super) rows: usize,
    /// The number of bytes of the packets.
    pub(super) bytes: usize,
    /// The time when its first packet arrived.
    pub(super) since: Timestamp,
    pub(super) state: State,
    pub(super) gather: Gather,
    pub(super) outcome: Outcome,
    /// The snapshots of the stages, by stage.
    pub(super) snapshots: Vec<Snapshot>,
    /// An upper limit of the packed payload in bytes, while it waits for a slot.
    payload: usize,
    /// Cycles of the lane's thread so far.
    pub(super) cost: u64,
}

impl Flight {
    /// Leaves the batch to the twins instead of the device.
    pub(super) fn fall_back(&mut self) {
        self.state = State::Due;
        // Its cost so far does not belong to the twins.
        self.cost = 0;
    }

    /// Makes it a new batch.
    pub(super) fn begin(&mut self, now: Timestamp, plan: &Plan) {
        (self.rows, self.bytes, self.payload, self.cost) = (0, 0, 0, 0);
        self.since = now;
        self.gather = Gather::new();
        self.outcome.clear(plan);
    }

    /// True if it can be delivered.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Due | State::Treated | State::Landed(_))
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    pub(super) fn is_flying(&self) -> bool {
        matches!(self.state, State::Flying { .. })
    }

    /// True if it is on the device, or is to be.
    pub(super) fn is_for_device(&self) -> bool {
        !matches!(self.state, State::Due | State::Treated)
    }

    /// The number of packets whose payload certainly fits into the slot that the batch waits for.
    pub(super) fn fitting_payload(&mut self, plan: &Plan, packets: &[Packet]) -> usize {
        let regions = plan.payloads.len();
        if regions == 0 {
            return packets.len();
        }
        let over = packets.iter().position(|packet| {
            let more = packet.len().next_multiple_of(16) * regions;
            let fits = self.payload + more <= plan.payload_bytes;
            self.payload += if fits { more } else { 0 };
            !fits
        });
        over.unwrap_or(packets.len())
    }

    /// Gathers all packets into a slot; false if they do not fit.
    pub(super) fn gather_all(&mut self, plan: &Plan, block: &mut [u8]) -> bool {
        self.gather = Gather::new();
        self.tiles.iter().all(|tile| self.gather.add(plan, tile, block) == tile.len())
    }

    /// Takes results and written slices from a slot that is done.
    pub(super) fn unload(&mut self, plan: &Plan, block: &[u8]) {
        plan.collect(block, self.rows, &mut self.outcome);
        if plan.writes() {
            let mut first = 0;
            for tile in &mut self.tiles {
                plan.scatter(block, first, tile);
                first += tile.len();
            }
        }
    }

    /// Lets the twins process it.
    pub(super) fn run_twins(&mut self, plan: &Plan, stages: &[Arc<dyn Stage>]) {
        self.outcome.clear(plan);
        self.snapshots.clear();
        self.snapshots.extend(stages.iter().map(|stage| stage.snapshot()));
        for tile in &mut self.tiles {
            plan.run_on_cpu(stages, &self.snapshots, tile, &mut self.outcome);
        }
        self.state = State::Treated;
    }
}

//! One batch on its way through a section.

use std::sync::Arc;

use millrace_core::{Batch, Packet, Timestamp};

use crate::batch::{Gather, Outcome};
use crate::plan::Plan;
use crate::{SlotId, Snapshot, Stage, Ticket};

/// Where a batch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It is the CPU twins' and they have not treated it yet.
    #[default]
    Due,
    /// They have.
    Treated,
    /// It is being collected, and gathered into a slot.
    Gathering(SlotId),
    /// It is for the device and waits for a slot.
    Waiting,
    /// It is on the device since this time.
    Flying { ticket: Ticket, since: u64 },
    /// The device is done with it; results lie in the slot.
    Landed(SlotId),
}

impl State {
    /// The slot that it has and the device does not.
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
    /// The packets; all tiles but the last one are full.
    pub(super) tiles: Vec<Batch>,
    pub(super) rows: usize,
    /// Bytes of the packets.
    pub(super) bytes: usize,
    /// When its first packet came.
    pub(super) since: Timestamp,
    pub(super) state: State,
    pub(super) gather: Gather,
    pub(super) outcome: Outcome,
    /// What the stages' tables were when it was treated, by stage.
    pub(super) snapshots: Vec<Snapshot>,
    /// Bytes of packed payload, at most, while it waits for a slot.
    payload: usize,
    /// Cycles of the lane's thread so far.
    pub(super) cost: u64,
}

impl Flight {
    /// The device does not treat it, after all: the twins do.
    pub(super) fn fall_back(&mut self) {
        self.state = State::Due;
        // What it has cost says nothing about the twins.
        self.cost = 0;
    }

    /// Makes it a new batch.
    pub(super) fn begin(&mut self, now: Timestamp, plan: &Plan) {
        (self.rows, self.bytes, self.payload, self.cost) = (0, 0, 0, 0);
        self.since = now;
        self.gather = Gather::new();
        self.outcome.clear(plan);
    }

    /// Whether it can be given back to the packets' way.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Due | State::Treated | State::Landed(_))
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    pub(super) fn is_flying(&self) -> bool {
        matches!(self.state, State::Flying { .. })
    }

    /// Whether the device has it or is to have it.
    pub(super) fn is_for_device(&self) -> bool {
        !matches!(self.state, State::Due | State::Treated)
    }

    /// Of how many packets the payload is sure to fit into the slot that the batch waits for.
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

    /// Takes results out of a slot that is done, and what stages wrote into the packets.
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

    /// Has the twins treat it.
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

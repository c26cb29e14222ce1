//! Tests that the measurements of a lane control its balancer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::{Batch, Context, Packet, Timestamp};

use super::super::{Mode, Section, Settings, Source};
use super::bench::{LONG, in_context};
use crate::device::DeviceId;
use crate::host::Fast;
use crate::kernel::Kernel;
use crate::plan::{Limits, Node, Plan};
use crate::region::{Base, Region};
use crate::{
    Caps, Device, DeviceError, DeviceLane, Poll, Results, Rows, SlotId, Snapshot, Stage, StageSpec,
    StageTable, Table, Ticket,
};

/// Uses the thread for this time. It is long, because other threads may take a part of it.
fn toil(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A stage whose twin takes this time per engine batch.
struct Toil(Duration);

impl Stage for Toil {
    fn name(&self) -> &str {
        "toil"
    }

    fn spec(&self) -> StageSpec {
        StageSpec {
            kernel: Kernel::Invert,
            regions: vec![Region::read(Base::Ethernet, 0, 4)],
            constants: [0; 4],
            table: false,
            outputs: 0,
        }
    }

    fn table(&self) -> Option<StageTable> {
        None
    }

    fn run(&self, _: &Snapshot, rows: &mut Rows<'_>) {
        toil(self.0 * rows.len() as u32 / 256);
        (0..rows.len()).for_each(|row| rows.set_result(row, 4));
    }

    fn deliver(&self, _: &mut Context, _: &Snapshot, _: &mut [Packet], results: &Results<'_>) {
        assert!(results.iter().all(|result| *result == 4));
    }
}

/// A device on which submitting takes this time.
struct Far(Arc<dyn Device>, Duration);

struct FarLane(Box<dyn DeviceLane>, Duration);

impl Device for Far {
    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn id(&self) -> DeviceId {
        self.0.id()
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn load_table(&self, words: &Arc<Vec<u32>>) -> Result<Table, DeviceError> {
        self.0.load_table(words)
    }

    fn open_lane(
        &self,
        plan: &Arc<Plan>,
        slots: usize,
    ) -> Result<Box<dyn DeviceLane>, DeviceError> {
        Ok(Box::new(FarLane(self.0.open_lane(plan, slots)?, self.1)))
    }
}

impl DeviceLane for FarLane {
    fn slots(&self) -> usize {
        self.0.slots()
    }

    fn block(&mut self, slot: SlotId) -> Option<&mut [u8]> {
        self.0.block(slot)
    }

    fn submit(
        &mut self,
        slot: SlotId,
        rows: usize,
        payload: usize,
        tables: &[Table],
    ) -> Result<Ticket, DeviceError> {
        toil(self.1);
        self.0.submit(slot, rows, payload, tables)
    }

    fn poll(&mut self, ticket: Ticket) -> Poll {
        self.0.poll(ticket)
    }

    fn quiesce(&mut self, most: Duration) -> bool {
        self.0.quiesce(most)
    }
}

/// The share of the device after some periods, with these times per 256 packets.
fn share_with(cx: &mut Context, twin: Duration, submit: Duration) -> f64 {
    let stage: Arc<dyn Stage> = Arc::new(Toil(twin));
    let node = Node { stage: stage.clone(), from: Vec::new(), only: None };
    let plan = Plan::new(&[node], Limits { packets: 256, payload: 0 }).unwrap();
    let open = move || -> Result<Arc<dyn Device>, DeviceError> {
        Ok(Arc::new(Far(Fast::open(""), submit)))
    };
    let settings = Settings { mode: Mode::Adaptive, patience: LONG, ..Settings::default() };
    let source = Source::new(Box::new(open));
    let section = Section::new(Arc::new(plan), vec![stage], Some(source), settings);
    section.prepare(1).unwrap();
    let mut lane = section.lane();
    let clock = cx.router().clone();
    for _ in 0..150 {
        let mut batch = Batch::new();
        while batch.push(Packet::from_bytes(&[0; 60]).unwrap()).is_ok() {}
        lane.add(cx.now(), &mut batch);
        clock.clock().advance(cx.now() + Timestamp::from_millis(10));
        cx.refresh_now();
        lane.tick(cx.now());
        while lane.take(cx, |_, batch, _| batch.clear()) {}
    }
    section.report().share
}

#[test]
fn the_share_moves_to_the_cheaper_path() {
    in_context(|cx| {
        let (little, much) = (Duration::ZERO, Duration::from_micros(2000));
        let by_device = share_with(cx, much, little);
        let by_twins = share_with(cx, little, much);
        assert!(by_device > 0.9 && by_twins < 0.1, "{by_device} {by_twins}");
    });
}

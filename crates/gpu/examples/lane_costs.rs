//! What a lane costs a packet, beside the work of kernels and twins: collecting, gathering, submitting, polling, taking results,
//! delivering. Nanoseconds of the processor's time a packet, median of seven runs.
//!
//! ```sh
//! cargo run --profile dist -p millrace-gpu --example lane_costs
//! ```
//!
//! The device does nothing and is done at once; so do the twins. Packets go round: what comes out is put in again.

#![allow(clippy::unwrap_used, reason = "a measurement")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_core::testing::Rig;
use millrace_core::{
    Batch, Class, ClassInfo, Context, Element, Failed, Init, Packet, Refused, Setup, Task,
};
use millrace_gpu::device::DeviceId;
use millrace_gpu::kernel::Kernel;
use millrace_gpu::plan::{Limits, Node, Plan};
use millrace_gpu::region::{Base, Region};
use millrace_gpu::section::{Mode, Section, Settings, Source};
use millrace_gpu::{
    Caps, Device, DeviceError, DeviceLane, Poll, Results, Rows, SlotId, Snapshot, Stage, StageSpec,
    StageTable, Table, Ticket,
};

/// Packets of 64 bytes that go round, and how many are treated in a run.
const PACKETS: usize = 8192;
const RUN: usize = 4 << 20;

/// A stage that reads slices and does nothing.
struct Idle(Vec<Region>);

impl Stage for Idle {
    fn name(&self) -> &str {
        "idle"
    }

    fn spec(&self) -> StageSpec {
        StageSpec {
            kernel: Kernel::Invert,
            regions: self.0.clone(),
            constants: [0; 4],
            table: false,
            outputs: 0,
        }
    }

    fn table(&self) -> Option<StageTable> {
        None
    }

    fn run(&self, _: &Snapshot, _: &mut Rows<'_>) {}

    fn deliver(&self, _: &mut Context, _: &Snapshot, _: &mut [Packet], _: &Results<'_>) {}
}

/// A device that does nothing.
struct Nothing(Caps, DeviceId);

struct NothingLane(Vec<Vec<u8>>);

impl Device for Nothing {
    fn caps(&self) -> &Caps {
        &self.0
    }

    fn id(&self) -> DeviceId {
        self.1
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn load_table(&self, _: &Arc<Vec<u32>>) -> Result<Table, DeviceError> {
        Err(DeviceError::Unsupported("no tables".to_owned()))
    }

    fn open_lane(
        &self,
        plan: &Arc<Plan>,
        slots: usize,
    ) -> Result<Box<dyn DeviceLane>, DeviceError> {
        Ok(Box::new(NothingLane(vec![vec![0; plan.slot_bytes]; slots])))
    }
}

impl DeviceLane for NothingLane {
    fn slots(&self) -> usize {
        self.0.len()
    }

    fn block(&mut self, slot: SlotId) -> Option<&mut [u8]> {
        self.0.get_mut(slot.0).map(Vec::as_mut_slice)
    }

    fn submit(
        &mut self,
        slot: SlotId,
        _: usize,
        _: usize,
        _: &[Table],
    ) -> Result<Ticket, DeviceError> {
        Ok(Ticket { slot, sequence: 0 })
    }

    fn poll(&mut self, _: Ticket) -> Poll {
        Poll::Done
    }

    fn quiesce(&mut self, _: Duration) -> bool {
        true
    }
}

/// Nanoseconds that this thread has had a processor.
fn busy() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap()
}

fn nothing() -> Arc<dyn Device> {
    let caps = Caps { backend: "host", name: "nothing".to_owned(), memory: 0, asynchronous: true };
    Arc::new(Nothing(caps, DeviceId::new()))
}

/// A packet of UDP over IPv4.
fn packet(number: usize) -> Packet {
    let mut bytes = [0u8; 64];
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14] = 0x45;
    bytes[16..18].copy_from_slice(&50u16.to_be_bytes());
    bytes[23] = 17;
    bytes[30..34].copy_from_slice(&(number as u32).to_be_bytes());
    let mut packet = Packet::from_bytes(&bytes).unwrap();
    packet.set_mac_header(0);
    packet.set_network_header(14, 20);
    packet
}

fn measure(cx: &mut Context, what: &str, regions: &[Region], mode: Mode, burst: usize) {
    let stage: Arc<dyn Stage> = Arc::new(Idle(regions.to_vec()));
    let node = Node { stage: stage.clone(), from: Vec::new(), only: None };
    let plan = Plan::new(&[node], Limits { packets: 1024, payload: 1 << 16 }).unwrap();
    let settings = Settings { mode, ..Settings::default() };
    let source = Source::new(Box::new(|| Ok(nothing())));
    let section = Section::new(Arc::new(plan), vec![stage], Some(source), settings);
    section.prepare(1).unwrap();
    let mut lane = section.lane();
    let mut ready: VecDeque<Batch> = VecDeque::new();
    for number in 0..PACKETS {
        if ready.back().is_none_or(|batch: &Batch| batch.len() == burst) {
            ready.push_back(Batch::new());
        }
        ready.back_mut().unwrap().push(packet(number)).unwrap();
    }
    let mut empty = Vec::new();
    let mut runs: Vec<f64> = (0..7)
        .map(|_| {
            let began = busy();
            let mut count = 0;
            while count < RUN {
                if let Some(mut batch) = ready.pop_front() {
                    lane.add(cx.now(), &mut batch);
                    empty.push(batch);
                }
                lane.tick(cx.now());
                while lane.take(cx, |_, batch, _| {
                    count += batch.len();
                    while !batch.is_empty() {
                        let mut to = empty.pop().unwrap_or_default();
                        batch.drain_front(burst).move_to(&mut to);
                        ready.push_back(to);
                    }
                }) {}
            }
            (busy() - began) as f64 / count as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    let report = section.report();
    let path = if mode == Mode::Gpu { report.gpu } else { report.cpu };
    println!(
        "{what:44} {mode:?} bursts of {burst:3}: {:5.1} ns, {} packets a batch",
        runs[3],
        path.packets / path.batches.max(1)
    );
}

fn measure_all(cx: &mut Context) {
    let slices = [
        ("nothing of the packet", vec![]),
        ("address annotation, 4 bytes", vec![Region::read(Base::Annotation, 0, 4)]),
        ("destination address, 4 bytes", vec![Region::read(Base::Network, 16, 4)]),
        (
            "seven fields: 14, 20 and 4 bytes",
            vec![
                Region::read(Base::Ethernet, 0, 14),
                Region::read(Base::Network, 0, 20),
                Region::read(Base::Transport, 0, 4),
            ],
        ),
        ("payload, 42 bytes", vec![Region::to_end(Base::Transport, 0)]),
    ];
    for (what, regions) in &slices {
        for burst in [256, 32] {
            measure(cx, what, regions, Mode::Gpu, burst);
        }
    }
    measure(cx, "the twins' way", &slices[2].1, Mode::Cpu, 256);
    measure(cx, "the twins' way", &slices[2].1, Mode::Cpu, 32);
}

type Work = fn(&mut Context);
static WORK: Mutex<Option<Work>> = Mutex::new(None);

/// Runs the measurement where elements run.
struct Stand(Task);

impl Element for Stand {
    const CLASS: Class = Class::new("Stand", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self(setup.task()))
    }

    fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
        self.0.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.0.unschedule();
        if let Some(work) = WORK.lock().unwrap().take() {
            work(cx);
        }
        true
    }
}

fn main() {
    const CLASS: ClassInfo = millrace_core::class_info!(Stand, "");
    *WORK.lock().unwrap() = Some(measure_all);
    let mut rig = Rig::with_class(&CLASS, "Stand", 0, 0).unwrap();
    rig.pass(millrace_core::Timestamp::ZERO);
}

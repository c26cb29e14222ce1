//! Measures a device alone: slots that were filled once are processed by one stage repeatedly. Either with all
//! copies, from pinned memory to results in pinned memory (C), or the kernels alone (K). The cost of gathering
//! packets is not included.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use millrace_core::{Context as Engine, Packet};
use millrace_gpu::batch::{Gather, Outcome};
use millrace_gpu::cuda;
use millrace_gpu::host::{Fast, Faults, Settings, Simulator};
use millrace_gpu::kernel::{CLASSIFY_REGIONS, Kernel};
use millrace_gpu::plan::{Limits, Node, Plan};
use millrace_gpu::region::{Base, Region};
use millrace_gpu::table::{Decisions, Lpm4, Lpm6, Route};
use millrace_gpu::{
    Device, DeviceError, DeviceLane, Poll, Results, Rows, SlotId, Snapshot, Stage, StageSpec,
    StageTable, Table, Ticket,
};

use crate::feed::Frames;

/// The number of a lane's batches in flight.
const SLOTS: usize = 6;

/// The number of batches whose kernels run at the same time: as many as several lanes have in flight, because one
/// batch of some thousand rows uses only a small part of a large GPU.
const KERNELS: usize = 16;

/// Opens a device by the name that GPURuntime takes.
///
/// # Errors
/// There is none of this name.
pub(super) fn open(name: &str) -> anyhow::Result<Arc<dyn Device>> {
    match name {
        "cuda" => cuda::open(0).map_err(|why| anyhow!("{why}")),
        "host" => Ok(Fast::open("")),
        "simulator" => Simulator::new(Settings::default(), Faults::default())
            .open()
            .map_err(|why| anyhow!("{why}")),
        "auto" => Ok(cuda::open(0).unwrap_or_else(|why| Fast::open(&why.to_string()))),
        _ => bail!("--device: auto, cuda, host or simulator, not ‘{name}’"),
    }
}

/// A stage without an element: a kernel and its table.
#[derive(Clone)]
pub(super) struct Bare {
    spec: StageSpec,
    table: Arc<Vec<u32>>,
}

impl Bare {
    /// Longest prefix match of the destination annotation; result: the hop.
    ///
    /// # Errors
    /// There are too many routes.
    pub(super) fn lookup(routes: &[Route<u32>], hops: usize) -> anyhow::Result<Self> {
        let outputs: Vec<u32> = (0..hops as u32).collect();
        let table = Lpm4::build(routes.iter().copied(), decisions(&outputs))?.words().clone();
        Ok(Self::new(Kernel::Lpm4, vec![Region::read(Base::Annotation, 0, 4)], [0; 4], table))
    }

    /// The same of IPv6.
    ///
    /// # Errors
    /// There are too many routes.
    pub(super) fn lookup6(routes: &[Route<u128>], hops: usize) -> anyhow::Result<Self> {
        let outputs: Vec<u32> = (0..hops as u32).collect();
        let table = Lpm6::build(routes.iter().copied(), decisions(&outputs))?.words().clone();
        Ok(Self::new(Kernel::Lpm6, vec![Region::read(Base::Annotation, 0, 16)], [0; 4], table))
    }

    /// First rule of seven fields; result: its number.
    pub(super) fn classify(table: Vec<u32>) -> Self {
        Self::new(Kernel::Classify, CLASSIFY_REGIONS.to_vec(), [0; 4], Arc::new(table))
    }

    /// Patterns in the payload of UDP datagrams; result: the first rule that alerts. `threads` for each packet.
    pub(super) fn search(image: &[u32], threads: u32, udp: u32) -> Self {
        let payload = vec![Region::to_end(Base::TransportPayload, 0)];
        let table = Arc::new(image.to_vec());
        Self::new(Kernel::AhoCorasick, payload, [threads, 0, udp, 0], table)
    }

    fn new(
        kernel: Kernel,
        regions: Vec<Region>,
        constants: [u32; 4],
        table: Arc<Vec<u32>>,
    ) -> Self {
        Self { spec: StageSpec { kernel, regions, constants, table: true, outputs: 0 }, table }
    }
}

fn decisions(outputs: &[u32]) -> Decisions<'_> {
    Decisions { hops: outputs, miss: millrace_gpu::kernel::DROP }
}

impl Stage for Bare {
    fn name(&self) -> &str {
        self.spec.kernel.name()
    }

    fn spec(&self) -> StageSpec {
        self.spec.clone()
    }

    fn table(&self) -> Option<StageTable> {
        let words = self.table.clone();
        Some(StageTable { epoch: 1, words, changes: Arc::default(), snapshot: Snapshot::default() })
    }

    fn run(&self, _: &Snapshot, _: &mut Rows<'_>) {}

    fn deliver(&self, _: &mut Engine, _: &Snapshot, _: &mut [Packet], _: &Results<'_>) {}
}

/// Packets of frames, the bytes of each at a place as its destination annotation.
///
/// # Errors
/// There is not enough memory.
pub(super) fn packets(
    frames: &Frames,
    count: usize,
    address: Range<usize>,
) -> anyhow::Result<Vec<Packet>> {
    let packet = |frame: &[u8]| {
        let mut packet = Packet::from_bytes(frame).context("out of packet memory")?;
        let from = frame.get(address.clone()).unwrap_or_default();
        if let Some(to) = packet.annotations_mut().get_mut(..from.len()) {
            to.copy_from_slice(from);
        }
        anyhow::Ok(packet)
    };
    frames.iter().cycle().take(count).map(|frame| packet(frame)).collect()
}

/// A stage on a device, with the same packets in all slots.
pub(super) struct Loaded {
    device: Arc<dyn Device>,
    plan: Arc<Plan>,
    lane: Box<dyn DeviceLane>,
    tables: Vec<Table>,
    rows: usize,
    payload: usize,
}

impl Loaded {
    /// Loads the table and fills the slots.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn new(
        device: &Arc<dyn Device>,
        stage: &Bare,
        packets: &[Packet],
    ) -> anyhow::Result<Self> {
        let payload = packets.iter().map(|packet| packet.len().next_multiple_of(16)).sum();
        let node = Node { stage: Arc::new(stage.clone()), from: Vec::new(), only: None };
        let plan = Plan::new(&[node], Limits { packets: packets.len(), payload })?;
        let plan = Arc::new(plan);
        let table = device.load_table(&stage.table)?;
        while !table.is_resident()? {
            std::thread::sleep(Duration::from_micros(100));
        }
        let mut lane = device.open_lane(&plan, SLOTS)?;
        let payload = fill(&mut *lane, &plan, packets)?;
        let device = device.clone();
        Ok(Self { device, plan, lane, tables: vec![table], rows: packets.len(), payload })
    }

    /// The results of the kernel for each packet.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn results(&mut self) -> anyhow::Result<Vec<u32>> {
        let ticket = self.submit(SlotId(0))?;
        self.wait(ticket)?;
        let mut outcome = Outcome::default();
        outcome.clear(&self.plan);
        let block = self.lane.block(SlotId(0)).context("the slot is not free")?;
        self.plan.collect(block, self.rows, &mut outcome);
        Ok(outcome.results(0).to_vec())
    }

    /// Millions of packets per second with all copies, from one lane.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn copied(&mut self, time: Duration) -> anyhow::Result<f64> {
        let mut flying = Vec::new();
        for slot in 0..SLOTS {
            flying.push(self.submit(SlotId(slot))?);
        }
        let start = Instant::now();
        let mut batches = 0u64;
        while start.elapsed() < time {
            for ticket in &mut flying {
                self.wait(*ticket)?;
                batches += 1;
                *ticket = self.submit(ticket.slot)?;
            }
        }
        let took = start.elapsed();
        for ticket in flying {
            self.wait(ticket)?;
        }
        Ok(self.millions(batches, took))
    }

    /// Millions of packets per second of the kernel alone, measured several times; empty if kernels cannot run alone.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn kernels(
        &mut self,
        packets: &[Packet],
        rounds: u32,
        time: Duration,
    ) -> anyhow::Result<Vec<f64>> {
        let mut lane = self.device.open_lane(&self.plan, KERNELS)?;
        fill(&mut *lane, &self.plan, packets)?;
        let mut run = |times| lane.time_kernels(self.rows, self.payload, &self.tables, times);
        // The number of runs in this time.
        let once = match run(1) {
            Err(DeviceError::Unsupported(_)) => return Ok(Vec::new()),
            took => took?.max(Duration::from_nanos(1)),
        };
        let times = (time.as_secs_f64() / once.as_secs_f64()).clamp(1.0, 1e6) as u32;
        let rate = |_| Ok(self.millions(u64::from(times) * KERNELS as u64, run(times)?));
        (0..rounds).map(rate).collect()
    }

    fn millions(&self, batches: u64, took: Duration) -> f64 {
        batches as f64 * self.rows as f64 / took.as_secs_f64() / 1e6
    }

    fn submit(&mut self, slot: SlotId) -> anyhow::Result<Ticket> {
        Ok(self.lane.submit(slot, self.rows, self.payload, &self.tables)?)
    }

    fn wait(&mut self, ticket: Ticket) -> anyhow::Result<()> {
        loop {
            match self.lane.poll(ticket) {
                Poll::Done => return Ok(()),
                Poll::Pending => std::hint::spin_loop(),
                Poll::Failed(error) => return Err(error.into()),
            }
        }
    }
}

/// Gathers the packets into every slot of a lane. Gives the bytes of payload.
fn fill(lane: &mut dyn DeviceLane, plan: &Plan, packets: &[Packet]) -> anyhow::Result<usize> {
    let mut payload = 0;
    for slot in 0..lane.slots() {
        let block = lane.block(SlotId(slot)).context("a new slot is not free")?;
        let mut gather = Gather::new();
        ensure!(gather.add(plan, packets, block) == packets.len(), "the packets do not fit");
        payload = gather.payload();
    }
    Ok(payload)
}

//! A device by itself: slots that were filled once go through one stage over and over, from pinned memory to results in pinned
//! memory, with all copies. What gathering packets costs is not in it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use millrace_core::{Context as Engine, Packet};
use millrace_gpu::batch::{Gather, Outcome};
use millrace_gpu::cuda::{self, calibrate::calibrate};
use millrace_gpu::host::{Fast, Faults, Settings, Simulator};
use millrace_gpu::kernel::{CLASSIFY_REGIONS, Kernel};
use millrace_gpu::plan::{Limits, Node, Plan};
use millrace_gpu::region::{Base, Region};
use millrace_gpu::table::{Decisions, Lpm4, Route};
use millrace_gpu::{
    Device, DeviceLane, Poll, Results, Rows, SlotId, Snapshot, Stage, StageSpec, StageTable, Table,
    Ticket,
};
use serde_json::json;

use crate::machine::Machine;
use crate::open_loop::Frames;
use crate::report;

/// Batches under way at a time.
const SLOTS: usize = 6;

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
        let decisions = Decisions { hops: &outputs, miss: millrace_gpu::kernel::DROP };
        let table = Lpm4::build(routes.iter().copied(), decisions)?.words().clone();
        Ok(Self::new(Kernel::Lpm4, vec![Region::read(Base::Annotation, 0, 4)], [0; 4], table))
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

impl Stage for Bare {
    fn name(&self) -> &str {
        self.spec.kernel.name()
    }

    fn spec(&self) -> StageSpec {
        self.spec.clone()
    }

    fn table(&self) -> Option<StageTable> {
        let words = self.table.clone();
        Some(StageTable { epoch: 1, words, snapshot: Snapshot::default() })
    }

    fn run(&self, _: &Snapshot, _: &mut Rows<'_>) {}

    fn deliver(&self, _: &mut Engine, _: &Snapshot, _: &mut [Packet], _: &Results<'_>) {}
}

/// Packets of frames, with the destination annotation of each.
///
/// # Errors
/// There is not enough memory.
pub(super) fn packets(frames: &Frames, count: usize) -> anyhow::Result<Vec<Packet>> {
    let frames = frames.iter().cycle().take(count);
    let packet = |frame: &[u8]| {
        let packet = Packet::from_bytes(frame);
        let mut packet = packet.context("out of packet memory")?;
        let annotation = packet.annotations_mut().first_chunk_mut();
        if let (Some(annotation), Some(to)) =
            (annotation, frame.get(30..).and_then(<[u8]>::first_chunk::<4>))
        {
            *annotation = *to;
        }
        anyhow::Ok(packet)
    };
    frames.map(|frame| packet(frame)).collect()
}

/// Million packets a second through a stage on a device, over a while. The results of the first round must be those that are given.
///
/// # Errors
/// The device fails, or gives other results.
pub(super) fn rate(
    device: &dyn Device,
    stage: Bare,
    packets: &[Packet],
    expected: &[u32],
    time: Duration,
) -> anyhow::Result<f64> {
    let bytes: usize = packets.iter().map(|packet| packet.len().next_multiple_of(16)).sum();
    let table = stage.table.clone();
    let node = Node { stage: Arc::new(stage), from: Vec::new(), only: None };
    let limits = Limits { packets: packets.len(), payload: bytes };
    let plan = Arc::new(Plan::new(&[node], limits)?);
    let table = device.load_table(&table)?;
    while !table.is_resident()? {
        std::thread::sleep(Duration::from_micros(100));
    }
    let mut run = Run {
        lane: device.open_lane(&plan, SLOTS)?,
        tables: vec![table],
        rows: packets.len(),
        payload: 0,
    };
    for slot in 0..SLOTS {
        let block = run.lane.block(SlotId(slot)).context("a new slot is not free")?;
        let mut gather = Gather::new();
        ensure!(gather.add(&plan, packets, block) == packets.len(), "the packets do not fit");
        run.payload = gather.payload();
    }

    let ticket = run.submit(SlotId(0))?;
    run.wait(ticket)?;
    let mut outcome = Outcome::default();
    outcome.clear(&plan);
    let block = run.lane.block(SlotId(0)).context("the slot is not free")?;
    plan.collect(block, packets.len(), &mut outcome);
    ensure!(outcome.results(0) == expected, "the device gives other results than the CPU");

    let mut flying = Vec::new();
    for slot in 0..SLOTS {
        flying.push(run.submit(SlotId(slot))?);
    }
    let start = Instant::now();
    let mut batches = 0u64;
    while start.elapsed() < time {
        for ticket in &mut flying {
            run.wait(*ticket)?;
            batches += 1;
            *ticket = run.submit(ticket.slot)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    for ticket in flying {
        run.wait(ticket)?;
    }
    Ok(batches as f64 * packets.len() as f64 / seconds / 1e6)
}

/// A lane and the batch that goes through it.
struct Run {
    lane: Box<dyn DeviceLane>,
    tables: Vec<Table>,
    rows: usize,
    payload: usize,
}

impl Run {
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

/// What the bus, a launch and a submission cost: for a GPU alone.
#[derive(clap::Args)]
pub(crate) struct Calibration {
    /// The GPU's number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: usize,

    /// MiB that are copied at once for the rates.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    size: u32,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
}

impl Calibration {
    /// Measures and reports.
    ///
    /// # Errors
    /// There is no GPU, or it fails.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let found =
            calibrate(self.gpu, (self.size as usize) << 20).map_err(|why| anyhow!("{why}"))?;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let rows = [
            ("GB/s to the device", found.to_device / 1e9),
            ("GB/s to the host", found.to_host / 1e9),
            ("GB/s to the device, both ways at once", found.to_device_beside / 1e9),
            ("GB/s to the host, both ways at once", found.to_host_beside / 1e9),
            ("\u{b5}s for a copy of 4 KiB", micros(found.small_copy)),
            ("\u{b5}s for a launch", micros(found.launch)),
            ("\u{b5}s for a launch and its end", micros(found.launch_and_wait)),
            ("\u{b5}s for a submission", micros(found.submit)),
            ("\u{b5}s from submission to the batch's end", micros(found.round_trip)),
        ];
        println!("{}", found.device);
        for (what, value) in rows {
            println!("{value:10.2}  {what}");
        }
        let json = rows.iter().map(|(what, value)| json!({"what": what, "value": value})).collect();
        let options =
            json!({"suite": "gpu-calibrate", "device": found.device, "bytes": found.bytes});
        report::write(self.json.as_deref().map(Path::new), &Machine::look(), options, json)
    }
}

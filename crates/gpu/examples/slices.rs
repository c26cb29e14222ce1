//! What it costs to gather slices of packets into a batch, and to scatter them back, in nanoseconds a packet.
//!
//! ```sh
//! cargo run --profile dist -p millrace-gpu --example slices [NAME]
//! ```
//!
//! Packets are gathered in engine batches of 256 into batches of 1024, once from packets that lie in the cache, as after a
//! receive that touched them, and once from so many that each comes from memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::{Context, Packet};
use millrace_gpu::batch::{Gather, Outcome};
use millrace_gpu::kernel::Kernel;
use millrace_gpu::plan::{Limits, Node, Plan, PlanError};
use millrace_gpu::region::{Access, Base, Region};
use millrace_gpu::{Results, Rows, Snapshot, Stage, StageSpec, StageTable};

/// A stage that asks for slices and does nothing with them.
struct Asks(Vec<Region>);

impl Stage for Asks {
    fn name(&self) -> &str {
        "asks"
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

const BATCH: usize = 1024;

/// What marks the packets have.
#[derive(Clone, Copy)]
enum Marks {
    None,
    Both,
}

/// UDP packets of so many bytes.
fn packets(count: usize, bytes: usize, marks: Marks) -> Option<Vec<Packet>> {
    let packet = |number: usize| {
        let mut frame = vec![0u8; bytes];
        let number = (number as u32).wrapping_mul(0x9e37_79b9);
        let ip_len = (bytes - 14) as u16;
        frame.get_mut(12..16)?.copy_from_slice(&[8, 0, 0x45, 0]);
        frame.get_mut(16..18)?.copy_from_slice(&ip_len.to_be_bytes());
        frame.get_mut(22..24)?.copy_from_slice(&[64, 17]);
        frame.get_mut(30..34)?.copy_from_slice(&number.to_be_bytes());
        let mut packet = Packet::from_bytes(&frame)?;
        packet.set_dst_ip(number.into());
        if let Marks::Both = marks {
            packet.set_mac_header(0);
            packet.set_network_header(14, 20);
        }
        Some(packet)
    };
    (0..count).map(packet).collect()
}

fn plan(regions: &[Region]) -> Result<Plan, PlanError> {
    let node = Node { stage: Arc::new(Asks(regions.to_vec())), from: Vec::new(), only: None };
    Plan::new(&[node], Limits { packets: BATCH, payload: BATCH * 1536 })
}

/// Nanoseconds a packet: the median over batches, each timed by itself, so that what else the machine does is left out.
fn measure(packets: &mut [Packet], mut work: impl FnMut(&mut [Packet])) -> f64 {
    let mut times: Vec<f64> = Vec::new();
    let begin = Instant::now();
    while times.len() < 4000 || begin.elapsed() < Duration::from_millis(200) {
        for batch in packets.chunks_mut(BATCH) {
            let (start, count) = (Instant::now(), batch.len());
            work(batch);
            times.push(start.elapsed().as_nanos() as f64 / count as f64);
        }
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn gather(plan: &Plan, batch: &[Packet], block: &mut [u8]) {
    let mut gather = Gather::new();
    for some in batch.chunks(256) {
        gather.add(plan, some, block);
    }
    std::hint::black_box(&*block);
}

fn scatter(plan: &Plan, batch: &mut [Packet], block: &[u8], outcome: &mut Outcome) {
    plan.collect(block, batch.len(), outcome);
    plan.scatter(block, 0, batch);
    std::hint::black_box(&*outcome);
}

fn main() -> Result<(), PlanError> {
    let network = |offset, bytes| Region::read(Base::Network, offset, bytes);
    let classifier = [
        Region::read(Base::Ethernet, 0, 14),
        network(-2, 2),
        network(9, 1),
        network(12, 8),
        Region::read(Base::Transport, 0, 4),
    ];
    let written = |region: Region| [region.with(Access::ReadWrite)];
    let cases: [(&str, &[Region], usize); 11] = [
        ("annotation, 4 bytes", &[Region::read(Base::Annotation, 0, 4)], 64),
        ("annotation, 16 bytes", &[Region::read(Base::Annotation, 0, 16)], 64),
        ("Ethernet, 14 bytes", &[Region::read(Base::Ethernet, 0, 14)], 64),
        ("IPv4 destination", &[network(16, 4)], 64),
        ("IPv4 header", &[network(0, 20)], 64),
        ("network, 40 bytes", &[network(0, 40)], 64),
        ("ports", &[Region::read(Base::Transport, 0, 4)], 64),
        ("seven fields", &classifier, 64),
        ("payload of 64 bytes", &[Region::to_end(Base::TransportPayload, 0)], 64),
        ("payload of 1514 bytes", &[Region::to_end(Base::TransportPayload, 0)], 1514),
        ("IPv4 destination, written", &written(network(16, 4)), 64),
    ];
    println!("{:28}{:>10}{:>10}{:>10}{:>10}", "gather", "in cache", "unmarked", "memory", "back");
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, regions, bytes) in cases.into_iter().filter(|case| case.0.contains(&wanted)) {
        let plan = plan(regions)?;
        let mut block = vec![0; plan.slot_bytes];
        let mut figures = Vec::new();
        for (count, marks) in [(256, Marks::Both), (256, Marks::None), (1 << 16, Marks::Both)] {
            let Some(mut packets) = packets(count, bytes, marks) else { continue };
            figures.push(measure(&mut packets, |batch| gather(&plan, batch, &mut block)));
        }
        if let Some(mut packets) = packets(256, bytes, Marks::Both) {
            let mut outcome = Outcome::default();
            gather(&plan, &packets, &mut block);
            let back = |batch: &mut [Packet]| scatter(&plan, batch, &block, &mut outcome);
            figures.push(measure(&mut packets, back));
        }
        print!("{name:28}");
        figures.iter().for_each(|figure| print!("{figure:10.1}"));
        println!();
    }
    Ok(())
}

//! The bare loop over the rings of AF_XDP, without a graph: what any program on top of them is
//! measured against.
//!
//! ```console
//! # xdp_loop eth0 eth1                   # receive from eth0, transmit to eth1
//! # xdp_loop --source eth0 [SIZE [N]]    # transmit N frames (for ever) of SIZE bytes (60) as fast as it goes
//! # xdp_loop --sink eth0                 # receive, and count
//! ```
//! Each runs until it is interrupted, on queue 0 of its interfaces, and prints a line a second: packets,
//! those lost by the interface and those that found no room.

use std::error::Error;
use std::time::{Duration, Instant};

use millrace_core::memory::copies;
use millrace_core::{Batch, Packet};
use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, Method, RxOptions, RxQueue, TxOptions, TxQueue, XdpOptions};

/// Packets of one turn.
const BURST: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--source", to, ref rest @ ..] => {
            let size = rest.first().map_or(Ok(60), |size| size.parse())?;
            let count = rest.get(1).map_or(Ok(u64::MAX), |count| count.parse())?;
            source(to, size, count)
        }
        ["--sink", from] => sink(from),
        [from, to] if !from.starts_with('-') => forward(from, to),
        _ => Err("xdp_loop FROM TO | --source TO [SIZE [N]] | --sink FROM".into()),
    }
}

fn forward(from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    let (mut rx, mut tx) = (receiver(from)?, transmitter(to)?);
    let mut batch = Batch::new();
    let mut report = Report::new();
    loop {
        let count = rx.receive(&mut batch, BURST)?;
        tx.transmit(&mut batch)?;
        let unsent = batch.len();
        batch.clear();
        report.add(count - unsent, unsent, || rx.counts().lost + tx.counts().lost);
    }
}

fn source(to: &str, size: usize, mut count: u64) -> Result<(), Box<dyn Error>> {
    let mut tx = transmitter(to)?;
    let mut frame = vec![0; size.max(60)];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    let mut batch = Batch::new();
    let mut report = Report::new();
    while count > 0 {
        let wanted = BURST.min(usize::try_from(count).unwrap_or(BURST));
        while batch.len() < wanted
            && let Some(packet) = Packet::from_bytes(&frame)
            && batch.push(packet).is_ok()
        {}
        let sent = tx.transmit(&mut batch)?;
        count -= sent as u64;
        report.add(sent, 0, || tx.counts().lost);
    }
    tx.flush()?;
    Ok(())
}

fn sink(from: &str) -> Result<(), Box<dyn Error>> {
    let mut rx = receiver(from)?;
    let mut batch = Batch::new();
    let mut report = Report::new();
    loop {
        let count = rx.receive(&mut batch, BURST)?;
        batch.clear();
        report.add(count, 0, || rx.counts().lost);
    }
}

fn receiver(device: &str) -> Result<Box<dyn RxQueue>, Box<dyn Error>> {
    let method = Method::Xdp(XdpOptions::default());
    let opened = AfXdp.open_rx(device, &RxOptions { method, ..RxOptions::default() })?;
    opened.changes.iter().for_each(|change| eprintln!("{device}: {change}"));
    Ok(opened.queues.into_iter().next().ok_or("no queue")?)
}

fn transmitter(device: &str) -> Result<Box<dyn TxQueue>, Box<dyn Error>> {
    let method = Method::Xdp(XdpOptions::default());
    let opened = AfXdp.open_tx(device, &TxOptions { method, ..TxOptions::default() })?;
    Ok(opened.queues.into_iter().next().ok_or("no queue")?)
}

/// Prints a line a second.
struct Report {
    next: Instant,
    calls: u32,
    packets: usize,
    unsent: usize,
    lost: u64,
}

impl Report {
    fn new() -> Self {
        let next = Instant::now() + Duration::from_secs(1);
        Self { next, calls: 0, packets: 0, unsent: 0, lost: 0 }
    }

    fn add(&mut self, packets: usize, unsent: usize, lost: impl FnOnce() -> u64) {
        self.packets += packets;
        self.unsent += unsent;
        self.calls = self.calls.wrapping_add(1);
        if !self.calls.is_multiple_of(64) || Instant::now() < self.next {
            return;
        }
        let lost = lost();
        println!(
            "{} packets/s, {} lost, {} without room, {} copied in all",
            self.packets,
            lost - self.lost,
            self.unsent,
            copies::snapshot().total()
        );
        *self = Self { next: self.next + Duration::from_secs(1), lost, ..Self::new() };
    }
}

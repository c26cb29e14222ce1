//! Devices on which packets arrive at given times, whether anybody takes them or not.
//!
//! Each packet carries in its last bytes the moment at which it was due; where it is transmitted, the time since
//! then is written down. A packet that has to wait because those before it are slow is late from its due time on,
//! so slowness hides nothing (Tene's "coordinated omission").

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::router::Options;
use millrace_core::services::Services;
use millrace_core::{Batch, Router, cycles};
use millrace_io::{
    Backend, Capabilities, DeviceError, Devices, Opened, RxOptions, RxQueue, TxOptions, TxQueue,
};

use crate::cycles::INGRESS;
use crate::graph::{Graph, drops};

/// When packets are due, in cycles of the time stamp counter since the first may come.
pub(crate) type Schedule = Arc<[u64]>;

/// Frames of any length that arrive one after the other, over and over again: at least 8 bytes each.
pub(crate) type Frames = Arc<[Box<[u8]>]>;

/// What a run has shown.
pub(crate) struct Passage {
    /// Cycles from a packet's due time to its transmission, in no order.
    pub(crate) latencies: Vec<u64>,
    /// Cycles from the first packet's due time to the last one's transmission.
    pub(crate) took: u64,
    /// What left by each device, if it was watched.
    pub(crate) sent: BTreeMap<String, Sent>,
}

/// Runs a graph on one core on packets that are due as scheduled.
///
/// # Errors
/// The graph is wrong, or not every packet comes out.
pub(crate) fn run(
    graph: &Graph,
    burst: usize,
    core: usize,
    frames: &Frames,
    schedule: Schedule,
) -> anyhow::Result<Passage> {
    run_watched(graph, burst, core, frames, schedule, false)
}

/// What left by each device, whatever the order: for runs that must do the same.
///
/// # Errors
/// As [`run`].
pub(crate) fn sent(
    graph: &Graph,
    burst: usize,
    core: usize,
    frames: &Frames,
    packets: usize,
) -> anyhow::Result<BTreeMap<String, Sent>> {
    let schedule = vec![0; packets].into();
    Ok(run_watched(graph, burst, core, frames, schedule, true)?.sent)
}

/// Packets that left by a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// How many.
    pub(crate) packets: u64,
    /// The sum of a hash of each one's bytes, without the moment at the end.
    pub(crate) digest: u64,
}

fn run_watched(
    graph: &Graph,
    burst: usize,
    core: usize,
    frames: &Frames,
    schedule: Schedule,
    watched: bool,
) -> anyhow::Result<Passage> {
    let packets = schedule.len();
    let devices = OpenLoop(Arc::new(State {
        frames: frames.clone(),
        schedule,
        router: OnceLock::new(),
        received: AtomicU64::new(0),
        transmitted: AtomicU64::new(0),
        passages: Mutex::default(),
        watched,
        sent: Mutex::default(),
    }));
    let mut services = Services::default();
    services.insert(Devices(Box::new(devices.clone())));
    let options = Options { cores: vec![core], services, ..Options::default() };
    let engine = graph.engine(&[("burst", burst.to_string())], options)?;
    let router = engine.router().clone();
    // These devices have one router.
    let _ = devices.0.router.set(router.clone());
    let outcome = engine.run();
    ensure!(outcome.complaints.is_empty(), "{}", outcome.complaints.join("; "));
    let passages =
        std::mem::take(&mut *devices.0.passages.lock().unwrap_or_else(PoisonError::into_inner));
    ensure!(
        passages.len() == packets,
        "{}: of {packets} packets {} came out; dropped: {:?}",
        graph.name,
        passages.len(),
        drops(&router)
    );
    let sent = std::mem::take(&mut *devices.0.sent.lock().unwrap_or_else(PoisonError::into_inner));
    let first = passages.iter().map(|passage| passage.due).min().unwrap_or(0);
    let last = passages.iter().map(|passage| passage.out).max().unwrap_or(0);
    let latencies =
        passages.iter().map(|passage| passage.out.saturating_sub(passage.due)).collect();
    Ok(Passage { latencies, took: last.saturating_sub(first), sent })
}

/// The devices. Clones are the same ones.
#[derive(Clone)]
struct OpenLoop(Arc<State>);

struct State {
    frames: Frames,
    schedule: Schedule,
    router: OnceLock<Arc<Router>>,
    received: AtomicU64,
    transmitted: AtomicU64,
    passages: Mutex<Vec<One>>,
    watched: bool,
    sent: Mutex<BTreeMap<String, Sent>>,
}

/// When a packet was due and when it was out.
#[derive(Clone, Copy)]
struct One {
    due: u64,
    out: u64,
}

impl Backend for OpenLoop {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        if !options.filter.is_empty() {
            return Err(DeviceError::Unsupported {
                device: device.to_owned(),
                what: "a device of the bench has no filter in the kernel".to_owned(),
            });
        }
        let queue = Arrivals {
            state: self.0.clone(),
            next: if device == INGRESS { 0 } else { usize::MAX },
            longest: self.0.frames.iter().map(|frame| frame.len()).max().unwrap_or(0),
            start: None,
            until: None,
            is_over: false,
        };
        Ok(opened(Box::new(queue)))
    }

    fn open_tx(
        &self,
        device: &str,
        _options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        let passages = Vec::with_capacity(self.0.schedule.len());
        let device = device.to_owned();
        Ok(opened(Box::new(Exit { state: self.0.clone(), device, passages })))
    }

    fn ether(&self, _device: &str) -> Option<EtherAddress> {
        None
    }

    fn ipv4(&self, _device: &str) -> Option<Ipv4Prefix> {
        None
    }
}

fn opened<Q: ?Sized>(queue: Box<Q>) -> Opened<Q> {
    let capabilities = Capabilities { backend: "bench", ..Capabilities::default() };
    Opened { queues: vec![queue], capabilities, changes: Vec::new() }
}

/// Where packets arrive.
struct Arrivals {
    state: Arc<State>,
    /// The packet that is due next.
    next: usize,
    /// Bytes of the longest frame.
    longest: usize,
    /// When the schedule began.
    start: Option<u64>,
    /// How long to wait for the last packets.
    until: Option<Instant>,
    is_over: bool,
}

/// How long, after the last packet, to wait until all have been transmitted: a device that hangs costs less.
const PATIENCE: Duration = Duration::from_secs(5);

impl RxQueue for Arrivals {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let now = cycles::now();
        let begun = *self.start.get_or_insert(now);
        let Some(schedule) = self.state.schedule.get(self.next..) else { return Ok(0) };
        if schedule.is_empty() {
            self.finish();
            return Ok(0);
        }
        let due = schedule.iter().take(max).take_while(|due| begun + **due <= now).count();
        let before = batch.len();
        let longest = self.longest;
        let n = batch.allocate(due, longest);
        let frames = self.state.frames.iter().cycle();
        let frames = frames.skip(self.next % self.state.frames.len().max(1));
        for ((packet, frame), due) in batch.iter_mut().skip(before).zip(frames).zip(schedule) {
            let buffer = packet.buffer_mut();
            if let Some(buffer) = buffer.get_mut(..frame.len()) {
                buffer.copy_from_slice(frame);
                if let Some(last) = buffer.last_chunk_mut() {
                    *last = (begun + due).to_ne_bytes();
                }
            }
            // The packet was made for so many bytes.
            let _ = packet.set_len(frame.len());
        }
        self.next += n;
        self.state.received.store(self.next as u64, Relaxed);
        Ok(n)
    }

    fn is_finished(&self) -> bool {
        self.next == usize::MAX || self.is_over
    }
}

impl Arrivals {
    /// Stops the router as soon as everything has come out, or should have.
    fn finish(&mut self) {
        let until = *self.until.get_or_insert_with(|| Instant::now() + PATIENCE);
        let all_came = self.state.transmitted.load(Relaxed) >= self.state.received.load(Relaxed);
        self.is_over = all_came || Instant::now() >= until;
        if self.is_over
            && let Some(router) = self.state.router.get()
        {
            router.halt();
        }
    }
}

/// Where packets leave.
struct Exit {
    state: Arc<State>,
    device: String,
    passages: Vec<One>,
}

impl TxQueue for Exit {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let n = batch.len();
        let out = cycles::now();
        self.passages.extend(batch.iter().filter_map(|packet| {
            let due = packet.data().last_chunk().map(|bytes| u64::from_ne_bytes(*bytes))?;
            Some(One { due, out })
        }));
        if self.state.watched {
            self.watch(batch);
        }
        batch.clear();
        self.state.transmitted.fetch_add(n as u64, Relaxed);
        Ok(n)
    }
}

impl Exit {
    fn watch(&self, batch: &Batch) {
        let mut sent = self.state.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = sent.entry(self.device.clone()).or_default();
        for packet in batch.iter() {
            let mut hasher = DefaultHasher::new();
            packet.data().split_last_chunk::<8>().map(|(bytes, _)| bytes).hash(&mut hasher);
            sent.packets += 1;
            sent.digest = sent.digest.wrapping_add(hasher.finish());
        }
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        let mut passages = self.state.passages.lock().unwrap_or_else(PoisonError::into_inner);
        passages.append(&mut self.passages);
    }
}

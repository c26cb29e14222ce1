//! The devices of the benchmarks: one that delivers a trace repeatedly, and many that discard packets.
//!
//! The receiving device copies frames into new packets, as DPDK's net_pcap does with `infinite_rx`. The transmitting
//! devices free packets in bulk. So the router and the packet memory are measured, and of the devices only the
//! unavoidable part.
//!
//! The receiving device also measures. It divides a run into *slices* of some thousand packets, and reads the
//! counters between them, so that a short disturbance affects a slice and not the run. Callgrind is also told where a
//! slice begins and ends.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use millrace_core::memory::DEFAULT_HEADROOM;
use millrace_core::{Batch, Lock, Packet, Phase, Router, cycles};
use millrace_io::{Backend, DeviceError, Opened, RxOptions, RxQueue, TxOptions, TxQueue};

use super::counters::{Counters, Counts};
use crate::callgrind::mark;
use crate::traffic::FRAME_LEN;

/// The device on which packets arrive unless [`Manner::anywhere`] says otherwise.
pub(crate) const INGRESS: &str = "eth0";

/// The number of packets of a run, and what is recorded about them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    /// Packets before the first slice. Like those of a slice, a multiple of the length of bursts; otherwise the last
    /// slice is incomplete.
    pub(crate) warm_up: u64,
    /// Packets of a slice. A slice ends with a burst, so it may have a few more.
    pub(crate) slice: u64,
    /// Slices.
    pub(crate) slices: u64,
    /// True if the bytes of transmitted packets are kept.
    pub(crate) keep: bool,
}

impl Length {
    fn packets(&self) -> u64 {
        self.warm_up + self.slice * self.slices
    }
}

/// How the devices behave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// True if packets are allocated and freed one by one instead of in bursts.
    pub(crate) singly: bool,
    /// The number of packets that the transmitting devices hold before they free them, as cards do. Then the memory
    /// is no longer in a near cache when it is reused.
    pub(crate) held: usize,
    /// True if packets arrive on the device that is opened first to receive, whatever its name.
    pub(crate) anywhere: bool,
    /// The maximum number of packets that the device delivers at a time; 0 means no limit.
    pub(crate) most: usize,
}

/// The frames of a trace, which are repeated in order.
pub(crate) type Trace = Arc<[[u8; FRAME_LEN]]>;

/// What was transmitted, by device.
pub(crate) type Transmitted = BTreeMap<String, Vec<Vec<u8>>>;

/// What was counted in one slice.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    /// Packets that were received.
    pub(crate) packets: u64,
    /// Cycles of the time stamp counter.
    pub(crate) cycles: u64,
    /// What the processor counted.
    pub(crate) counts: Counts,
    /// Cycles in each element, by its index.
    pub(crate) elements: Vec<u64>,
}

/// The bench's devices. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct BenchDevices(Arc<State>);

struct State {
    length: Length,
    manner: Manner,
    trace: Trace,
    /// The router, which holds the devices.
    router: OnceLock<Weak<Router>>,
    /// The device on which packets arrive.
    ingress: OnceLock<String>,
    /// Most packets that were ever wanted at a time.
    wanted: AtomicU64,
    received: AtomicU64,
    transmitted: AtomicU64,
    kept: Lock<Transmitted>,
    slices: Lock<Vec<Slice>>,
}

impl BenchDevices {
    pub(crate) fn new(trace: Trace, length: Length, manner: Manner) -> Self {
        Self(Arc::new(State {
            length,
            manner,
            trace,
            router: OnceLock::new(),
            ingress: OnceLock::new(),
            wanted: AtomicU64::new(0),
            received: AtomicU64::new(0),
            transmitted: AtomicU64::new(0),
            kept: Lock::default(),
            slices: Lock::default(),
        }))
    }

    /// Sets the router that is measured, before it runs. It is stopped at the end of the trace.
    pub(crate) fn attach(&self, router: &Arc<Router>) {
        // The devices of a run have one router.
        let _ = self.0.router.set(Arc::downgrade(router));
    }

    /// Packets that were received and packets that were transmitted.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.0.received.load(Relaxed), self.0.transmitted.load(Relaxed))
    }

    /// Most packets that were ever wanted at a time.
    pub(crate) fn wanted(&self) -> u64 {
        self.0.wanted.load(Relaxed)
    }

    /// The counts of each slice.
    pub(crate) fn take_slices(&self) -> Vec<Slice> {
        std::mem::take(&mut self.0.slices.lock())
    }

    /// What was transmitted, if it was kept.
    pub(crate) fn take_kept(&self) -> Transmitted {
        std::mem::take(&mut self.0.kept.lock())
    }
}

impl Backend for BenchDevices {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        let unsupported = |what: &str| DeviceError::Unsupported {
            device: device.to_owned(),
            what: format!("a device of the bench {what}"),
        };
        if !options.filter.is_empty() {
            return Err(unsupported("has no filter in the kernel"));
        }
        if options.headroom > DEFAULT_HEADROOM || options.snap_length < FRAME_LEN {
            return Err(unsupported("gives packets as they are"));
        }
        let first = if self.0.manner.anywhere { device } else { INGRESS };
        if device != self.0.ingress.get_or_init(|| first.to_owned()) {
            return Ok(Opened::new("bench", vec![Box::new(Silent)]));
        }
        Ok(Opened::new(
            "bench",
            vec![Box::new(Replay {
                state: self.0.clone(),
                next: 0,
                given: 0,
                watch: StopWatch::new(&self.0.length),
                patience: PATIENCE,
                wanted: 0,
            })],
        ))
    }

    fn open_tx(
        &self,
        device: &str,
        _options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        Ok(Opened::new(
            "bench",
            vec![Box::new(Sink {
                state: self.0.clone(),
                device: device.to_owned(),
                held: VecDeque::with_capacity(self.0.manner.held + Batch::CAPACITY),
            })],
        ))
    }
}

/// A device on which nothing arrives.
struct Silent;

impl RxQueue for Silent {
    fn receive(&mut self, _batch: &mut Batch, _max: usize) -> io::Result<usize> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        true
    }
}

/// The device on which the trace arrives.
struct Replay {
    state: Arc<State>,
    /// The frame of the trace that comes next.
    next: usize,
    given: u64,
    watch: StopWatch,
    patience: u32,
    wanted: usize,
}

/// The number of checks, after the last packet was received, whether all packets have been transmitted.
const PATIENCE: u32 = 1000;

impl RxQueue for Replay {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        if self.given >= self.watch.next {
            self.watch.turn(&self.state, self.given);
        }
        let left = self.state.length.packets().saturating_sub(self.given);
        if left == 0 {
            self.finish();
            return Ok(0);
        }
        if max > self.wanted {
            self.wanted = max;
            self.state.wanted.store(max as u64, Relaxed);
        }
        let start = batch.len();
        let most = if self.state.manner.most > 0 { self.state.manner.most } else { max };
        let wanted = max.min(most).min(usize::try_from(left).unwrap_or(max));
        let n = match self.state.manner.singly {
            false => batch.allocate(wanted, FRAME_LEN),
            true => (0..wanted).map(|_| batch.allocate(1, FRAME_LEN)).sum(),
        };
        let trace = &*self.state.trace;
        for packet in batch.iter_mut().skip(start) {
            let Some(frame) = trace.get(self.next) else { break };
            if let Some(buffer) = packet.buffer_mut().first_chunk_mut() {
                *buffer = *frame;
            }
            // The packet was made for so many bytes.
            let _ = packet.set_len(FRAME_LEN);
            self.next = if self.next + 1 < trace.len() { self.next + 1 } else { 0 };
        }
        self.given += n as u64;
        self.state.received.store(self.given, Relaxed);
        Ok(n)
    }

    fn is_finished(&self) -> bool {
        self.patience == 0
    }
}

impl Replay {
    /// Stops the router as soon as everything has come out, or should have come out.
    fn finish(&mut self) {
        self.patience = self.patience.saturating_sub(1);
        if self.state.transmitted.load(Relaxed) >= self.given {
            self.patience = 0;
        }
        if self.patience == 0
            && let Some(router) = self.state.router.get().and_then(Weak::upgrade)
        {
            router.enter(Phase::Halted);
        }
    }
}

/// Reads the counters at the ends of slices.
struct StopWatch {
    /// The number of packets at the next end of a slice.
    next: u64,
    counters: Option<Counters>,
    /// The start of the current slice.
    bound: Option<Bound>,
}

struct Bound {
    packets: u64,
    cycles: u64,
    counts: Counts,
    elements: Vec<u64>,
    /// Cycles that reading the counters took. They are attributed to the receiving element, which was running, and to
    /// no slice.
    overhead: u64,
}

impl StopWatch {
    fn new(length: &Length) -> Self {
        Self { next: length.warm_up, counters: Counters::start().ok(), bound: None }
    }

    /// Ends a slice and begins the next one.
    fn turn(&mut self, state: &State, packets: u64) {
        if self.bound.is_some() {
            mark();
        }
        let cycles = cycles::now();
        let counts = self.read_counters();
        let Some(router) = state.router.get().and_then(Weak::upgrade) else { return };
        let elements: Vec<u64> = (0..router.len()).map(|id| router.stats_of(id).cycles).collect();
        if let Some(bound) = &self.bound {
            let receiver = router.plan().tasks.iter().find(|task| {
                task.receives
                    .as_ref()
                    .is_some_and(|(device, _)| Some(device) == state.ingress.get())
            });
            let receiver = receiver.map(|task| task.element);
            let spent =
                elements.iter().zip(&bound.elements).enumerate().map(|(id, (now, then))| {
                    let overhead = if Some(id) == receiver { bound.overhead } else { 0 };
                    now.wrapping_sub(*then).saturating_sub(overhead)
                });
            state.slices.lock().push(Slice {
                packets: packets - bound.packets,
                cycles: cycles.wrapping_sub(bound.cycles),
                counts: counts.since(bound.counts),
                elements: spent.collect(),
            });
        }
        // Its count changes by a locked instruction, which is no part of what is counted after the mark.
        drop(router);
        self.next = match packets < state.length.packets() {
            true => packets + state.length.slice,
            false => u64::MAX,
        };
        let counts = self.read_counters();
        let begin = cycles::now();
        let overhead = begin.wrapping_sub(cycles);
        self.bound = Some(Bound { packets, cycles: begin, counts, elements, overhead });
        if self.next < u64::MAX {
            mark();
        }
    }

    fn read_counters(&mut self) -> Counts {
        self.counters.as_mut().map(Counters::read).unwrap_or_default()
    }
}

/// A device that discards packets.
struct Sink {
    state: Arc<State>,
    device: String,
    /// Packets that the device holds, for [`Manner::held`].
    held: VecDeque<Packet>,
}

impl TxQueue for Sink {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let n = batch.len();
        if self.state.length.keep {
            let mut kept = self.state.kept.lock();
            let frames = kept.entry(self.device.clone()).or_default();
            frames.extend(batch.iter().map(|packet| packet.data().to_vec()));
        }
        self.give_back(batch);
        // One thread transmits.
        let before = self.state.transmitted.load(Relaxed);
        self.state.transmitted.store(before + n as u64, Relaxed);
        Ok(n)
    }
}

impl Sink {
    /// Frees the memory of packets, or of those that were held long enough.
    #[inline]
    fn give_back(&mut self, batch: &mut Batch) {
        let Manner { singly, held, .. } = self.state.manner;
        if held > 0 {
            self.held.extend(batch.drain());
            let over = self.held.len().saturating_sub(held).min(Batch::CAPACITY);
            for packet in self.held.drain(..over) {
                // There is room for as many as a batch holds.
                let _ = batch.push(packet);
            }
        }
        match singly {
            false => batch.clear(),
            true => batch.drain().for_each(drop),
        }
    }
}

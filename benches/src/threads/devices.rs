//! Devices with several queues. Each receive queue delivers a part of a trace repeatedly, and transmit queues discard
//! packets. Every queue has its own counts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::{Batch, Count, Lock};
use millrace_io::{
    Backend, DeviceError, DeviceFacts, Method, Opened, RxOptions, RxQueue, TxOptions, TxQueue,
};

use crate::cycles::Trace;
use crate::traffic::FRAME_LEN;

/// The devices, with any name. Clones are the same ones.
#[derive(Clone)]
pub(super) struct Rig(Arc<State>);

struct State {
    trace: Trace,
    /// The maximum number of transmit queues of a device.
    tx_queues: usize,
    finished: AtomicBool,
    received: Lock<Vec<Arc<Padded>>>,
    transmitted: Lock<Vec<Arc<Padded>>>,
}

/// The counter of a queue, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Padded(Count);

impl Rig {
    /// Devices on which a trace arrives, with at most this number of transmit queues each.
    pub(super) fn new(trace: Trace, tx_queues: usize) -> Self {
        Self(Arc::new(State {
            trace,
            tx_queues,
            finished: false.into(),
            received: Lock::default(),
            transmitted: Lock::default(),
        }))
    }

    /// Stops the arrival of packets.
    pub(super) fn finish(&self) {
        self.0.finished.store(true, Relaxed);
    }

    /// The numbers of packets received and transmitted so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        (sum(&self.0.received), sum(&self.0.transmitted))
    }
}

fn sum(counters: &Lock<Vec<Arc<Padded>>>) -> u64 {
    let counters = counters.lock();
    counters.iter().map(|counter| counter.0.get()).sum()
}

fn add(counters: &Lock<Vec<Arc<Padded>>>) -> Arc<Padded> {
    let counter = Arc::new(Padded::default());
    counters.lock().push(counter.clone());
    counter
}

impl Backend for Rig {
    fn open_rx(&self, _: &str, options: &RxOptions) -> Result<Opened<dyn RxQueue>, DeviceError> {
        let queues = options.queues.first..options.queues.first + options.queues.count;
        let feed = |queue| -> Box<dyn RxQueue> {
            Box::new(Feed {
                state: self.0.clone(),
                next: queue,
                step: options.queues.count,
                counter: add(&self.0.received),
            })
        };
        Ok(Opened::new("bench", queues.map(feed).collect()))
    }

    fn open_tx(&self, _: &str, options: &TxOptions) -> Result<Opened<dyn TxQueue>, DeviceError> {
        let count = options.queues.count.min(self.0.tx_queues);
        let drain =
            |_| -> Box<dyn TxQueue> { Box::new(Drain { counter: add(&self.0.transmitted) }) };
        Ok(Opened::new("bench", (0..count).map(drain).collect()))
    }

    fn facts(&self, _: &str, _: &Method) -> DeviceFacts {
        DeviceFacts { tx_queues: Some(self.0.tx_queues), ..DeviceFacts::default() }
    }
}

/// A receive queue: every `step`-th frame of the trace.
#[repr(align(128))]
struct Feed {
    state: Arc<State>,
    next: usize,
    step: usize,
    counter: Arc<Padded>,
}

impl RxQueue for Feed {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        if self.state.finished.load(Relaxed) {
            return Ok(0);
        }
        let start = batch.len();
        let n = batch.allocate(max, FRAME_LEN);
        let trace = &*self.state.trace;
        for packet in batch.iter_mut().skip(start) {
            let Some(frame) = trace.get(self.next) else { break };
            if let Some(buffer) = packet.buffer_mut().first_chunk_mut() {
                *buffer = *frame;
            }
            // The packet was made for so many bytes.
            let _ = packet.set_len(FRAME_LEN);
            self.next += self.step;
            if self.next >= trace.len() {
                self.next %= self.step;
            }
        }
        self.counter.0.add(n as u64);
        Ok(n)
    }
}

/// A transmit queue.
#[repr(align(128))]
struct Drain {
    counter: Arc<Padded>,
}

impl TxQueue for Drain {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let n = batch.len();
        batch.clear();
        self.counter.0.add(n as u64);
        Ok(n)
    }
}

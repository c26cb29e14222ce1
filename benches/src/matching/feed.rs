//! Devices for the elements: one gives frames of one length, over and over; another swallows what comes. Between the end of
//! the warm-up and the last frame the processor time of the thread is taken.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::{Batch, Router};
use millrace_io::{
    Backend, Capabilities, DeviceError, Opened, RxOptions, RxQueue, TxOptions, TxQueue,
};

use super::race::processor_time;

/// The devices. Clones are the same ones.
#[derive(Clone)]
pub(super) struct Feed(Arc<State>);

struct State {
    frames: Arc<Vec<Vec<u8>>>,
    /// Frames before the watch starts, and in all.
    warm_up: u64,
    total: u64,
    router: OnceLock<Arc<Router>>,
    transmitted: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Feed {
    /// All frames once, and then so many times with the watch.
    pub(super) fn new(frames: Arc<Vec<Vec<u8>>>, times: u64) -> Self {
        let once = frames.len() as u64;
        Self(Arc::new(State {
            frames,
            warm_up: once,
            total: once * (times + 1),
            router: OnceLock::new(),
            transmitted: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        }))
    }

    /// Says which router is to be stopped when all frames have come out.
    pub(super) fn attach(&self, router: &Arc<Router>) {
        // The devices of a run have one router.
        let _ = self.0.router.set(router.clone());
    }

    /// Frames that came in, and that came out.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.0.total, self.0.transmitted.load(Relaxed))
    }

    /// The processor time of a frame, in nanoseconds.
    pub(super) fn nanoseconds(&self) -> f64 {
        let frames = self.0.total - self.0.warm_up;
        self.0.nanoseconds.load(Relaxed) as f64 / frames as f64
    }
}

impl Backend for Feed {
    fn open_rx(
        &self,
        _device: &str,
        _options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        Ok(opened(Box::new(Source {
            state: self.0.clone(),
            given: 0,
            start: None,
            patience: 1000,
        })))
    }

    fn open_tx(
        &self,
        _device: &str,
        _options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        Ok(opened(Box::new(Sink(self.0.clone()))))
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

struct Source {
    state: Arc<State>,
    given: u64,
    start: Option<Duration>,
    /// How often, behind the last frame, to look whether all have come out.
    patience: u32,
}

impl RxQueue for Source {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let State { frames, warm_up, total, .. } = &*self.state;
        if self.given >= *warm_up && self.start.is_none() {
            self.start = Some(processor_time());
        }
        if self.given == *total {
            self.finish();
            return Ok(0);
        }
        // Bursts end with the list of frames, and so with the warm-up.
        let at = (self.given % frames.len() as u64) as usize;
        let coming = frames.get(at..(at + max).min(frames.len())).unwrap_or_default();
        let length = coming.first().map_or(0, Vec::len);
        let before = batch.len();
        let count = batch.allocate(coming.len(), length);
        for (packet, frame) in batch.iter_mut().skip(before).zip(coming) {
            if let Some(buffer) = packet.buffer_mut().get_mut(..frame.len()) {
                buffer.copy_from_slice(frame);
            }
            // The packet was made for so many bytes.
            let _ = packet.set_len(frame.len());
        }
        self.given += count as u64;
        Ok(count)
    }

    fn is_finished(&self) -> bool {
        self.patience == 0
    }
}

impl Source {
    fn finish(&mut self) {
        self.patience = self.patience.saturating_sub(1);
        if self.state.transmitted.load(Relaxed) == self.state.total {
            self.patience = 0;
        }
        if let Some(start) = self.start.filter(|_| self.state.nanoseconds.load(Relaxed) == 0) {
            let took = processor_time() - start;
            self.state.nanoseconds.store(took.as_nanos() as u64, Relaxed);
        }
        if self.patience == 0
            && let Some(router) = self.state.router.get()
        {
            router.halt();
        }
    }
}

struct Sink(Arc<State>);

impl TxQueue for Sink {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let count = batch.len();
        batch.clear();
        self.0.transmitted.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}

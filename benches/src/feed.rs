//! Devices in memory that feed a graph and record its output. Packets are due at given times, whether or not they are
//! taken, or arrive as fast as they are taken.
//!
//! A packet that is due at a time carries this time in its last bytes. When it is transmitted, the time since then is
//! recorded. So a packet that waits because earlier packets are slow counts as late from its due time on (Tene's
//! "coordinated omission").

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use millrace_core::run::Options;
use millrace_core::services::Services;
use millrace_core::{Batch, Lock, Phase, Router, cycles};
use millrace_io::{
    Backend, DeviceError, DeviceFacts, Devices, Method, Opened, RxOptions, RxQueue, TxOptions,
    TxQueue,
};
use rustix::time::{ClockId, clock_gettime};

use crate::cycles::INGRESS;
use crate::graph::{Graph, drops};

/// The due times of packets, in cycles of the time stamp counter since the start.
pub(crate) type Schedule = Arc<[u64]>;

/// Frames of any length that are repeated in order. If they are due at times, they must have at least 8 bytes.
pub(crate) type Frames = Arc<[Box<[u8]>]>;

/// How packets arrive.
#[derive(Clone, Debug)]
pub(crate) enum Arrivals {
    /// At these times.
    At(Schedule),
    /// As fast as they are taken, with all bytes of their frames.
    AtOnce {
        /// The number of packets before the measurement.
        warm_up: usize,
        /// The number of packets in the measurement.
        packets: usize,
    },
}

impl Arrivals {
    /// This number of packets as fast as they are taken; an eighth of them before the measurement.
    pub(crate) fn at_once(packets: usize) -> Self {
        Self::AtOnce { warm_up: packets / 8, packets: packets - packets / 8 }
    }

    fn total(&self) -> usize {
        match self {
            Self::At(schedule) => schedule.len(),
            Self::AtOnce { warm_up, packets } => warm_up + packets,
        }
    }
}

/// A graph and its input.
pub(crate) struct Run<'a> {
    /// The graph. Packets arrive on the device `eth0`.
    pub(crate) graph: &'a Graph,
    /// The maximum number of packets that are received at a time: the variable `burst`.
    pub(crate) burst: usize,
    /// The cores; each runs a thread.
    pub(crate) cores: &'a [usize],
    /// The frames that arrive.
    pub(crate) frames: &'a Frames,
    /// How it arrives.
    pub(crate) arrivals: Arrivals,
}

/// The results of a run.
pub(crate) struct Passage {
    /// Cycles from the due time of a packet to its transmission, unordered, for packets with due times.
    pub(crate) latencies: Vec<u64>,
    /// The number of these that left after one that was due later.
    pub(crate) reordered: u64,
    /// Packets that came out during the measurement.
    pub(crate) packets: u64,
    /// Cycles of the measurement: from the first packet's due time, or the end of the warm-up, to the last
    /// transmission.
    pub(crate) took: u64,
    /// The program's processor time during the measurement, if packets arrived as fast as they were taken.
    pub(crate) processor: Duration,
    /// What left by each device, if it was recorded.
    pub(crate) sent: BTreeMap<String, Sent>,
    /// The router, which has stopped.
    pub(crate) router: Arc<Router>,
}

/// Packets that left by a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// How many.
    pub(crate) packets: u64,
    /// The sum of hashes of the packets' bytes, without the last eight.
    pub(crate) digest: u64,
}

impl Passage {
    /// The number of cycles between packets.
    pub(crate) fn gap(&self) -> f64 {
        self.took as f64 / self.packets.max(1) as f64
    }
}

impl Run<'_> {
    /// Runs the graph.
    ///
    /// # Errors
    /// The configuration is wrong, or not every packet comes out.
    pub(crate) fn run(self) -> anyhow::Result<Passage> {
        self.start(false)
    }

    /// Runs the graph, and records what is sent, in any order. It is for runs that must give the same results.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn sent(self) -> anyhow::Result<BTreeMap<String, Sent>> {
        Ok(self.start(true)?.sent)
    }

    fn start(self, watched: bool) -> anyhow::Result<Passage> {
        let packets = self.arrivals.total();
        let devices = Feed(Arc::new(State {
            frames: self.frames.clone(),
            arrivals: self.arrivals,
            threads: self.cores.len(),
            router: OnceLock::new(),
            transmitted: AtomicU64::new(0),
            start: OnceLock::new(),
            end: OnceLock::new(),
            watched,
            seen: Lock::default(),
        }));
        let mut services = Services::default();
        services.insert(Devices(Box::new(devices.clone())));
        let (threads, cores) = (self.cores.len(), self.cores.to_vec());
        let options = Options { threads, cores, services, ..Options::default() };
        let engine = self.graph.engine(&[("burst", self.burst.to_string())], options)?;
        let router = engine.router().clone();
        // These devices have one router.
        let _ = devices.0.router.set(Arc::downgrade(&router));
        let outcome = engine.run();
        ensure!(outcome.complaints.is_empty(), "{}", outcome.complaints.join("; "));
        let state = &devices.0;
        let transmitted = state.transmitted.load(Relaxed);
        ensure!(
            transmitted == packets as u64,
            "{}: of {packets} packets {transmitted} came out; dropped: {:?}",
            self.graph.name,
            drops(&router)
        );
        let seen = std::mem::take(&mut *state.seen());
        let (start, end) = state.start.get().zip(state.end.get()).context("no packets")?;
        let (took, counted) = match state.arrivals {
            Arrivals::At(_) => (seen.last_out.saturating_sub(seen.first_due), packets as u64),
            Arrivals::AtOnce { .. } => (end.cycles - start.cycles, end.packets - start.packets),
        };
        Ok(Passage {
            latencies: seen.latencies,
            reordered: seen.reordered,
            packets: counted,
            took,
            processor: end.processor.saturating_sub(start.processor),
            sent: seen.sent,
            router,
        })
    }
}

/// The devices. Clones are the same ones.
#[derive(Clone)]
struct Feed(Arc<State>);

struct State {
    frames: Frames,
    arrivals: Arrivals,
    threads: usize,
    /// The router, which holds the devices.
    router: OnceLock<Weak<Router>>,
    transmitted: AtomicU64,
    /// The end of the warm-up, and the end of the run.
    start: OnceLock<Mark>,
    end: OnceLock<Mark>,
    watched: bool,
    seen: Lock<Seen>,
}

/// A moment, and the number of packets that had come out.
#[derive(Clone, Copy)]
struct Mark {
    cycles: u64,
    processor: Duration,
    packets: u64,
}

/// What the exits have recorded.
struct Seen {
    latencies: Vec<u64>,
    reordered: u64,
    first_due: u64,
    last_out: u64,
    sent: BTreeMap<String, Sent>,
}

impl Default for Seen {
    fn default() -> Self {
        let (latencies, sent) = (Vec::new(), BTreeMap::new());
        Self { latencies, reordered: 0, first_due: u64::MAX, last_out: 0, sent }
    }
}

impl State {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }

    /// Counts packets that came out, and reads the clocks at the start and the end of the measurement.
    fn count(&self, packets: usize) {
        let before = self.transmitted.fetch_add(packets as u64, Relaxed);
        let after = before + packets as u64;
        let warm_up = match self.arrivals {
            Arrivals::At(_) => 1,
            Arrivals::AtOnce { warm_up, .. } => warm_up.max(1) as u64,
        };
        let total = self.arrivals.total() as u64;
        for (at, mark) in [(warm_up, &self.start), (total, &self.end)] {
            if (before + 1..=after).contains(&at) {
                let (cycles, processor) = (cycles::now(), processor_time());
                let _ = mark.set(Mark { cycles, processor, packets: after });
            }
        }
    }
}

/// The processor time of all threads so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

impl Backend for Feed {
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
        let count = options.queues.count.max(1);
        let total = if device == INGRESS { self.0.arrivals.total() } else { 0 };
        let queue = |first| -> Box<dyn RxQueue> {
            Box::new(Source {
                state: self.0.clone(),
                next: first,
                step: count,
                total,
                longest: self.0.frames.iter().map(|frame| frame.len()).max().unwrap_or(0),
                begun: None,
                last_seen: None,
                is_over: device != INGRESS,
            })
        };
        Ok(Opened::new("bench", (0..count).map(queue).collect()))
    }

    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        let queue = |_| -> Box<dyn TxQueue> {
            Box::new(Exit {
                state: self.0.clone(),
                device: device.to_owned(),
                passages: Vec::new(),
                sent: Sent::default(),
            })
        };
        Ok(Opened::new("bench", (0..options.queues.count.max(1)).map(queue).collect()))
    }

    fn facts(&self, _: &str, _: &Method) -> DeviceFacts {
        DeviceFacts { tx_queues: Some(self.0.threads), ..DeviceFacts::default() }
    }
}

/// Where packets arrive: each `step`-th of all.
struct Source {
    state: Arc<State>,
    /// The number of the packet that comes next.
    next: usize,
    step: usize,
    total: usize,
    /// Bytes of the longest frame.
    longest: usize,
    /// When the schedule began.
    begun: Option<u64>,
    /// The number of packets at the last transmission, and its time.
    last_seen: Option<(u64, Instant)>,
    is_over: bool,
}

/// The maximum time to wait for another transmission after the last packet. A device that hangs must not take longer.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 5000 });

impl RxQueue for Source {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        if self.next >= self.total {
            self.finish();
            return Ok(0);
        }
        let due = self.due(max);
        let before = batch.len();
        let count = batch.allocate(due, self.longest);
        let state = self.state.clone();
        for packet in batch.iter_mut().skip(before) {
            let Some(frame) = state.frames.get(self.next % state.frames.len().max(1)) else {
                break;
            };
            if let Some(buffer) = packet.buffer_mut().get_mut(..frame.len()) {
                buffer.copy_from_slice(frame);
                if let (Some(begun), Some(last)) = (self.begun, buffer.last_chunk_mut())
                    && let Arrivals::At(schedule) = &state.arrivals
                {
                    let due = schedule.get(self.next).copied().unwrap_or(0);
                    *last = (begun + due).to_ne_bytes();
                }
            }
            // The packet was made for so many bytes.
            let _ = packet.set_len(frame.len());
            self.next += self.step;
        }
        Ok(count)
    }

    fn is_finished(&self) -> bool {
        self.is_over
    }
}

impl Source {
    /// How many packets have come, of so many at most.
    fn due(&mut self, max: usize) -> usize {
        let coming = (self.next..self.total).step_by(self.step).take(max);
        match &self.state.arrivals {
            Arrivals::AtOnce { .. } => coming.len(),
            Arrivals::At(schedule) => {
                let now = cycles::now();
                let begun = *self.begun.get_or_insert(now);
                let is_due = |at: &usize| schedule.get(*at).is_some_and(|due| begun + due <= now);
                coming.take_while(is_due).count()
            }
        }
    }

    /// Stops the router as soon as everything has come out, or nothing more comes out.
    fn finish(&mut self) {
        let transmitted = self.state.transmitted.load(Relaxed);
        let now = Instant::now();
        let (seen, since) = *self.last_seen.get_or_insert((transmitted, now));
        if seen != transmitted {
            self.last_seen = Some((transmitted, now));
        }
        let all_came = transmitted >= self.state.arrivals.total() as u64;
        self.is_over = all_came || seen == transmitted && since.elapsed() >= PATIENCE;
        if self.is_over
            && let Some(router) = self.state.router.get().and_then(Weak::upgrade)
        {
            router.enter(Phase::Halted);
        }
    }
}

/// Where packets leave.
struct Exit {
    state: Arc<State>,
    device: String,
    /// When each packet was due and when it was out.
    passages: Vec<(u64, u64)>,
    sent: Sent,
}

impl TxQueue for Exit {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let count = batch.len();
        if matches!(self.state.arrivals, Arrivals::At(_)) {
            let out = cycles::now();
            self.passages.extend(batch.iter().filter_map(|packet| {
                let due = packet.data().last_chunk().map(|bytes| u64::from_ne_bytes(*bytes))?;
                Some((due, out))
            }));
        }
        if self.state.watched {
            for packet in batch.iter() {
                let mut hasher = DefaultHasher::new();
                packet.data().split_last_chunk::<8>().map(|(bytes, _)| bytes).hash(&mut hasher);
                self.sent.packets += 1;
                self.sent.digest = self.sent.digest.wrapping_add(hasher.finish());
            }
        }
        batch.clear();
        self.state.count(count);
        Ok(count)
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        let mut seen = self.state.seen();
        let order = self.passages.windows(2);
        seen.reordered += order.filter(|two| matches!(two, [a, b] if a.0 > b.0)).count() as u64;
        for (due, out) in self.passages.drain(..) {
            seen.first_due = seen.first_due.min(due);
            seen.last_out = seen.last_out.max(out);
            seen.latencies.push(out.saturating_sub(due));
        }
        if self.sent.packets > 0 {
            let sent = seen.sent.entry(self.device.clone()).or_default();
            sent.packets += self.sent.packets;
            sent.digest = sent.digest.wrapping_add(self.sent.digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    fn frames(count: u8) -> Frames {
        (0..count).map(|n| Box::from(vec![n; 60 + usize::from(n)])).collect()
    }

    fn pass(text: &str, arrivals: Arrivals) -> anyhow::Result<Passage> {
        let graph = Graph::new("x", text);
        let cores = [machine::last_core().unwrap()];
        Run { graph: &graph, burst: 32, cores: &cores, frames: &frames(5), arrivals }.run()
    }

    const FORWARD: &str = "FromDevice(eth0, BURST $burst) -> ToDevice(eth1);";

    #[test]
    fn the_watch_starts_behind_the_warm_up() {
        let arrivals = Arrivals::AtOnce { warm_up: 320, packets: 640 };
        let passage = pass(FORWARD, arrivals).unwrap();
        assert_eq!((passage.packets, passage.reordered), (640, 0));
        assert!(passage.took > 0 && passage.latencies.is_empty());
    }

    #[test]
    fn frames_are_whole_and_come_over_and_over() {
        let graph = Graph::new("x", FORWARD);
        let cores = machine::cores().unwrap();
        let sent = |frames: &Frames, cores: &[usize], packets| {
            let arrivals = Arrivals::AtOnce { warm_up: 0, packets };
            let run = Run { graph: &graph, burst: 32, cores, frames, arrivals };
            run.sent().unwrap().remove("eth1").unwrap()
        };
        let (once, twice) = (sent(&frames(5), &cores[..1], 5), sent(&frames(5), &cores[..1], 10));
        assert_eq!((once.packets, twice.packets), (5, 10));
        assert_eq!(once.digest.wrapping_mul(2), twice.digest);
        // Several threads share the same packets.
        let two = &cores[..cores.len().min(2)];
        assert_eq!(sent(&frames(5), two, 1000), sent(&frames(5), &cores[..1], 1000));
    }

    #[test]
    fn packets_that_are_swapped_are_seen() {
        let schedule: Schedule = (0..1000).collect();
        let straight = pass(FORWARD, Arrivals::At(schedule.clone())).unwrap();
        assert_eq!((straight.reordered, straight.latencies.len()), (0, 1000));
        // Every other one waits for those behind it.
        let swapped = "FromDevice(eth0, BURST $burst) -> turn :: RoundRobinSwitch;
                       out :: ToDevice(eth1); turn[0] -> out; turn[1] -> Queue -> Unqueue -> out;";
        assert!(pass(swapped, Arrivals::At(schedule)).unwrap().reordered > 0);
    }

    #[test]
    fn packets_that_are_lost_are_an_error() {
        let text = "FromDevice(eth0, BURST $burst) -> zero :: Classifier(0/00, -);
                    zero[0] -> Discard; zero[1] -> ToDevice(eth1);";
        let error = pass(text, Arrivals::at_once(100)).err().unwrap().to_string();
        assert!(error.contains("of 100 packets 80 came out"), "{error}");
    }
}

//! Queues that a thread keeps: however tasks move, whoever asks and whoever shares, one at a time is inside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use millrace_core::run::Options;
use millrace_core::services::Services;
use millrace_core::{Batch, Packet, Phase, Router};
use millrace_io::{
    Backend, DeviceError, DeviceFacts, Devices, Method, Opened, QueueCounts, RxOptions, RxQueue,
    TxOptions, TxQueue,
};

/// What all queues of a device saw.
#[derive(Default)]
struct Seen {
    received: AtomicU64,
    sent: AtomicU64,
    /// How often somebody came into a queue while somebody else was inside, or saw what such a one had left.
    trespasses: AtomicU64,
}

/// A device of one receive queue and one transmit queue, in which there is always something to receive and room.
#[derive(Clone, Default)]
struct Single(Arc<Seen>);

/// One of its queues. `calls` is no atomic: two threads that are inside at once lose some, and miss each other
/// less than by the flag alone.
struct Queue {
    seen: Arc<Seen>,
    inside: AtomicBool,
    calls: Cell<u64>,
    counted: AtomicU64,
}

impl Queue {
    fn new(seen: &Arc<Seen>) -> Self {
        let (inside, counted) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { seen: seen.clone(), inside, calls: Cell::new(0), counted }
    }

    fn enter<R>(&self, act: impl FnOnce() -> R) -> R {
        let alone = !self.inside.swap(true, SeqCst);
        self.calls.set(self.calls.get() + 1);
        let counted = self.counted.fetch_add(1, SeqCst) + 1;
        let result = act();
        if !alone || self.calls.get() != counted {
            self.seen.trespasses.fetch_add(1, SeqCst);
        }
        self.inside.store(false, SeqCst);
        result
    }

    fn counts(&self) -> QueueCounts {
        self.enter(|| QueueCounts { lost: self.calls.get(), ..QueueCounts::default() })
    }
}

impl RxQueue for Queue {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        self.enter(|| {
            let before = batch.len();
            while batch.len() < max {
                let Some(packet) = Packet::from_bytes(&[0; 60]) else { break };
                if batch.push(packet).is_err() {
                    break;
                }
            }
            self.seen.received.fetch_add((batch.len() - before) as u64, SeqCst);
            Ok(batch.len() - before)
        })
    }

    fn counts(&self) -> QueueCounts {
        Queue::counts(self)
    }
}

impl TxQueue for Queue {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        self.enter(|| {
            let taken = batch.len();
            self.seen.sent.fetch_add(taken as u64, SeqCst);
            batch.clear();
            Ok(taken)
        })
    }

    fn counts(&self) -> QueueCounts {
        Queue::counts(self)
    }
}

impl Backend for Single {
    fn open_rx(&self, _: &str, _: &RxOptions) -> Result<Opened<dyn RxQueue>, DeviceError> {
        Ok(Opened::new("test", vec![Box::new(Queue::new(&self.0))]))
    }

    fn open_tx(&self, _: &str, _: &TxOptions) -> Result<Opened<dyn TxQueue>, DeviceError> {
        Ok(Opened::new("test", vec![Box::new(Queue::new(&self.0))]))
    }

    fn facts(&self, _: &str, _: &Method) -> DeviceFacts {
        DeviceFacts { rx_queues: Some(1), tx_queues: Some(1), ..DeviceFacts::default() }
    }
}

/// For what takes some milliseconds.
const LONGEST: Duration = Duration::from_secs(120);

/// Runs a configuration while `meanwhile` does something to it, over and over, until it says that it is done.
/// Gives what the device saw.
fn run(
    config: &str,
    threads: usize,
    mut meanwhile: impl FnMut(&Router) -> bool + Send,
) -> Arc<Seen> {
    let device = Single::default();
    let mut services = Services::default();
    services.insert(Devices(Box::new(device.clone())));
    let options = Options { threads, services, ..Options::default() };
    let engine = router::engine(config, options).unwrap_or_else(|messages| panic!("{messages:#?}"));
    let router = engine.router().clone();
    let done = std::thread::scope(|scope| {
        let meanwhile = scope.spawn(|| {
            let start = Instant::now();
            let mut done = false;
            while !done && start.elapsed() < LONGEST {
                done = meanwhile(&router);
                std::thread::yield_now();
            }
            router.enter(Phase::Halted);
            done
        });
        engine.run();
        meanwhile.join().unwrap()
    });
    assert!(done, "it did not come to an end");
    for (id, element) in router.elements().enumerate() {
        let stats = router.stats_of(id);
        assert!(stats.balanced(), "{}: {stats:?}", element.name);
    }
    assert_eq!(device.0.trespasses.load(SeqCst), 0);
    device.0
}

fn number(router: &Router, handler: &str) -> u64 {
    String::from_utf8(router.read(handler, b"").unwrap()).unwrap().trim().parse().unwrap()
}

/// Whether another hundred packets came since the last time that this said so.
fn flows(router: &Router, before: &mut u64) -> bool {
    let now = number(router, "from.count");
    let flows = now >= *before + 100;
    if flows {
        *before = now;
    }
    flows
}

#[test]
fn handlers_ask_while_the_thread_is_busy() {
    let config = "from :: FromDevice(eth0, BURST 4) -> out :: ToDevice(eth1);";
    let (mut asked, mut packets, mut last) = (0, 0, (0, 0));
    let seen = run(config, 1, |router| {
        // The queues' own counts of how often they were used: no call is lost, and none seen half done.
        let counts = (number(router, "from.kernel_drops"), number(router, "out.lost"));
        assert!(counts.0 > last.0 && counts.1 > last.1, "{last:?}, then {counts:?}");
        assert_eq!(router.read("out.q", b"").unwrap(), b"false");
        last = counts;
        // The thread is not kept from its work by that.
        asked += u32::from(flows(router, &mut packets));
        asked >= 100
    });
    assert_eq!(seen.received.load(SeqCst), seen.sent.load(SeqCst));
}

#[test]
fn a_task_moves_to_and_fro_and_its_queue_with_it() {
    let config = "from :: FromDevice(eth0, BURST 4) -> Queue(64) -> out :: ToDevice(eth1, BURST 4);
        BalancedThreadSched(1000000);";
    let (mut moves, mut packets) = (0, 0);
    run(config, 2, |router| {
        if !flows(router, &mut packets) {
            return false;
        }
        let to = if moves % 2 == 0 { "1" } else { "0" };
        router.write("out.home_thread", to.as_bytes()).unwrap();
        let _ = (number(router, "out.lost"), number(router, "from.kernel_drops"));
        moves += 1;
        moves >= 24
    });
}

#[test]
fn threads_share_a_queue_in_turns() {
    let config = "from :: FromDevice(eth0, MAXTHREADS 2, BURST 4) -> out :: ToDevice(eth1);";
    let (mut asked, mut packets) = (0, 0);
    let seen = run(config, 2, |router| {
        asked += u32::from(flows(router, &mut packets));
        let _ = (number(router, "out.lost"), number(router, "from.kernel_drops"));
        asked >= 100
    });
    assert_eq!(seen.received.load(SeqCst), seen.sent.load(SeqCst));
}

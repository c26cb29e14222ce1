//! Devices with several queues on several threads: who receives what, and who transmits by what.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use millrace_core::run::Options;
use millrace_core::services::Services;
use millrace_core::{Batch, Packet, Phase};
use millrace_io::{
    Backend, DeviceError, DeviceFacts, Devices, Method, Opened, QueueCounts, RxOptions, RxQueue,
    TxOptions, TxQueue,
};

/// Devices with so many queues each; each receive queue has so many packets.
#[derive(Clone, Default)]
struct Card {
    rx_queues: usize,
    tx_queues: usize,
    /// Whether the number of queues is known before the device is opened.
    known: bool,
    seen: Arc<Mutex<Seen>>,
}

const PACKETS: u32 = 1000;

#[derive(Default)]
struct Seen {
    /// Which thread used which receive queue and which transmit queue.
    received: HashSet<(usize, ThreadId)>,
    transmitted: HashSet<(usize, ThreadId)>,
    /// What was transmitted: receive queue and number.
    frames: Vec<(u32, u32)>,
}

impl Backend for Card {
    fn open_rx(&self, _: &str, options: &RxOptions) -> Result<Opened<dyn RxQueue>, DeviceError> {
        let first = options.queues.first;
        let end = (first + options.queues.count).min(self.rx_queues);
        let queue = |number| -> Box<dyn RxQueue> {
            Box::new(Queue { number, next: 0, seen: self.seen.clone() })
        };
        Ok(Opened::new("test", (first..end).map(queue).collect()))
    }

    fn open_tx(&self, _: &str, options: &TxOptions) -> Result<Opened<dyn TxQueue>, DeviceError> {
        let count = options.queues.count.min(self.tx_queues);
        let queue = |number| -> Box<dyn TxQueue> {
            Box::new(Queue { number, next: 0, seen: self.seen.clone() })
        };
        Ok(Opened::new("test", (0..count).map(queue).collect()))
    }

    fn facts(&self, _: &str, _: &Method) -> DeviceFacts {
        let rx_queues = self.known.then_some(self.rx_queues);
        DeviceFacts { rx_queues, ..DeviceFacts::default() }
    }
}

struct Queue {
    number: usize,
    next: u32,
    seen: Arc<Mutex<Seen>>,
}

impl RxQueue for Queue {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let mut n = 0;
        while n < max && self.next < PACKETS && batch.room() > 0 {
            let frame = [(self.number as u32).to_be_bytes(), self.next.to_be_bytes()].concat();
            let Some(packet) = Packet::from_bytes(&frame) else { break };
            batch.push(packet).unwrap();
            self.next += 1;
            n += 1;
        }
        let me = std::thread::current().id();
        self.seen.lock().unwrap().received.insert((self.number, me));
        Ok(n)
    }

    fn is_finished(&self) -> bool {
        self.next == PACKETS
    }

    fn counts(&self) -> QueueCounts {
        QueueCounts { lost: 1, segmented: 0 }
    }
}

impl TxQueue for Queue {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut seen = self.seen.lock().unwrap();
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        let frames = batch.iter().map(|p| (number(&p.data()[..4]), number(&p.data()[4..8])));
        seen.frames.extend(frames);
        seen.transmitted.insert((self.number, std::thread::current().id()));
        let n = batch.len();
        batch.clear();
        Ok(n)
    }
}

/// Runs a configuration until `expected` packets are out; gives what the card has seen and what
/// `handlers` say in the end.
fn run(
    card: Card,
    threads: usize,
    config: &str,
    expected: usize,
    handlers: &[&str],
) -> (Seen, Vec<String>) {
    let mut services = Services::default();
    services.insert(Devices(Box::new(card.clone())));
    let options = Options { threads, services, ..Options::default() };
    let engine = router::engine(config, options).unwrap();
    let router = engine.router().clone();
    let said = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let start = Instant::now();
            while card.seen.lock().unwrap().frames.len() < expected
                && router.is_running()
                && start.elapsed() < Duration::from_secs(120)
            {
                std::thread::yield_now();
            }
            let said = handlers.iter().map(|handler| router.read(handler, b"").unwrap());
            let said = said.map(|text| String::from_utf8(text).unwrap()).collect();
            router.enter(Phase::Halted);
            said
        });
        engine.run();
        watch.join().unwrap()
    });
    for (id, element) in router.elements().enumerate() {
        assert!(router.stats_of(id).balanced(), "{}", element.name);
    }
    (std::mem::take(&mut card.seen.lock().unwrap()), said)
}

/// Each queue's packets came out in order, all of them.
fn assert_in_order(seen: &Seen, queues: u32) {
    for queue in 0..queues {
        let numbers = seen.frames.iter().filter(|frame| frame.0 == queue).map(|frame| frame.1);
        assert!(numbers.eq(0..PACKETS), "queue {queue}");
    }
    assert_eq!(seen.frames.len(), (queues * PACKETS) as usize);
}

const FORWARD: &str = "from :: FromDevice(eth0, BURST 8) -> to :: ToDevice(eth1);";

#[test]
fn each_thread_has_queues_of_its_own() {
    let card = Card { rx_queues: 8, tx_queues: 8, known: true, ..Card::default() };
    let handlers = ["from.queues", "to.queues", "from.count", "from.kernel_drops"];
    let (seen, said) = run(card, 3, FORWARD, 3000, &handlers);
    assert_eq!(said, ["3", "3", "3000", "3"]);
    assert_in_order(&seen, 3);
    for of in [&seen.received, &seen.transmitted] {
        let threads: HashSet<ThreadId> = of.iter().map(|of| of.1).collect();
        assert_eq!((of.len(), threads.len()), (3, 3), "{of:?}");
    }
}

#[test]
fn a_thread_looks_across_several_queues() {
    let card = Card { rx_queues: 5, tx_queues: 1, known: true, ..Card::default() };
    let config = "FromDevice(eth0, N_QUEUES 5) -> to :: ToDevice(eth1);";
    let (seen, said) = run(card, 2, config, 5000, &["to.queues"]);
    assert_eq!(said, ["1"], "the transmit queue is shared");
    assert_in_order(&seen, 5);
    assert_eq!(seen.received.len(), 5, "each queue belongs to one thread");
}

#[test]
fn more_threads_than_queues_share_only_when_asked() {
    for (known, threads) in [(true, "0"), (false, "0 1 2 3")] {
        let card = Card { rx_queues: 1, tx_queues: 4, known, ..Card::default() };
        let (seen, said) = run(card, 4, FORWARD, 1000, &["from.queues", "from.home_thread"]);
        assert_eq!(said, ["1", threads]);
        assert_in_order(&seen, 1);
        assert_eq!(seen.received.len(), 1, "one thread has the queue");
    }
    let card = Card { rx_queues: 1, tx_queues: 4, known: true, ..Card::default() };
    let config = "from :: FromDevice(eth0, MAXTHREADS 2, BURST 1) -> ToDevice(eth1);";
    let (seen, said) = run(card, 4, config, 1000, &["from.home_thread"]);
    assert_eq!(said, ["0 1"]);
    assert!(seen.received.len() <= 2);
    assert_eq!(seen.frames.iter().collect::<HashSet<_>>().len(), 1000, "each packet once");
}

#[test]
fn what_is_said_of_queues_is_done() {
    let card = Card { rx_queues: 8, tx_queues: 8, known: true, ..Card::default() };
    let config = "from :: FromDevice(eth0, QUEUE 4, N_QUEUES 2, THREADOFFSET 1, MAXTHREADS 1)
                    -> ToDevice(eth1);";
    let (seen, said) = run(card, 3, config, 2000, &["from.home_thread", "from.queues"]);
    assert_eq!(said, ["1", "2"]);
    let queues: HashSet<usize> = seen.received.iter().map(|of| of.0).collect();
    assert_eq!(queues, HashSet::from([4, 5]));
}

//! Transmitting to devices that have no room, or refuse: nothing is lost, counted twice or waited for too long.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_core::clock::Clock;
use millrace_core::run::Options;
use millrace_core::services::Services;
use millrace_core::{Batch, Engine, Packet, Phase, Reason, Timestamp};
use millrace_io::{
    Backend, DeviceError, DeviceFacts, Devices, Method, Opened, RxOptions, RxQueue, TxOptions,
    TxQueue,
};

/// A device that receives numbered packets, and transmits while it is open: as many at a time as it has `room` for, if that is
/// anything, and none the next time. It refuses multiples of `refused`.
#[derive(Clone, Default)]
struct Gate {
    open: Arc<AtomicBool>,
    room: usize,
    refused: u32,
    asked: Arc<AtomicUsize>,
    queues: Arc<AtomicUsize>,
    sent: Arc<Mutex<Vec<u32>>>,
}

const PACKETS: u32 = 1000;

impl Gate {
    fn options(&self, threads: usize, clock: Clock) -> Options {
        let mut services = Services::default();
        services.insert(Devices(Box::new(self.clone())));
        Options { threads, services, clock, ..Options::default() }
    }
}

impl Backend for Gate {
    fn open_rx(&self, _: &str, _: &RxOptions) -> Result<Opened<dyn RxQueue>, DeviceError> {
        Ok(Opened::new("test", vec![Box::new(Source(0))]))
    }

    fn open_tx(&self, _: &str, options: &TxOptions) -> Result<Opened<dyn TxQueue>, DeviceError> {
        self.queues.store(options.queues.count, SeqCst);
        let queue = |_| -> Box<dyn TxQueue> { Box::new(self.clone()) };
        Ok(Opened::new("test", (0..options.queues.count).map(queue).collect()))
    }

    fn facts(&self, _: &str, _: &Method) -> DeviceFacts {
        DeviceFacts { rx_queues: Some(1), ..DeviceFacts::default() }
    }
}

/// Packets that hold their number.
struct Source(u32);

impl RxQueue for Source {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let n = max.min(batch.room()).min((PACKETS - self.0) as usize);
        for _ in 0..n {
            batch.push(Packet::from_bytes(&self.0.to_be_bytes()).unwrap()).unwrap();
            self.0 += 1;
        }
        Ok(n)
    }

    fn is_finished(&self) -> bool {
        self.0 == PACKETS
    }
}

fn number(packet: &Packet) -> u32 {
    u32::from_be_bytes(packet.data().try_into().unwrap())
}

impl TxQueue for Gate {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let asked = self.asked.fetch_add(1, SeqCst);
        let limited = self.room > 0;
        if !self.open.load(SeqCst) || (limited && asked % 2 == 1) {
            return Ok(0);
        }
        let refuses =
            |packet: &&Packet| self.refused > 0 && number(packet).is_multiple_of(self.refused);
        let n = batch.iter().position(|packet| refuses(&packet)).unwrap_or(batch.len());
        let n = if limited { n.min(self.room) } else { n };
        if n == 0 && !batch.is_empty() {
            return Err(io::Error::other("no multiples"));
        }
        let taken: Vec<Packet> = batch.drain_front(n).collect();
        self.sent.lock().unwrap().extend(taken.iter().map(number));
        Ok(n)
    }
}

/// Lets a millisecond of virtual time pass.
fn pass(engine: &mut Engine) {
    let end = engine.router().clock().now() + Timestamp::from_millis(1);
    engine.run_until(end);
}

#[test]
fn what_is_refused_is_counted_once() {
    let gate = Gate { refused: 7, ..Gate::default() };
    gate.open.store(true, SeqCst);
    let config = "FromDevice(eth0, BURST 100) -> out :: ToDevice(eth1) -> c :: Counter -> Discard;";
    let mut engine = router::engine(config, gate.options(1, Clock::virtual_())).unwrap();
    pass(&mut engine);
    let router = engine.router();
    let stats = router.stats_of(router.find("out").unwrap());
    let refused = u64::from(PACKETS.div_ceil(7));
    assert_eq!(stats.drops, [(Reason::DeviceError, refused)]);
    assert!(stats.balanced(), "{stats:?}");
    assert_eq!(router.read("c.count", b"").unwrap(), (1000 - refused).to_string().into_bytes());
    assert_eq!(gate.sent.lock().unwrap().len() as u64, 1000 - refused);
}

#[test]
fn what_waits_for_room_goes_first_on_whichever_thread_the_task_is() {
    let gate = Gate::default();
    let config = "FromDevice(eth0, BURST 256) -> Queue(2000) -> out :: ToDevice(eth1, BURST 32);
        BalancedThreadSched(1000000);";
    let mut engine = router::engine(config, gate.options(3, Clock::virtual_())).unwrap();
    assert_eq!(gate.queues.load(SeqCst), 1, "one task transmits, whichever thread runs it");
    pass(&mut engine);
    let out = engine.router().find("out").unwrap();
    assert_eq!(engine.router().stats_of(out).held, 32);
    engine.router().write("out.home_thread", b"2").unwrap();
    pass(&mut engine);
    assert_eq!(engine.router().read("out.home_thread", b"").unwrap(), b"2");
    gate.open.store(true, SeqCst);
    pass(&mut engine);
    assert!(gate.sent.lock().unwrap().iter().copied().eq(0..PACKETS), "{:?}", gate.sent);
}

#[test]
fn a_thread_that_waits_for_room_keeps_nobody_waiting() {
    let gate = Gate::default();
    let config = "FromDevice(eth0) -> out :: ToDevice(eth1, BLOCKING true);";
    let engine = router::engine(config, gate.options(1, Clock::real())).unwrap();
    let router = engine.router().clone();
    let in_time = std::thread::scope(|scope| {
        let stop = scope.spawn(|| {
            while gate.asked.load(SeqCst) < 3 {
                std::thread::yield_now();
            }
            // Answered while the device is full; and the first request to stop is heard.
            let lost = router.read("out.lost", b"").unwrap();
            let held = router.stats_of(router.find("out").unwrap()).held;
            router.enter(Phase::Ending);
            let start = Instant::now();
            while router.is_running() && start.elapsed() < Duration::from_secs(120) {
                std::thread::yield_now();
            }
            let in_time = !router.is_running();
            router.enter(Phase::Halted);
            assert_eq!((lost, held), (b"0".to_vec(), 0));
            in_time
        });
        engine.run();
        stop.join().unwrap()
    });
    assert!(in_time, "the thread that waited has not heard that it is to stop");
    let stats = router.stats_of(router.find("out").unwrap());
    assert!(stats.balanced() && stats.drops.iter().all(|drop| drop.0 == Reason::Stopped));
}

#[test]
fn on_virtual_time_nobody_waits_for_room_that_never_comes() {
    // A wire in memory that nobody reads, and a device of the machine that is closed.
    let wire = |config: &str| router::Bench::new(config).engine;
    let gate = |config: &str| {
        router::engine(config, Gate::default().options(1, Clock::virtual_())).unwrap()
    };
    type Make<'a> = &'a dyn Fn(&str) -> Engine;
    let cases: [(Make, u64); 2] = [(&wire, 4096), (&gate, 0)];
    for (make, fits) in cases {
        let config = "InfiniteSource(LIMIT 20000) -> out :: ToDevice(eth1, BLOCKING true);";
        let mut engine = make(config);
        let router = engine.router().clone();
        // It returns.
        engine.run_until(router.clock().now() + Timestamp::from_secs(1));
        let stats = router.stats_of(router.find("out").unwrap());
        assert_eq!(stats.drops, [(Reason::TransmitFull, 20_000 - fits)]);
        assert!(stats.balanced() && router.is_running(), "{stats:?}");
    }
}

#[test]
fn what_elements_finish_at_the_end_waits_for_room() {
    for clock in [Clock::virtual_(), Clock::real()] {
        let gate = Gate { room: 20, ..Gate::default() };
        gate.open.store(true, SeqCst);
        let config = "GPURuntime(DEVICE simulator);
            InfiniteSource(DATA \\<00000001>, LIMIT 900, STOP true)
                -> Batcher(500, TIMEOUT 1h) -> HostToDeviceMemcpy -> GPUIP6Lookup(::/0 0) -> DeviceToHostMemcpy
                -> GPUCompletionQueue -> Debatcher -> out :: ToDevice(eth1);";
        let engine = router::engine(config, gate.options(1, clock)).unwrap();
        let router = engine.router().clone();
        assert_eq!(engine.run().complaints, Vec::<String>::new());
        let stats = router.stats_of(router.find("out").unwrap());
        assert_eq!((stats.received, stats.dropped()), (900, 0), "{stats:?}");
        assert_eq!(gate.sent.lock().unwrap().len(), 900);
    }
}

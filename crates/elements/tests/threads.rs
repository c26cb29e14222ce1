//! Threads: who reaches what, who runs where, and that no flow ever gets out of order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millrace_core::clock::Clock;
use millrace_core::memory::copies;
use millrace_core::run::Options;
use millrace_core::services::Services;
use millrace_core::topology::Topology;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Packet, Phase, Reason, Router, Setup, register,
};
use millrace_io::{
    Backend, DeviceError, DeviceFacts, Devices, Method, Opened, RxOptions, RxQueue, TxOptions,
    TxQueue,
};

use router::engine;

/// Devices that receive `FLOWS` flows of `LENGTH` packets each, a flow by one queue, and keep what is
/// transmitted.
#[derive(Clone)]
struct Mill {
    rx_queues: usize,
    tx_queues: usize,
    sent: Arc<Mutex<Vec<(u16, u32)>>>,
}

/// Longer than any of these tests takes, on however busy a machine.
const LONGEST: Duration = Duration::from_secs(120);
const FLOWS: u16 = 64;
const LENGTH: u32 = 250;

impl Mill {
    fn new(rx_queues: usize, tx_queues: usize) -> Self {
        Self { rx_queues, tx_queues, sent: Arc::default() }
    }

    fn options(&self, threads: usize) -> Options {
        let mut services = Services::default();
        services.insert(Devices(Box::new(self.clone())));
        Options { threads, services, ..Options::default() }
    }
}

impl Backend for Mill {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        let base = if device == "b" { FLOWS } else { 0 };
        let first = options.queues.first;
        let all = self.rx_queues;
        let queue = |number: usize| -> Box<dyn RxQueue> {
            let own = (0..FLOWS).filter(|flow| usize::from(*flow) % all == number);
            let flows = own.map(|flow| base + flow).collect();
            Box::new(Source { flows, next: 0 })
        };
        Ok(Opened::new(
            "test",
            (first..(first + options.queues.count).min(all)).map(queue).collect(),
        ))
    }

    fn open_tx(&self, _: &str, options: &TxOptions) -> Result<Opened<dyn TxQueue>, DeviceError> {
        let queue = |_| -> Box<dyn TxQueue> { Box::new(Sink(self.sent.clone())) };
        Ok(Opened::new("test", (0..options.queues.count.min(self.tx_queues)).map(queue).collect()))
    }

    fn facts(&self, _: &str, _: &Method) -> DeviceFacts {
        let (rx_queues, tx_queues) = (Some(self.rx_queues), Some(self.tx_queues));
        DeviceFacts { rx_queues, tx_queues, ..DeviceFacts::default() }
    }
}

/// One packet of each flow in turn.
struct Source {
    flows: Vec<u16>,
    next: usize,
}

impl RxQueue for Source {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let mut n = 0;
        while n < max && batch.room() > 0 && !self.is_finished() {
            let flow = self.flows[self.next % self.flows.len()];
            let number = (self.next / self.flows.len()) as u32;
            batch.push(Packet::from_bytes(&frame(flow, number)).unwrap()).unwrap();
            self.next += 1;
            n += 1;
        }
        Ok(n)
    }

    fn is_finished(&self) -> bool {
        self.next >= self.flows.len() * LENGTH as usize
    }
}

/// A UDP packet of a flow, numbered.
fn frame(flow: u16, number: u32) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(flow, 9);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &number.to_be_bytes()).unwrap();
    bytes
}

struct Sink(Arc<Mutex<Vec<(u16, u32)>>>);

impl TxQueue for Sink {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let read = |packet: &Packet| {
            let data = packet.data();
            let flow = u16::from_be_bytes(data[34..36].try_into().unwrap());
            (flow, u32::from_be_bytes(data[42..46].try_into().unwrap()))
        };
        self.0.lock().unwrap().extend(batch.iter().map(read));
        let n = batch.len();
        batch.clear();
        Ok(n)
    }
}

/// Runs a configuration on real threads until `done` says so.
fn run(config: &str, options: Options, done: impl Fn(&Router) -> bool + Sync) -> Arc<Router> {
    let engine = engine(config, options).unwrap_or_else(|messages| panic!("{messages:#?}"));
    let router = engine.router().clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while !done(&router) && router.is_running() && start.elapsed() < LONGEST {
                std::thread::yield_now();
            }
            router.enter(Phase::Halted);
        });
        engine.run();
    });
    for (id, element) in router.elements().enumerate() {
        let stats = router.stats_of(id);
        assert!(stats.balanced(), "{}: {stats:?}", element.name);
    }
    router
}

fn threads_of(router: &Router, element: &str) -> Vec<usize> {
    router.plan().threads_of(router.find(element).unwrap()).collect()
}

/// A graph as in figure 13 of FastClick's paper: several inputs on threads of their own, ways that join,
/// queues at which vectors end, outputs that some threads reach.
const VECTORS: &str = "
    in0 :: FromDevice(a, MAXTHREADS 2) -> c0 :: Counter -> split :: Classifier(12/0800, -);
    in1 :: FromDevice(b, MAXTHREADS 2, THREADOFFSET 2) -> c1 :: Counter -> route :: RSSSwitch;
    split[0] -> join :: Counter -> out0 :: ToDevice(a);
    split[1] -> q0 :: Queue -> shaper :: Unqueue -> c2 :: Counter -> out1 :: ToDevice(b);
    route[0] -> join;
    route[1] -> p :: Pipeliner -> c3 :: Counter -> cpus :: CPUSwitch;
    cpus[0] -> even :: Counter -> q1 :: Queue -> out2 :: ToDevice(c);
    cpus[1] -> odd :: Counter -> q1;
    StaticThreadSched(shaper 4, p 5, out2 6);
";

#[test]
fn thread_vectors_follow_the_packets() {
    let engine = engine(VECTORS, Mill::new(8, 8).options(8)).unwrap();
    let router = engine.router();
    for (element, threads) in [
        ("in0", vec![0, 1]),
        ("in1", vec![2, 3]),
        ("c0", vec![0, 1]),
        ("c1", vec![2, 3]),
        ("split", vec![0, 1]),
        ("route", vec![2, 3]),
        ("join", vec![0, 1, 2, 3]),
        ("out0", vec![0, 1, 2, 3]),
        ("q0", vec![0, 1, 4]),
        ("shaper", vec![4]),
        ("c2", vec![4]),
        ("out1", vec![4]),
        ("p", vec![2, 3, 5]),
        ("c3", vec![5]),
        ("cpus", vec![5]),
        ("even", vec![]),
        ("odd", vec![5]),
        ("q1", vec![5, 6]),
        ("out2", vec![6]),
    ] {
        assert_eq!(threads_of(router, element), threads, "{element}");
    }
    // Devices get a queue for each thread that reaches them, and what is shared is known.
    let transmits: Vec<_> = router
        .plan()
        .transmitters
        .iter()
        .map(|one| (one.device.as_str(), one.queues.len(), one.threads.clone(), one.is_locked()))
        .collect();
    assert_eq!(
        transmits,
        [("a", 4, vec![0, 1, 2, 3], false), ("b", 1, vec![4], false), ("c", 1, vec![6], false)]
    );
    // Threads that meet at a queue or a Pipeliner count atomically; thread 7 has nothing to do.
    let plain: Vec<usize> = (0..8).filter(|&n| router.plan().counts_plainly(n)).collect();
    assert_eq!(plain, [7]);
    let handler = router.read("thread_vectors", b"").unwrap();
    assert!(String::from_utf8(handler).unwrap().contains("q0\t0,1,4\n"));
}

#[test]
fn threads_that_there_are_not_are_told() {
    let config = "FromDevice(a, THREADOFFSET 9) -> SoftwareRSS(THREADOFFSET 5, MAXTHREADS 2) -> c :: Counter -> Discard;";
    let planned = engine(config, Mill::new(8, 8).options(4)).unwrap();
    let notes = &planned.router().plan().notes;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("it counts from thread 1"), "{notes:?}");
    assert_eq!(threads_of(planned.router(), "c"), [1, 2]);

    // Two words about one thing: one counts, and it is told which.
    let config = "f :: FromDevice(a, MAXTHREADS 3) -> Discard; StaticThreadSched(f 2);";
    let planned = engine(config, Mill::new(8, 8).options(4)).unwrap();
    let plan = planned.router().plan();
    assert_eq!(plan.receivers[0].threads, [2]);
    assert!(plan.notes[0].contains("MAXTHREADS and THREADOFFSET do not count"), "{:?}", plan.notes);
}

/// Counts its instances.
struct Probe;
static INSTANCES: AtomicUsize = AtomicUsize::new(0);
struct Instance;

impl Default for Instance {
    fn default() -> Self {
        INSTANCES.fetch_add(1, SeqCst);
        Self
    }
}

register!(Probe, "threads.rs");

impl Element for Probe {
    const CLASS: Class = Class::new("ThreadProbe", "1/1", "a/a");
    type Local = Instance;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }
}

#[test]
fn only_threads_that_reach_an_element_have_state_for_it() {
    let config = "FromDevice(a, MAXTHREADS 3, THREADOFFSET 1) -> ThreadProbe -> q :: Queue
            -> ThreadProbe -> u :: Unqueue -> Discard;
        Idle -> ThreadProbe -> Discard;
        StaticThreadSched(u 5);";
    let engine = engine(config, Mill::new(8, 8).options(8)).unwrap();
    assert_eq!(INSTANCES.load(SeqCst), 3 + 1);
    drop(engine);
}

/// Looks whether shared packets are counted plainly.
struct Witness;
static PLAIN: AtomicUsize = AtomicUsize::new(0);
static ATOMIC: AtomicUsize = AtomicUsize::new(0);

register!(Witness, "threads.rs");

impl Element for Witness {
    const CLASS: Class = Class::new("CountWitness", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn process(&self, _: &mut Context, (): &mut (), batch: &mut Batch) {
        let plain = batch.iter().filter(|packet| packet.is_counted_plainly()).count();
        let shared = batch.iter().filter(|packet| packet.is_shared()).count();
        PLAIN.fetch_add(plain, SeqCst);
        ATOMIC.fetch_add(shared - plain, SeqCst);
    }
}

#[test]
fn references_are_counted_plainly_where_packets_stay_on_a_thread() {
    let finished = |names: &'static [&str]| {
        move |router: &Router| names.iter().all(|name| router.read(name, b"").unwrap() == b"1000")
    };
    // Full push on one thread, and a queue that one thread serves on both sides.
    let alone = "InfiniteSource(LIMIT 1000, BURST 32) -> t :: Tee;
        t[0] -> CountWitness -> a :: Counter -> Discard;
        t[1] -> Queue(2000) -> Unqueue(BURST 32) -> b :: Counter -> Discard;";
    run(alone, Options { threads: 2, ..Options::default() }, finished(&["a.count", "b.count"]));
    let (plain, atomic) = (PLAIN.swap(0, SeqCst), ATOMIC.swap(0, SeqCst));
    assert_eq!((plain, atomic), (1000, 0));

    // The same with another thread at the queue.
    let together =
        format!("{} StaticThreadSched(u 1);", alone.replace("-> Unqueue", "-> u :: Unqueue"));
    run(&together, Options { threads: 2, ..Options::default() }, finished(&["a.count", "b.count"]));
    let (plain, atomic) = (PLAIN.swap(0, SeqCst), ATOMIC.swap(0, SeqCst));
    assert_eq!(plain, 0);
    assert!(atomic > 0);
}

/// Everything that carries packets from thread to thread, at once.
const MIXED: &str = "
    FromDevice(a, BURST 16, N_QUEUES 2) -> rss :: SoftwareRSS(CAPACITY 65536)
        -> p :: Pipeliner(64, BLOCKING true) -> q :: Queue(100000) -> u :: Unqueue(BURST 32)
        -> out0 :: ToDevice(c);
    FromDevice(b, BURST 8, MAXTHREADS 2) -> r :: RSSSwitch(HASH TOEPLITZ);
    r[0] -> p0 :: Pipeliner(100000) -> join :: Counter;
    r[1] -> p1 :: Pipeliner(100000) -> join;
    join -> CPUQueue(100000) -> u1 :: Unqueue(BURST 16) -> out1 :: ToDevice(d);
    StaticThreadSched(u 3, u1 2);
";

/// All packets of so many flows came, each flow's in order.
fn assert_in_order(sent: &[(u16, u32)], flows: usize) {
    let mut next: HashMap<u16, u32> = HashMap::new();
    for (flow, number) in sent {
        let expected = next.entry(*flow).or_default();
        assert_eq!(number, expected, "flow {flow}");
        *expected += 1;
    }
    assert_eq!(next.len(), flows);
    assert!(next.values().all(|&next| next == LENGTH));
}

#[test]
fn no_flow_gets_out_of_order() {
    let mill = Mill::new(2, 1);
    let all = 2 * usize::from(FLOWS) * LENGTH as usize;
    let copied = copies::snapshot();
    let sent = mill.sent.clone();
    let router = run(MIXED, mill.options(4), |_| sent.lock().unwrap().len() >= all);
    let sent = mill.sent.lock().unwrap();
    assert_eq!(sent.len(), all, "{:?}", router.read("rss.dropped", b""));
    assert_in_order(&sent, 2 * usize::from(FLOWS));
    // Nobody in this program copies packets, and waiting does not.
    assert_eq!(copies::snapshot().since(&copied).total(), 0);
    // The spread is over all threads.
    let spread = String::from_utf8(router.read("rss.spread", b"").unwrap()).unwrap();
    assert_eq!(spread.lines().count(), 4);
    assert!(spread.lines().all(|line| !line.ends_with("\t0")), "{spread}");
}

#[test]
fn several_threads_pull_what_others_push() {
    let mill = Mill::new(2, 2);
    let all = usize::from(FLOWS) * LENGTH as usize;
    let sent = mill.sent.clone();
    let config = "FromDevice(a, MAXTHREADS 2, THREADOFFSET 0) -> q :: CPUQueue(100000);
        q[0] -> u0 :: Unqueue(BURST 32) -> out :: ToDevice(c);
        q[1] -> u1 :: Unqueue(BURST 8) -> out;
        StaticThreadSched(u0 2, u1 3);";
    let router = run(config, mill.options(4), |_| sent.lock().unwrap().len() >= all);
    assert_eq!(threads_of(&router, "q"), [0, 1, 2, 3]);
    assert_eq!(threads_of(&router, "out"), [2, 3]);
    assert_in_order(&mill.sent.lock().unwrap(), usize::from(FLOWS));
}

#[test]
fn one_input_feeds_all_threads() {
    let mill = Mill::new(1, 4);
    let all = usize::from(FLOWS) * LENGTH as usize;
    let sent = mill.sent.clone();
    let config =
        "FromDevice(a) -> rss :: SoftwareRSS(CAPACITY 65536) -> c :: Counter -> ToDevice(c);";
    let router = run(config, mill.options(3), |_| sent.lock().unwrap().len() >= all);
    assert_eq!(threads_of(&router, "FromDevice@1"), [0]);
    assert_eq!(threads_of(&router, "c"), [0, 1, 2]);
    assert_eq!(mill.sent.lock().unwrap().len(), all);
}

#[test]
fn tasks_move_where_the_plan_lets_them() {
    let config = "
        InfiniteSource(BURST 32) -> q :: Queue(100000) -> u :: Unqueue(BURST 32)
            -> c :: Counter -> Discard;
        FromDevice(a, ACTIVE false) -> Discard;
    ";
    let fixed = engine(config, Mill::new(2, 2).options(2)).unwrap();
    let why = fixed.router().write("u.home_thread", b"1").unwrap_err().to_string();
    assert!(why.contains("not planned to reach ‘u’"), "{why}");
    assert!(fixed.router().write("u.home_thread", b"7").is_err());
    assert!(fixed.router().write("u.home_thread", b"0").is_ok());

    // With every task free to move, one moves to and fro while packets flow, and none is lost.
    let free = format!("{config} BalancedThreadSched(1000000);");
    let engine = engine(&free, Mill::new(2, 2).options(2)).unwrap();
    let router = engine.router().clone();
    assert_eq!(threads_of(&router, "c"), [0, 1]);
    let mut homes = [0usize; 2];
    std::thread::scope(|scope| {
        let moves = scope.spawn(|| {
            let start = Instant::now();
            let mut homes = [0; 2];
            for to in (0..2).cycle() {
                if !router.is_running() {
                    break;
                }
                router.write("u.home_thread", format!("{to}").as_bytes()).unwrap();
                std::thread::sleep(Duration::from_millis(1));
                let home: usize = String::from_utf8(router.read("u.home_thread", b"").unwrap())
                    .unwrap()
                    .parse()
                    .unwrap();
                homes[home] += 1;
                if homes.iter().all(|&seen| seen >= 10) || start.elapsed() > LONGEST {
                    router.enter(Phase::Halted);
                }
            }
            homes
        });
        engine.run();
        homes = moves.join().unwrap();
    });
    assert!(homes.iter().all(|&seen| seen > 0), "{homes:?}");
    let queue = router.stats_of(router.find("q").unwrap());
    assert!(queue.balanced(), "{queue:?}");
    let unqueue = router.stats_of(router.find("u").unwrap());
    assert_eq!(unqueue.received, unqueue.sent);
}

#[test]
fn a_task_that_moves_leaves_nothing_behind_that_it_could_overtake() {
    for carrier in ["Pipeliner(1000, ACTIVE false)", "CPUQueue(1000) -> Unqueue(ACTIVE false)"] {
        let mill = Mill::new(1, 1);
        let config = format!(
            "FromDevice(a) -> Queue(100000) -> u :: Unqueue(BURST 16, LIMIT 100)
                -> carrier :: {{ input -> {carrier} -> output }} -> ToDevice(c);
            BalancedThreadSched(1000000); StaticThreadSched(carrier 2);"
        );
        let options = Options { clock: Clock::virtual_(), ..mill.options(3) };
        let mut engine = engine(&config, options).unwrap();
        let router = engine.router().clone();
        let write = |handler: &str, text: &str| router.write(handler, text.as_bytes()).unwrap();
        let class = carrier.rsplit(" -> ").next().unwrap().split('(').next().unwrap();
        let active = router
            .elements()
            .find(|one| one.class.name == class && one.name.starts_with("carrier/"));
        let active = format!("{}.active", active.unwrap().name);
        engine.settle();
        write("u.home_thread", "1");
        write("u.limit", "300");
        engine.settle();
        write(&active, "true");
        engine.settle();
        engine.settle();
        assert_eq!(router.read("u.home_thread", b"").unwrap(), b"1", "{carrier}");
        let sent = mill.sent.lock().unwrap();
        assert_eq!(sent.len(), 300, "{carrier}");
        let in_order = (0..300).map(|n| (n % FLOWS, u32::from(n / FLOWS)));
        assert!(sent.iter().copied().eq(in_order), "{carrier}: {sent:?}");
    }
}

#[test]
fn load_is_balanced() {
    let config = "
        a :: InfiniteSource(BURST 32) -> Discard;
        b :: InfiniteSource(BURST 32) -> Discard;
        sched :: BalancedThreadSched(5);
    ";
    let homes = |router: &Router| {
        let home = |name: &str| router.read(&format!("{name}.home_thread"), b"").unwrap();
        (home("a"), home("b"))
    };
    let router = run(config, Options { threads: 2, ..Options::default() }, |router| {
        let (a, b) = homes(router);
        a != b
    });
    let (a, b) = homes(&router);
    assert_ne!(a, b, "each source has a thread of its own");
}

/// Many flows, distributed over threads by SoftwareRSS under a DeviceBalancer with these arguments.
fn balanced(arguments: &str) -> String {
    format!(
        "FastUDPFlows(RATE 0, LIMIT -1, LENGTH 64, SRCETH 2:0:0:0:0:1, DSTETH 2:0:0:0:0:2, SRCIP 10.0.0.1,
                      DSTIP 10.0.0.2, FLOWS 1000, FLOWSIZE 8)
             -> Unqueue(BURST 32) -> rss :: SoftwareRSS -> Counter -> Discard;
         balancer :: DeviceBalancer(rsspp, rss, TIMER 2, VERBOSE false, {arguments});"
    )
}

fn text(router: &Router, handler: &str) -> String {
    String::from_utf8(router.read(handler, b"").unwrap()).unwrap()
}

/// The number of buckets of each of two threads.
fn buckets(router: &Router) -> [usize; 2] {
    let table = text(router, "rss.table");
    ["0", "1"].map(|thread| table.split(' ').filter(|&one| one == thread).count())
}

#[test]
fn buckets_of_a_busy_thread_move_to_one_that_has_nothing_to_do() {
    let options = Options { threads: 2, ..Options::default() };
    let skewed = std::sync::Once::new();
    let router = run(&balanced("IMBALANCE_THRESHOLD 0.05"), options, |router| {
        skewed.call_once(|| router.write("rss.table", b"0").unwrap());
        buckets(router)[1] > 20
    });
    let [first, second] = buckets(&router);
    assert!(first > 0 && second > 20, "{first} and {second}");
    assert_ne!(text(&router, "balancer.moves"), "0");
    assert_eq!(text(&router, "balancer.threads"), "2");
}

#[test]
fn threads_that_are_not_to_be_used_lose_their_buckets() {
    let options = Options { threads: 2, ..Options::default() };
    let router = run(&balanced("STARTCPU 1"), options, |router| buckets(router) == [512, 0]);
    assert_eq!(buckets(&router), [512, 0]);
    assert_eq!(text(&router, "balancer.moves"), "256");
    assert!(router.write("rss.table", b"7").is_err());
    assert!(router.write("rss.table", b"0 1").is_err());
}

#[test]
fn a_device_without_a_table_is_told_what_helps() {
    let config = "f :: FromDevice(a) -> Discard; DeviceBalancer(rsspp, f);";
    let messages = engine(config, Mill::new(1, 1).options(1)).map(|_| ()).unwrap_err();
    let said = format!("{messages:?}");
    assert!(said.contains("put a SoftwareRSS behind it"), "{said}");
}

#[test]
fn pipeliners_that_wait_for_each_other_are_refused() {
    let config = "
        a :: InfiniteSource -> p :: Pipeliner(8, BLOCKING true) -> Discard;
        b :: InfiniteSource -> q :: Pipeliner(8, BLOCKING true) -> Discard;
        StaticThreadSched(a 0, p 1, b 1, q 0);
    ";
    let messages = engine(config, Options { threads: 2, ..Options::default() }).err().unwrap();
    assert!(
        messages.iter().any(|message| message.contains("in a circle of threads")),
        "{messages:?}"
    );
    let fine = config.replace("b 1, q 0", "b 0, q 1");
    assert!(engine(&fine, Options { threads: 2, ..Options::default() }).is_ok());
}

#[test]
fn a_pipeliner_that_threads_wait_for_stays_on_its_thread_and_lets_them_stop() {
    // Were it to come to the thread that waits for it, this one would wait for itself.
    let config =
        "InfiniteSource(BURST 32) -> p :: Pipeliner(8, BLOCKING true, ACTIVE false) -> Discard;
        BalancedThreadSched(1);";
    let engine = engine(config, Options { threads: 2, ..Options::default() }).unwrap();
    let router = engine.router().clone();
    let why = router.write("p.home_thread", b"0").unwrap_err().to_string();
    assert!(why.contains("threads wait for it"), "{why}");
    let in_time = std::thread::scope(|scope| {
        let stop = scope.spawn(|| {
            let start = Instant::now();
            let early = || start.elapsed() < Duration::from_secs(120);
            while router.read("p.length", b"").unwrap() != b"8" && early() {
                std::thread::yield_now();
            }
            router.enter(Phase::Ending);
            while router.is_running() && early() {
                std::thread::yield_now();
            }
            let in_time = !router.is_running();
            router.enter(Phase::Halted);
            in_time
        });
        engine.run();
        stop.join().unwrap()
    });
    assert!(in_time, "the thread that waits has not heard that it is to stop");
    let stats = router.stats_of(router.find("p").unwrap());
    assert!(stats.balanced() && stats.held == 8, "{stats:?}");
}

#[test]
fn a_stop_finishes_packets_on_their_way_to_other_threads() {
    let config = "a :: InfiniteSource(BURST 32) -> p :: Pipeliner(512) -> q :: Pipeliner(512)
        -> rss :: SoftwareRSS -> m :: MinBatch(1000) -> Discard;
        StaticThreadSched(a 0, p 2, q 1);";
    let engine = engine(config, Options { threads: 3, ..Options::default() }).unwrap();
    let router = engine.router().clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while router.read("q.count", b"").unwrap().len() < 6 && start.elapsed() < LONGEST {
                std::thread::yield_now();
            }
            router.enter(Phase::Draining);
        });
        assert_eq!(engine.run().complaints, Vec::<String>::new());
    });
    for (id, element) in router.elements().enumerate() {
        let stats = router.stats_of(id);
        assert!(stats.balanced() && stats.held == 0, "{}: {stats:?}", element.name);
        assert!(stats.drops.iter().all(|drop| drop.0 != Reason::Stopped), "{stats:?}");
    }
}

#[test]
fn a_pipeliner_that_is_always_up_is_called_from_its_nap() {
    let config = "RatedSource(RATE 100) -> Pipeliner(ALWAYS_UP true) -> Discard;";
    let called = |router: &Router| router.rest_of(1).calls.count >= 3;
    let router = run(config, Options { threads: 2, ..Options::default() }, called);
    assert!(called(&router), "{:?}", router.rest_of(1));
}

/// Two nodes with two cores each; devices a and b on one of them each.
fn two_nodes(place: &std::path::Path) -> Topology {
    nodes(place, ["0-1", "2-3"])
}

/// Two nodes with these cores; device b on the first one, a on the second one.
fn nodes(place: &std::path::Path, cores: [&str; 2]) -> Topology {
    for (file, text) in [
        ("devices/system/node/online", "0-1"),
        ("devices/system/node/node0/cpulist", cores[0]),
        ("devices/system/node/node1/cpulist", cores[1]),
        ("devices/system/cpu/online", "0-3"),
        ("class/net/a/device/numa_node", "1"),
        ("class/net/b/device/numa_node", "0"),
    ] {
        let path = place.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    Topology::read(place)
}

#[test]
fn threads_queues_and_memory_of_a_node_stay_together() {
    let place = tempfile::tempdir().unwrap();
    let topology = two_nodes(place.path());
    let config = "in_a :: FromDevice(a) -> out_b :: ToDevice(b);
        in_b :: FromDevice(b) -> p :: Pipeliner -> out_a :: ToDevice(a);";
    for pin in [false, true] {
        let options = Options { topology: topology.clone(), pin, ..Mill::new(4, 4).options(4) };
        let engine = engine(config, options).unwrap();
        let plan = engine.router().plan();
        let seats: Vec<_> = plan.seats.iter().map(|seat| (seat.node, seat.core)).collect();
        match pin {
            true => assert_eq!(seats, [(0, Some(0)), (0, Some(1)), (1, Some(2)), (1, Some(3))]),
            false => {
                assert!(
                    plan.seats.iter().all(|seat| seat.cores == [2 * seat.node, 2 * seat.node + 1])
                );
            }
        }
        assert_eq!(threads_of(engine.router(), "in_b"), [0, 1]);
        assert_eq!(threads_of(engine.router(), "in_a"), [2, 3]);
        for receiver in &plan.receivers {
            let near = |&thread: &usize| Some(plan.seats[thread].node) == receiver.node;
            assert!(receiver.threads.iter().all(near), "{receiver:?}");
        }
    }
}

#[test]
fn threads_take_their_seats_on_two_nodes() {
    // The cores of this machine, told to be on two nodes.
    let place = tempfile::tempdir().unwrap();
    let topology = nodes(place.path(), ["0", "1-3"]);
    let mill = Mill::new(1, 2);
    let all = 2 * usize::from(FLOWS) * LENGTH as usize;
    let options = Options { topology, pin: true, ..mill.options(2) };
    let sent = mill.sent.clone();
    let config = "FromDevice(a) -> out :: ToDevice(c); FromDevice(b) -> Pipeliner(100000) -> out;";
    let router = run(config, options, |_| sent.lock().unwrap().len() >= all);
    assert_eq!(router.plan().seats.iter().map(|seat| seat.node).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(mill.sent.lock().unwrap().len(), all);
}

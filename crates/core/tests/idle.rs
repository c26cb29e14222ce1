//! Idle threads: they sleep, cost next to nothing, and miss nothing when they are called. In a process of its
//! own, for the processor time is that of the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use millrace_core::run::{Options, check, initialize};
use millrace_core::schedule::RestStats;
use millrace_core::{
    Class, ClassInfo, Context, Element, Failed, Init, Packet, Phase, Refused, Registry, Setup, Task,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{ClockId, clock_gettime};

/// The ends that the test rings: two for each Bell.
static ROPES: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
static RUNG: AtomicU64 = AtomicU64::new(0);
/// When a rope was pulled last.
static RUNG_AT: AtomicI64 = AtomicI64::new(0);
static TASKS: Mutex<Vec<Task>> = Mutex::new(Vec::new());

/// Sends a packet for each ring of its two descriptors, or polls them when it is told to.
struct Bell {
    task: Task,
    polls: bool,
    descriptors: Mutex<Vec<OwnedFd>>,
}

impl Element for Bell {
    const CLASS: Class = Class::new("TestBell", "0/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let thread: u32 = setup.args.mandatory("THREAD");
        let polls = setup.args.positional("POLLS", false);
        setup.args.complete()?;
        let name = setup.name().to_owned();
        setup.pin(&name, Some(thread as usize));
        Ok(Self { task: setup.task(), polls, descriptors: Mutex::default() })
    }

    fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
        let mut own = self.descriptors.lock().unwrap();
        for _ in 0..2 {
            let event = eventfd(0, EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
            ROPES.lock().unwrap().push(event.try_clone()?);
            own.push(event);
        }
        if !self.polls {
            let copies: Result<Vec<OwnedFd>, _> = own.iter().map(OwnedFd::try_clone).collect();
            self.task.wait_readable(copies?);
        }
        TASKS.lock().unwrap().push(self.task.clone());
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let mut rung = 0;
        for event in self.descriptors.lock().unwrap().iter() {
            let mut count = [0; 8];
            if rustix::io::read(event, &mut count).is_ok() {
                rung += u64::from_ne_bytes(count);
            }
        }
        let mut batch = cx.take_batch();
        let arrival = millrace_core::Timestamp::from_nanos(RUNG_AT.load(SeqCst));
        for _ in 0..rung {
            cx.created(1);
            let mut packet = Packet::from_bytes(b"ding").unwrap();
            packet.set_timestamp(arrival);
            if let Err(packet) = batch.push(packet) {
                cx.push_batch(0, &mut batch);
                batch.push(packet).unwrap();
            }
        }
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        rung > 0
    }
}

/// Begins its lies when it is scheduled.
static LIES: Mutex<Option<Task>> = Mutex::new(None);

/// A device that keeps calling and has nothing.
struct Liar(Task);

impl Element for Liar {
    const CLASS: Class = Class::new("TestLiar", "0/0", "");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        let name = setup.name().to_owned();
        setup.pin(&name, Some(3));
        Ok(Self(setup.task()))
    }

    fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
        let event = eventfd(1, EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?;
        self.0.wait_readable([event]);
        *LIES.lock().unwrap() = Some(self.0.clone());
        Ok(())
    }

    fn run_task(&self, _: &mut Context, (): &mut ()) -> bool {
        false
    }
}

struct Ear;

impl Element for Ear {
    const CLASS: Class = Class::new("TestEar", "1/0", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _: usize, batch: &mut millrace_core::Batch) {
        RUNG.fetch_add(batch.len() as u64, SeqCst);
        cx.consumed(batch.len());
        batch.clear();
    }
}

const BELL: ClassInfo = millrace_core::class_info!(Bell, "");
const LIAR: ClassInfo = millrace_core::class_info!(Liar, "");
const EAR: ClassInfo = millrace_core::class_info!(Ear, "");

/// Processor time of all threads, in seconds.
fn spent() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn ring(rope: usize) {
    RUNG_AT.store(millrace_core::clock::Clock::real().now().as_nanos(), SeqCst);
    rustix::io::write(&ROPES.lock().unwrap()[rope], &1u64.to_ne_bytes()).unwrap();
}

fn wait_for(rung: u64) {
    let start = Instant::now();
    while RUNG.load(SeqCst) < rung {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "a call was missed: {}",
            RUNG.load(SeqCst)
        );
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn idle_threads_sleep_and_miss_nothing() {
    let text =
        "TestBell(0) -> TestEar; TestBell(1) -> TestEar; TestBell(2, true) -> TestEar; TestLiar;";
    let mut map = millrace_lang::SourceMap::default();
    let source = map.add("idle.click", text);
    let options = millrace_lang::Options::default();
    let (graph, found) = millrace_lang::compile(&mut map, source, &options);
    assert!(found.is_empty(), "{found:?}");
    let mut registry = Registry::linked();
    registry.add(&BELL);
    registry.add(&EAR);
    registry.add(&LIAR);
    let (router, found) = check(&graph, &registry, Options { threads: 4, ..Options::default() });
    assert!(found.is_empty(), "{found:?}");
    let engine = initialize(router.unwrap(), 1).unwrap();
    let router = engine.router().clone();

    std::thread::scope(|scope| {
        let handle = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            let wakes = || (0..4).map(|thread| router.rest_of(thread).sleeps).sum::<u64>();
            let (start, before, woken) = (Instant::now(), spent(), wakes());
            std::thread::sleep(Duration::from_millis(900));
            let seconds = start.elapsed().as_secs_f64();
            let load = (spent() - before) / seconds;
            let wakes = (wakes() - woken) as f64 / seconds;
            println!(
                "four idle threads, one of which polls: {wakes:.0} wakes a second, {:.2} % of a processor",
                load * 100.0
            );

            // One at a time, to a thread that sleeps; then in a hurry.
            for n in 0..60 {
                ring(n % 6);
                wait_for(n as u64 + 1);
            }
            for n in 0..6000 {
                ring(n % 6);
            }
            wait_for(6060);
            // Called by another thread: its task is taken off the schedule and put back.
            let tasks = TASKS.lock().unwrap().clone();
            for _ in 0..20 {
                tasks[1].unschedule();
                std::thread::sleep(Duration::from_millis(2));
                tasks[1].schedule();
            }
            let lies = LIES.lock().unwrap().take().unwrap();
            lies.schedule();
            std::thread::sleep(Duration::from_millis(300));
            router.enter(Phase::Halted);
            (load, wakes)
        });
        engine.run();
        let (load, wakes) = handle.join().unwrap();
        // Three threads that sleep until they are called, one that looks now and then: some 320 times a second. What a
        // wake costs is the machine's affair, 10 to 100 us on a virtual one; a thread that spins takes a whole processor.
        assert!(wakes < 500.0, "{wakes} wakes a second");
        assert!(load < 0.5, "{load}");
    });
    for thread in 0..4 {
        let rest: RestStats = router.rest_of(thread);
        println!("thread {thread}: {rest:?}");
        assert!(rest.sleeps > 0 && rest.nanos > 500_000_000, "{rest:?}");
    }
    let lied_to = router.rest_of(3);
    assert!(lied_to.sleeps < 300, "it sleeps less and less often: {lied_to:?}");
    assert!(router.rest_of(1).calls.count > 0, "calls are measured");
    assert!(router.rest_of(0).arrivals.count > 0, "arrivals are measured");
    let text = String::from_utf8(router.read("rest", b"").unwrap()).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    print!("{text}");
}

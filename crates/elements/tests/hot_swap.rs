//! Numbered packets flow on two threads while the configuration is replaced a hundred times: every
//! one arrives, in order, and the counter counts them all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be set up fails the test")]

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use millrace_core::run::{Configured, Options, check, initialize, initialize_beside};
use millrace_core::{
    Batch, Class, ClassInfo, Context, Element, Engine, Failed, Init, Packet, Phase, Refused,
    Registry, Setup, Task,
};
use millrace_elements as _;
use millrace_lang::SourceMap;

/// The world outside of the router, which no swap stops.
static SENT: AtomicU64 = AtomicU64::new(0);
static ARRIVED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);
/// So many packets may be on their way; the queues have room for them.
const WINDOW: u64 = 500;

/// Brings the packets of the world in, numbered.
struct Numbered {
    task: Task,
}

impl Element for Numbered {
    const CLASS: Class = Class::new("Numbered", "0/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { task: setup.task() })
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        self.task.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let sent = SENT.load(SeqCst);
        let n = WINDOW.saturating_sub(sent - ARRIVED.load(SeqCst)).min(32);
        for number in sent..sent + n {
            cx.created(1);
            cx.push(0, Packet::from_bytes(&number.to_be_bytes()).unwrap());
        }
        SENT.store(sent + n, SeqCst);
        n > 0
    }
}

/// Takes them out, and looks whether the next one is the next one.
struct Gather;

impl Element for Gather {
    const CLASS: Class = Class::new("Gather", "1/0", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        cx.consumed(batch.len());
        for packet in batch.drain() {
            let expected = ARRIVED.fetch_add(1, SeqCst);
            if packet.data() != expected.to_be_bytes() {
                WRONG.fetch_add(1, SeqCst);
            }
        }
    }
}

static NUMBERED: ClassInfo = millrace_core::class_info!(Numbered, "");
static GATHER: ClassInfo = millrace_core::class_info!(Gather, "");

const ROUTER: &str = "Numbered -> a :: Queue(600) -> u :: Unqueue -> c :: Counter
    -> b :: ThreadSafeQueue(600) -> v :: Unqueue -> Gather; StaticThreadSched(u 0, v 1)";

const SECTION: &str = "GPURuntime(DEVICE simulator, SEED 3); Numbered -> s :: Batcher(100)
    -> HostToDeviceMemcpy -> GPUIP6Lookup(::/0 0) -> DeviceToHostMemcpy -> Debatcher -> c :: Counter
    -> Gather";

fn router(text: &str) -> Configured {
    let mut map = SourceMap::default();
    let source = map.add("swap", text);
    let (graph, found) =
        millrace_lang::compile(&mut map, source, &millrace_lang::Options::default());
    assert!(found.is_empty(), "{found:?}");
    let mut registry = Registry::linked();
    registry.add(&NUMBERED);
    registry.add(&GATHER);
    let (router, found) = check(&graph, &registry, Options { threads: 2, ..Options::default() });
    router.unwrap_or_else(|| panic!("{found:?}"))
}

#[test]
fn no_packet_is_lost_in_a_hundred_swaps() {
    // One after the other: there is one world.
    swap(ROUTER, 100, &["a", "b"]);
    swap(SECTION, 20, &["s"]);
}

/// Swaps a router so many times for another one like it; packets may be held in these elements.
fn swap(text: &str, swaps: usize, holders: &'static [&str]) {
    [&SENT, &ARRIVED, &WRONG].iter().for_each(|count| count.store(0, SeqCst));
    let engine: Engine = initialize(router(text), 1).unwrap();
    let mut current = engine.router().clone();
    let runner = std::thread::spawn(move || engine.run());
    let (mut longest, mut moved) = (Duration::ZERO, 0);
    for swap in 0..swaps {
        let before = ARRIVED.load(SeqCst);
        while ARRIVED.load(SeqCst) < before + 100 {
            std::thread::yield_now();
        }
        let next = initialize_beside(router(text), 1, &current).unwrap();
        let (tell, told) = channel();
        current.replace(next, move |swapped| {
            let length = |queue: &str| -> usize {
                let text = swapped.router.read(&format!("{queue}.length"), b"").unwrap();
                String::from_utf8(text).unwrap().parse().unwrap()
            };
            let held: usize = holders.iter().map(|holder| length(holder)).sum();
            tell.send((swapped.router, swapped.pause, held)).unwrap();
        });
        let (router, pause, held) = told.recv_timeout(Duration::from_secs(120)).unwrap();
        assert!(router.read("c.count", b"").is_ok(), "swap {swap}");
        (current, longest, moved) = (router, longest.max(pause), moved + held);
    }
    current.enter(Phase::Halted);
    runner.join().unwrap();
    let on_the_way = |queue: &str| -> u64 {
        let text = current.read(&format!("{queue}.length"), b"").unwrap();
        String::from_utf8(text).unwrap().parse().unwrap()
    };
    let held: Vec<u64> = holders.iter().map(|holder| on_the_way(holder)).collect();
    let (sent, arrived) = (SENT.load(SeqCst), ARRIVED.load(SeqCst));
    println!(
        "{swaps} swaps: {arrived} packets arrived, {moved} moved in queues, longest pause {longest:?}"
    );
    assert!(moved > 0, "no packet was on its way when there was a swap");
    assert_eq!(WRONG.load(SeqCst), 0, "packets out of order, twice or never");
    assert_eq!(sent, arrived + held.iter().sum::<u64>(), "packets lost");
    let counted = String::from_utf8(current.read("c.count", b"").unwrap()).unwrap();
    // What is behind the counter, if anything.
    let behind = held.get(1).copied().unwrap_or(0);
    assert_eq!(counted, (arrived + behind).to_string(), "the counter counts on");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}

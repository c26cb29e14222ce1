//! What rings are worth: packet sockets with and without them, in packets a second.
//!
//! ```text
//! cargo run --profile dist -p millrace-io --example packet_rings [ROUNDS [BYTES]]
//! ```
//!
//! As root: it makes a network namespace of its own with two pairs of virtual interfaces, a to b and
//! c to d, which goes with it. The methods take turns; printed are medians of all rounds, for frames
//! of 60 bytes unless said otherwise.
//!
//! - drain: packets that wait in the kernel are taken, as fast as that goes.
//! - receive: another thread sends as fast as it can; packets a second that arrive, and the time that
//!   each costs the receiving thread when there are some.
//! - transmit: packets are sent to an interface where nobody listens.
//! - forward: another thread sends, and packets go from one interface to another.
//! - lone: how long a single packet takes from one interface to the other, when few have come before.

#![allow(clippy::unwrap_used, reason = "what cannot be set up ends the program")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use millrace_core::{Batch, Packet};
use millrace_io::af_packet::AfPacket;
use millrace_io::{Backend, Method, RxOptions, RxQueue, TxOptions, TxQueue};
use rustix::thread::{CpuSet, UnshareFlags, sched_setaffinity};

/// How long a measurement takes.
const ROUND: Duration = Duration::from_millis(300);
/// Packets that wait for a receiver: they fit the buffers of both methods.
const WAITING: usize = 20_000;
/// How long nothing comes before them.
const QUIET: Duration = Duration::from_millis(100);
/// Packets sent one by one.
const LONE: usize = 100;

const METHODS: [(&str, Method); 2] = [("socket", Method::Socket), ("ring", Method::Ring)];

/// A measurement by a method, with frames of so many bytes: what is printed.
type Measure = fn(Method, usize) -> [f64; 2];

const MEASURES: [(&str, Measure, [&str; 2]); 5] = [
    ("drain", drain, ["Mpps", "ns each"]),
    ("receive", live, ["Mpps", "ns each"]),
    ("transmit", send_only, ["Mpps", "ns each"]),
    ("forward", forward, ["Mpps", "ns each"]),
    ("lone", lone, ["us median", "us most"]),
];

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>().unwrap());
    let rounds = arguments.next().unwrap_or(5);
    let bytes = arguments.next().unwrap_or(60).max(60);
    prepare();
    println!("{bytes} bytes, medians of {rounds} rounds");
    for (name, measure, units) in MEASURES {
        let mut results = [const { Vec::new() }; METHODS.len()];
        for _ in 0..rounds {
            for ((_, method), results) in METHODS.iter().zip(&mut results) {
                results.push(measure(method.clone(), bytes));
            }
        }
        for ((method, _), results) in METHODS.iter().zip(&mut results) {
            let [first, second] = [0, 1].map(|at| median(results.iter().map(|pair| pair[at])));
            let [a, b] = units;
            println!("{name:9} {method:7} {first:9.3} {a:9} {second:9.1} {b}");
        }
    }
}

/// Moves to a namespace of its own, on one core, and lays the cables.
fn prepare() {
    pin(0);
    leave_the_network();
    for (one, other) in [("a", "b"), ("c", "d")] {
        run(&format!("ip link add name {one} type veth peer name {other}"));
        for name in [one, other] {
            run(&format!("sysctl -q -w net.ipv6.conf.{name}.disable_ipv6=1"));
            run(&format!("ip link set dev {name} up"));
        }
    }
}

#[allow(unsafe_code, reason = "a system call that may not be made anywhere")]
fn leave_the_network() {
    // SAFETY: no other thread runs yet, and no descriptors are shared.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
}

fn run(command: &str) {
    let mut words = command.split(' ');
    assert!(Command::new(words.next().unwrap()).args(words).status().unwrap().success());
}

/// Keeps the calling thread on a core; on a machine of one core it stays where it is.
fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    let _ = sched_setaffinity(None, &cores);
}

fn receive_from(device: &str, method: Method) -> Box<dyn RxQueue> {
    let options = RxOptions { method, ..RxOptions::default() };
    AfPacket.open_rx(device, &options).unwrap().queues.remove(0)
}

fn transmit_to(device: &str, method: Method) -> Box<dyn TxQueue> {
    let options = TxOptions { method, ..TxOptions::default() };
    AfPacket.open_tx(device, &options).unwrap().queues.remove(0)
}

/// Fills a batch with 64 frames.
fn fill(batch: &mut Batch, bytes: usize) {
    let mut frame = vec![0xff; bytes];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    while batch.len() < 64 {
        batch.push(Packet::from_bytes(&frame).unwrap()).unwrap();
    }
}

/// Sends until told to end.
fn generate(bytes: usize, end: &AtomicBool) {
    pin(1);
    let mut out = transmit_to("a", Method::Ring);
    let mut batch = Batch::new();
    while !end.load(Relaxed) {
        fill(&mut batch, bytes);
        out.transmit(&mut batch).unwrap();
    }
}

/// While another thread sends: how often `step`, which returns how many packets it dealt with, does
/// so, in millions a second, and the nanoseconds each of them takes.
fn under_load(bytes: usize, mut step: impl FnMut() -> usize) -> [f64; 2] {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| generate(bytes, &end));
        let start = Instant::now();
        let mut before = start;
        let (mut n, mut busy) = (0, Duration::ZERO);
        while before - start < ROUND {
            let more = step();
            let now = Instant::now();
            if more > 0 {
                n += more;
                busy += now - before;
            }
            before = now;
        }
        end.store(true, Relaxed);
        rates(n, start.elapsed(), busy)
    })
}

fn rates(n: usize, all: Duration, busy: Duration) -> [f64; 2] {
    [n as f64 / all.as_secs_f64() / 1e6, busy.as_nanos() as f64 / n.max(1) as f64]
}

fn drain(method: Method, bytes: usize) -> [f64; 2] {
    let mut queue = receive_from("b", method);
    let mut out = transmit_to("a", Method::Ring);
    let mut batch = Batch::new();
    for _ in 0..WAITING / 64 {
        fill(&mut batch, bytes);
        out.transmit(&mut batch).unwrap();
    }
    std::thread::sleep(Duration::from_millis(5));
    let start = Instant::now();
    let mut n = 0;
    while let more @ 1.. = queue.receive(&mut batch, 256).unwrap() {
        n += more;
        batch.clear();
    }
    rates(n, start.elapsed(), start.elapsed())
}

fn live(method: Method, bytes: usize) -> [f64; 2] {
    let mut queue = receive_from("b", method);
    let mut batch = Batch::new();
    under_load(bytes, || {
        let n = queue.receive(&mut batch, 256).unwrap();
        batch.clear();
        n
    })
}

fn send_only(method: Method, bytes: usize) -> [f64; 2] {
    let mut out = transmit_to("c", method);
    let mut batch = Batch::new();
    let mut n = 0;
    let start = Instant::now();
    while start.elapsed() < ROUND {
        fill(&mut batch, bytes);
        n += out.transmit(&mut batch).unwrap();
    }
    rates(n, start.elapsed(), start.elapsed())
}

fn forward(method: Method, bytes: usize) -> [f64; 2] {
    let mut queue = receive_from("b", method.clone());
    let mut out = transmit_to("c", method);
    let mut batch = Batch::new();
    under_load(bytes, || {
        queue.receive(&mut batch, 64).unwrap();
        out.transmit(&mut batch).unwrap()
    })
}

fn lone(method: Method, bytes: usize) -> [f64; 2] {
    let mut queue = receive_from("b", method.clone());
    let mut out = transmit_to("a", method);
    // By then a queue knows that few packets come.
    let start = Instant::now();
    while start.elapsed() < QUIET {
        queue.receive(&mut Batch::new(), 256).unwrap();
    }
    let mut times: Vec<f64> = (0..LONE)
        .map(|_| {
            let mut batch = Batch::new();
            fill(&mut batch, bytes);
            batch.truncate(1);
            let start = Instant::now();
            out.transmit(&mut batch).unwrap();
            while queue.receive(&mut batch, 256).unwrap() == 0 {}
            let took = start.elapsed().as_secs_f64() * 1e6;
            std::thread::sleep(Duration::from_micros(300));
            took
        })
        .collect();
    times.sort_by(f64::total_cmp);
    [median(times.iter().copied()), times.last().copied().unwrap_or(0.0)]
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

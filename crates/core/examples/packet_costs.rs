//! What the packet memory costs: nanoseconds a packet for each operation, on this machine.
//!
//! `cargo run --profile dist -p millrace-core --example packet_costs [-- NAME [BATCHES]]`
//!
//! Where the processor's counters cannot be read, instructions can be counted as the difference of two
//! runs: `valgrind --tool=callgrind .../packet_costs NAME BATCHES` with two numbers of batches.

use std::hint::black_box;
use std::time::Instant;

use millrace_core::checksum;
use millrace_core::memory::{Batch, Packet, PlainCounts};

/// Packets in a batch here: the burst of a network card.
const BURST: usize = 32;

/// An operation on a batch of `BURST` packets.
type Operation = fn(&mut State);

struct State {
    batch: Batch,
    outputs: [Batch; 4],
    ports: [u16; Batch::CAPACITY],
    bytes: Vec<u8>,
    sum: u64,
    counts: Option<PlainCounts>,
}

const OPERATIONS: &[(&str, Operation)] = &[
    ("allocate and free a batch", |state| {
        state.batch.allocate(BURST, 1500);
        state.batch.clear();
    }),
    ("allocate and drop one by one", |_| {
        for _ in 0..BURST {
            drop(black_box(Packet::for_receive(1500)));
        }
    }),
    ("64 bytes into a new packet, free", |state| {
        for _ in 0..BURST {
            if let Some(packet) =
                Packet::from_bytes(state.bytes.first_chunk::<64>().unwrap_or(&[0; 64]))
            {
                drop(state.batch.push(packet));
            }
        }
        state.batch.clear();
    }),
    ("share and drop", |state| {
        keep_filled(state);
        state.batch.for_each(|packet| drop(black_box(packet.share())));
    }),
    ("share and drop, counted plainly", |state| {
        if state.counts.is_none() {
            state.counts = PlainCounts::begin();
        }
        keep_filled(state);
        state.batch.for_each(|packet| drop(black_box(packet.share())));
    }),
    ("for_each: strip and prepend", |state| {
        keep_filled(state);
        state.batch.for_each(|packet| {
            if packet.strip(14) {
                packet.prepend(14);
            }
        });
    }),
    ("for_each: read the first byte", |state| {
        keep_filled(state);
        let mut sum = 0;
        state.batch.for_each(|packet| sum += packet.data().first().map_or(0, |b| u64::from(*b)));
        state.sum += sum;
    }),
    ("for_each: write the first byte", |state| {
        keep_filled(state);
        state.batch.for_each(|packet| {
            if let Some(byte) = packet.data_mut().first_mut() {
                *byte = byte.wrapping_add(1);
            }
        });
    }),
    ("for_each: write an annotation", |state| {
        keep_filled(state);
        state.batch.for_each(|packet| packet.set_paint(7));
    }),
    ("map_filter: keep all", |state| {
        keep_filled(state);
        state.batch.map_filter(|mut packet| packet.strip(0).then_some(packet));
    }),
    ("classify, distribute: one output", |state| {
        keep_filled(state);
        route(state, |_| 0);
    }),
    ("classify, distribute: four outputs in turn", |state| {
        keep_filled(state);
        let mut number = 0;
        route(state, |_| {
            number += 1;
            number % 4
        });
    }),
    ("checksum of 20 bytes", |state| {
        for _ in 0..BURST {
            state.sum +=
                u64::from(checksum::checksum(black_box(state.bytes.get(..20).unwrap_or(&[]))));
        }
    }),
    ("checksum of 1,460 bytes", |state| {
        for _ in 0..BURST {
            state.sum += u64::from(checksum::checksum(black_box(&state.bytes)));
        }
    }),
];

fn keep_filled(state: &mut State) {
    if state.batch.is_empty() {
        state.batch.allocate(BURST, 1500);
        state.batch.for_each(|packet| {
            packet.append(64);
        });
    }
}

fn route(state: &mut State, choose: impl FnMut(&mut Packet) -> u16) {
    state.batch.classify(&mut state.ports, choose);
    let outputs = &mut state.outputs;
    state.batch.distribute(&state.ports, |port, run| {
        if let Some(output) = outputs.get_mut(usize::from(port)) {
            run.move_to(output);
        }
    });
    // What the outputs got becomes the batch again.
    let [first, others @ ..] = outputs;
    std::mem::swap(&mut state.batch, first);
    for other in others {
        state.batch.append(other);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    let batches = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(200_000u32);
    for (name, operation) in OPERATIONS.iter().filter(|(name, _)| name.contains(&wanted)) {
        let mut state = State {
            batch: Batch::new(),
            outputs: std::array::from_fn(|_| Batch::new()),
            ports: [0; Batch::CAPACITY],
            bytes: (0..1460).map(|byte| byte as u8).collect(),
            sum: 0,
            counts: None,
        };
        (0..batches / 10).for_each(|_| operation(&mut state));
        let start = Instant::now();
        (0..batches).for_each(|_| operation(&mut state));
        let nanos = start.elapsed().as_nanos() as f64 / f64::from(batches) / BURST as f64;
        black_box(state.sum);
        println!("{name:<44} {nanos:6.2} ns a packet");
    }
    if "cold packets".contains(&wanted) {
        cold_packets();
    }
}

/// The look-ahead on packets that are in no near cache: many batches, far more than fit, in turn.
fn cold_packets() {
    let mut batches: Vec<Batch> = (0..180).map(|_| Batch::new()).collect();
    for batch in &mut batches {
        batch.allocate(Batch::CAPACITY, 1500);
        batch.for_each(|packet| {
            packet.append(64).fill(1);
        });
    }
    // Neighbours in memory must not be neighbours in a batch, or the processor guesses the next address.
    let packets: usize = batches.iter().map(|batch| batch.len()).sum();
    let mut state = 1u64;
    for _ in 0..packets {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (one, other) =
            ((state >> 33) as usize % batches.len(), (state >> 20) as usize % batches.len());
        if let Ok([one, other]) = batches.get_disjoint_mut([one, other]) {
            let (from, to) =
                ((state >> 40) as usize % one.len(), (state >> 50) as usize % other.len());
            std::mem::swap(&mut one[from], &mut other[to]);
        }
    }
    cold("cold packets, look-ahead 0", &mut batches, |batch, f| batch.for_each_ahead::<0>(f));
    cold("cold packets, look-ahead 2", &mut batches, |batch, f| batch.for_each_ahead::<2>(f));
    cold("cold packets, look-ahead 4", &mut batches, |batch, f| batch.for_each_ahead::<4>(f));
    cold("cold packets, look-ahead 8", &mut batches, |batch, f| batch.for_each_ahead::<8>(f));
    cold("cold packets, look-ahead 4, data asked for", &mut batches, |batch, f| {
        batch.prefetch_data();
        batch.for_each_ahead::<4>(f);
    });
}

fn cold(name: &str, batches: &mut [Batch], each: impl Fn(&mut Batch, &mut dyn FnMut(&mut Packet))) {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        let mut packets = 0;
        for batch in &mut *batches {
            packets += batch.len();
            each(batch, &mut |packet| {
                // About as much work as a router does: some 200 instructions.
                let mut hash = 0u32;
                for byte in packet.data() {
                    hash = hash.wrapping_mul(31).wrapping_add(u32::from(*byte));
                }
                packet.set_aggregate(hash);
            });
        }
        best = best.min(start.elapsed().as_nanos() as f64 / packets as f64);
    }
    println!("{name:<44} {best:6.2} ns a packet");
}

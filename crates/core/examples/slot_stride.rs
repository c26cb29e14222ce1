//! Why the arena's slots lie an odd number of cache lines apart.
//!
//! `cargo run --profile dist -p millrace-core --example slot_stride`
//!
//! A batch of descriptors is touched again and again, as elements do one after the other: line 0, line 2 and
//! the first line of the data of every packet. At a stride of 2,048 or 4,096 bytes these lines fall into one
//! or two of the 64 sets of a first-level cache (into 16 or 32 of those of a second-level cache) and push
//! each other out, however large the cache is; at an odd number of lines they spread over all sets.

use std::hint::black_box;
use std::time::Instant;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Sets of a first-level data cache of 32 KiB with 8 ways, or 48 KiB with 12.
const SETS: usize = 64;

/// Distances from one descriptor to the next, in bytes, and what they are.
const STRIDES: [(usize, &str); 5] = [
    (32 * LINE, "power of two"),
    (64 * LINE, "power of two, a page"),
    (40 * LINE, "even number of lines"),
    (38 * LINE, "twice an odd number"),
    (39 * LINE, "odd number: the arena's"),
];

/// Where a packet's lines are: descriptor line 0 and 2, data behind 192 bytes of descriptor and 128 of headroom.
const TOUCHED: [usize; 3] = [0, 128, 320];

const BATCHES: [usize; 4] = [16, 32, 64, 256];

fn main() {
    println!("nanoseconds for each packet touched (3 cache lines), and sets of the cache used\n");
    print!("{:>7}  {:<26}", "stride", "");
    BATCHES.iter().for_each(|batch| print!("{:>16}", format!("batch of {batch}")));
    println!();
    for (stride, what) in STRIDES {
        print!("{stride:>7}  {what:<26}");
        for batch in BATCHES {
            let nanos = (0..5).map(|_| touch(stride, batch)).fold(f64::INFINITY, f64::min);
            print!("{:>16}", format!("{nanos:.2} ns {:>3}", sets(stride, batch)));
        }
        println!();
    }
}

/// Nanoseconds to read and write the touched lines of one packet of a batch.
fn touch(stride: usize, batch: usize) -> f64 {
    const TOUCHES: usize = 1 << 20;
    let lines_of_packet = stride / LINE;
    // Whole lines, so that the first one is aligned.
    let mut memory = vec![Line([0; LINE / 8]); lines_of_packet * batch];
    let rounds = TOUCHES / batch;
    let mut run = |rounds: usize| {
        for _ in 0..rounds {
            for packet in black_box(&mut memory).chunks_exact_mut(lines_of_packet) {
                for offset in TOUCHED {
                    if let Some(line) = packet.get_mut(offset / LINE) {
                        line.0[0] = line.0[0].wrapping_add(1);
                    }
                }
            }
        }
    };
    run(rounds / 8);
    let start = Instant::now();
    run(rounds);
    start.elapsed().as_nanos() as f64 / (rounds * batch) as f64
}

/// In how many sets the touched lines of a batch fall.
fn sets(stride: usize, batch: usize) -> usize {
    let mut used = [false; SETS];
    for packet in 0..batch {
        for offset in TOUCHED {
            used[(packet * stride + offset) / LINE % SETS] = true;
        }
    }
    used.iter().filter(|used| **used).count()
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; LINE / 8]);

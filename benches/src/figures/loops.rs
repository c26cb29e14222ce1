//! The effect of prefetching and of multi-loops: VPP's figure 3, with the library's loop.
//!
//! For each packet, the work is that of a router: check the IP header's checksum, decrement the TTL, write new
//! Ethernet addresses. It is done by [`Batch::for_each_ahead`], looking 0 to 8 packets ahead, and by a multi-loop,
//! which does each step of the work for several packets before the next step. Packets are either the same 256 again
//! and again, in the first-level caches, or 16,384 in turn, which no near cache holds.

use std::hint::black_box;

use millrace_core::{Batch, Packet, checksum, cycles};

use super::bench::Bench;
use super::figure::{Axis, Figure, Panel, Scale, Series};
use crate::report::median;
use crate::traffic::FRAME_LEN;

/// A form of the loop.
type Loop = fn(&mut Batch);

/// The distances of prefetching, and for each two loops: alone, and after a pass that requests the data of all
/// packets.
const AHEAD: [(usize, Loop, Loop); 5] = [
    (0, ahead::<0>, with_data::<0>),
    (1, ahead::<1>, with_data::<1>),
    (2, ahead::<2>, with_data::<2>),
    (4, ahead::<4>, with_data::<4>),
    (8, ahead::<8>, with_data::<8>),
];

/// The number of packets that a multi-loop processes together.
const TOGETHER: [(usize, Loop, Loop); 4] = [
    (1, together::<1>, together_with_data::<1>),
    (2, together::<2>, together_with_data::<2>),
    (4, together::<4>, together_with_data::<4>),
    (8, together::<8>, together_with_data::<8>),
];

/// Batches of packets that are in no near cache.
const FAR: usize = 64;

/// Makes the figure.
///
/// # Errors
/// There is no memory for the packets.
pub(super) fn figure(bench: &Bench) -> anyhow::Result<Figure> {
    let mut near = batches(1, &bench.trace)?;
    let far_batches = if bench.brief { 2 } else { FAR };
    let mut far = batches(far_batches, &bench.trace)?;
    let panel = |title: &str, label: &str, series: Vec<Series>| Panel {
        title: title.to_owned(),
        x: Axis::new(label, Scale::Names(places(&series))),
        y: Axis::new("cycles a packet", Scale::Linear),
        series,
    };
    let mut measure = |loops: &[(usize, Loop, Loop)], far_ones: bool| {
        let batches = if far_ones { &mut far } else { &mut near };
        let all: Vec<Loop> = loops.iter().flat_map(|&(_, alone, data)| [alone, data]).collect();
        let found = turns(bench, batches, &all);
        let of = |which: usize| {
            let found = found.iter().skip(which).step_by(2);
            found.enumerate().map(|(at, cycles)| (at as f64, *cycles)).collect::<Vec<_>>()
        };
        vec![Series::new("as it is", of(0)), Series::new("after asking for all data", of(1))]
    };
    let look = "packets that the loop looks ahead";
    let many = "packets that the loop treats together";
    let panels = vec![
        panel("Prefetch, packets in no near cache", look, measure(&AHEAD, true)),
        panel("Prefetch, packets at hand", look, measure(&AHEAD, false)),
        panel("Multi-loop, packets in no near cache", many, measure(&TOGETHER, true)),
        panel("Multi-loop, packets at hand", many, measure(&TOGETHER, false)),
    ];
    Ok(Figure {
        name: "loops",
        title: "Looking ahead, and several packets together (VPP, figure 3)".to_owned(),
        panels,
        targets: Vec::new(),
        notes: vec![
            "The work: verify a header's checksum, one hop less, new Ethernet addresses. The library's loops \
             look 4 packets ahead."
                .to_owned(),
        ],
    })
}

/// The labels of the horizontal axis.
fn places(series: &[Series]) -> Vec<String> {
    let count = series.iter().map(|one| one.points.len()).max().unwrap_or(0);
    let names: Vec<usize> = match count {
        count if count == AHEAD.len() => AHEAD.iter().map(|one| one.0).collect(),
        _ => TOGETHER.iter().map(|one| one.0).collect(),
    };
    names.iter().map(usize::to_string).collect()
}

/// Cycles per packet of each loop, in turns over the batches.
fn turns(bench: &Bench, batches: &mut [Batch], loops: &[Loop]) -> Vec<f64> {
    // Each turn processes as many packets as one of a configuration, so that the figures are as stable.
    let packets: usize = batches.iter().map(|batch| batch.len()).sum();
    let wanted = (bench.length.slice * bench.length.slices) as usize;
    let times = (wanted / packets.max(1)).max(1);
    let mut found = vec![Vec::new(); loops.len()];
    for _ in 0..bench.rounds {
        for (work, found) in loops.iter().zip(&mut found) {
            let count = batches.len().max(1);
            for at in 0..times * count {
                let Some(batch) = batches.get_mut(at % count) else { continue };
                // Batch by batch, so that a short disturbance affects one batch.
                let start = cycles::now();
                work(black_box(batch));
                let spent = cycles::now().wrapping_sub(start);
                found.push(spent as f64 / batch.len().max(1) as f64);
            }
        }
    }
    found.into_iter().map(|found| median(found).unwrap_or(f64::NAN)).collect()
}

/// This number of full batches of frames. The addresses of packets are in random order, as in a program that has run
/// for a while; otherwise the processor would predict the next one.
fn batches(count: usize, trace: &[[u8; FRAME_LEN]]) -> anyhow::Result<Vec<Batch>> {
    let mut packets = Vec::with_capacity(count * Batch::CAPACITY);
    let mut batch = Batch::new();
    while packets.len() < packets.capacity() {
        batch.allocate(Batch::CAPACITY, FRAME_LEN);
        anyhow::ensure!(batch.is_full(), "no memory for {count} batches of packets");
        packets.extend(batch.drain());
    }
    fastrand::Rng::with_seed(0x6c6f_6f70).shuffle(&mut packets);
    for (packet, frame) in packets.iter_mut().zip(trace.iter().cycle()) {
        if let Some(buffer) = packet.buffer_mut().first_chunk_mut() {
            *buffer = *frame;
        }
        // The packet was made for so many bytes.
        let _ = packet.set_len(FRAME_LEN);
    }
    let mut packets = packets.into_iter();
    let fill = |_| {
        let mut batch = Batch::new();
        for packet in packets.by_ref().take(Batch::CAPACITY) {
            // There is room for as many as a batch holds.
            let _ = batch.push(packet);
        }
        batch
    };
    Ok((0..count).map(fill).collect())
}

fn ahead<const AHEAD: usize>(batch: &mut Batch) {
    batch.for_each_ahead::<AHEAD>(|packet| {
        if let Some(frame) = frame(packet) {
            route(frame);
        }
    });
}

fn with_data<const AHEAD: usize>(batch: &mut Batch) {
    batch.prefetch_data();
    ahead::<AHEAD>(batch);
}

/// Does each step for this number of packets before the next step.
fn together<const PACKETS: usize>(batch: &mut Batch) {
    let (groups, rest) = batch.as_chunks_mut::<PACKETS>();
    for group in groups {
        let mut right = [false; PACKETS];
        for (right, packet) in right.iter_mut().zip(group.iter_mut()) {
            *right = frame(packet).is_some_and(|frame| is_right(frame));
        }
        for (right, packet) in right.into_iter().zip(group.iter_mut()) {
            if right && let Some(frame) = frame(packet) {
                rewrite(frame);
            }
        }
    }
    for packet in rest {
        if let Some(frame) = frame(packet) {
            route(frame);
        }
    }
}

fn together_with_data<const PACKETS: usize>(batch: &mut Batch) {
    batch.prefetch_data();
    together::<PACKETS>(batch);
}

/// A packet's frame. Every packet is as long as this.
#[inline(always)]
fn frame(packet: &mut Packet) -> Option<&mut [u8; FRAME_LEN]> {
    packet.data_mut().first_chunk_mut()
}

/// The whole work on a frame.
#[inline(always)]
fn route(frame: &mut [u8; FRAME_LEN]) {
    if is_right(frame) {
        rewrite(frame);
    }
}

/// Whether the checksum of the IP header is right.
#[inline(always)]
fn is_right(frame: &[u8; FRAME_LEN]) -> bool {
    let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, header @ ..] = frame;
    header.first_chunk::<20>().is_some_and(|header| checksum::verify(header))
}

/// Decrements the TTL, updates the checksum, and writes other Ethernet addresses. A frame whose TTL has expired
/// starts again.
#[inline(always)]
fn rewrite(frame: &mut [u8; FRAME_LEN]) {
    const TTL: usize = 22;
    const CHECKSUM: usize = 24;
    const ADDRESSES: [u8; 12] = [2, 0, 10, 0, 1, 2, 2, 0, 10, 0, 1, 1];
    let old = frame[TTL];
    let new = if old > 1 { old - 1 } else { 64 };
    let sum = u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]);
    let sum = checksum::update(sum, u16::from(old) << 8, u16::from(new) << 8);
    frame[TTL] = new;
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    frame[..12].copy_from_slice(&ADDRESSES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic;

    #[test]
    fn every_loop_does_the_same_work() {
        let trace = traffic::trace(&traffic::routes(10)).unwrap();
        let results = AHEAD.iter().chain(&TOGETHER).flat_map(|&(_, alone, data)| [alone, data]);
        let results: Vec<Vec<Vec<u8>>> = results
            .map(|work| {
                let mut batches = batches(1, &trace).unwrap();
                let batch = batches.first_mut().unwrap();
                // A number that is not a multiple of any loop's group, and a frame with a wrong checksum.
                batch.truncate(251);
                batch[7].data_mut()[30] ^= 1;
                work(batch);
                batch.iter().map(|packet| packet.data().to_vec()).collect()
            })
            .collect();
        let first = results.first().unwrap();
        assert!(results.iter().all(|result| result == first));
        assert_eq!((first[0][22], first[7][22]), (63, 64));
        assert!(
            first.iter().enumerate().all(|(at, frame)| at == 7 || checksum::verify(&frame[14..34]))
        );
    }
}

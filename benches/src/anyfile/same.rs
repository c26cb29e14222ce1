//! Checks that files give the same results with and without the optimiser: the same frames by the same devices, in
//! the same order on each path, and the same values of all handlers.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use fastrand::Rng;
use millrace_core::clock::Clock;
use millrace_core::run::Options;
use millrace_core::services::Services;
use millrace_core::stats::ElementStats;
use millrace_core::{Packet, Router, Timestamp, checksum};
use millrace_io::Devices;
use millrace_io::memory::{End, Interface, Network};

use super::draw::Drawing;
use crate::graph::Graph;
use crate::rules::drawn::Drawn;

/// The number of times that a file gets packets, and the maximum number each time.
const ROUNDS: u64 = 10;
const MOST: u16 = 200;

/// The number of frames that differ not only in their number.
const SHAPES: usize = 40;

/// For each device, the numbers of the frames that left by it, in order, by shape.
type Left = Vec<BTreeMap<Vec<u8>, Vec<[u8; 2]>>>;

/// The results of a file.
struct Done {
    left: Left,
    /// The counts of elements.
    counts: Vec<(String, ElementStats)>,
    /// The values of handlers.
    answers: BTreeMap<String, Vec<u8>>,
}

/// Checks a file. Returns the number of frames that have left it.
///
/// # Errors
/// The file is wrong, or its results depend on the optimiser.
pub(super) fn check(drawing: &Drawing, seed: u64) -> anyhow::Result<usize> {
    let run = |optimise| run(drawing, seed, optimise);
    let (optimised, plain, again) = (run(true)?, run(false)?, run(false)?);
    let name = &drawing.name;
    let frames: usize =
        plain.left.iter().flat_map(BTreeMap::values).map(|numbers| numbers.len()).sum();
    ensure!(plain.left == again.left, "{name} does not do the same twice\n{}", drawing.text);
    for (device, (one, other)) in optimised.left.iter().zip(&plain.left).enumerate() {
        let shapes = one.keys().chain(other.keys());
        let differs = shapes.into_iter().find(|shape| one.get(*shape) != other.get(*shape));
        ensure!(
            differs.is_none(),
            "{name}: eth{device} sends other frames with the optimiser: {differs:x?}\n{}",
            drawing.text
        );
    }
    for (one, other) in optimised.counts.iter().zip(&plain.counts) {
        ensure!(
            one == other,
            "{name}: {one:?} with the optimiser, not {other:?}\n{}",
            drawing.text
        );
    }
    for (handler, answer) in &plain.answers {
        // Handlers whose values differ from run to run anyway.
        let is_steady = again.answers.get(handler) == Some(answer);
        let other = optimised.answers.get(handler);
        ensure!(
            !is_steady || other == Some(answer),
            "{name}: {handler} answers {:?} with the optimiser, not {:?}\n{}",
            other.map(|other| String::from_utf8_lossy(other)),
            String::from_utf8_lossy(answer),
            drawing.text
        );
    }
    Ok(frames)
}

fn run(drawing: &Drawing, seed: u64, optimise: bool) -> anyhow::Result<Done> {
    let network = Network::default();
    let end =
        |n| network.connect(Interface::new(format!("eth{n}")), Interface::new(format!("host{n}")));
    let ends: [End; 4] = [0, 1, 2, 3].map(end);
    let mut services = Services::default();
    services.insert(Devices(Box::new(network)));
    let options = Options { optimise, clock: Clock::virtual_(), services, ..Options::default() };
    let graph = Graph::new(drawing.name.as_str(), drawing.text.as_str());
    let mut engine = graph.engine(&[("burst", "64".to_owned())], options)?;
    let (shapes, mut random) = (shapes(seed)?, Rng::with_seed(seed));
    let mut left = vec![BTreeMap::<Vec<u8>, Vec<[u8; 2]>>::new(); ends.len()];
    for _ in 0..ROUNDS {
        for number in 0..random.u16(..MOST) {
            let shape = random.usize(..shapes.len());
            let frame = numbered(shapes.get(shape).context("no frames")?, number);
            let packet = Packet::from_bytes(&frame).context("no memory for packets")?;
            ends[0].send(packet).ok().context("a full wire")?;
        }
        engine.settle();
        for (end, left) in ends.iter().zip(&mut left) {
            while let Some(packet) = end.receive() {
                let (shape, number) = unnumbered(packet.data());
                left.entry(shape).or_default().push(number);
            }
        }
        let until = engine.router().clock().now() + Timestamp::from_millis(300);
        engine.run_until(until);
    }
    let router = engine.router();
    let counts = router.elements().enumerate().map(|(id, element)| {
        let counts = ElementStats { batches: 0, cycles: 0, polling: 0, ..router.stats_of(id) };
        (element.name.to_owned(), counts)
    });
    Ok(Done { left, counts: counts.collect(), answers: answers(router) })
}

/// Handlers that report how the engine works, not what a file does.
const OF_THE_ENGINE: &[&str] = &["batches", "cycles", "icounts", "ocounts"];

fn answers(router: &Router) -> BTreeMap<String, Vec<u8>> {
    let mut answers = BTreeMap::new();
    for id in 0..router.len() {
        for (handler, readable, _) in router.handlers_of(id) {
            if readable
                && !OF_THE_ENGINE.contains(&handler.as_str())
                && let Ok(text) = router.read_of(id, &handler, b"")
            {
                answers.insert(format!("{}.{handler}", router.name_of(id)), text.to_vec());
            }
        }
    }
    answers
}

/// Frames of several kinds: most of them valid, some with an error.
fn shapes(seed: u64) -> anyhow::Result<Vec<Vec<u8>>> {
    let drawn = Drawn { count: 0, seed: seed as u8, hits: false };
    let frames = drawn.frames(SHAPES)?.into_iter().enumerate();
    Ok(frames.map(|(n, (frame, _))| strange(frame.to_vec(), n)).collect())
}

/// The frame; every third one with an unusual property.
fn strange(mut frame: Vec<u8>, n: usize) -> Vec<u8> {
    match n {
        // Broadcast; for another host; not IP; TTL 1; damaged; truncated.
        0 => frame[..6].fill(0xff),
        3 | 6 => frame[5] = 9,
        9 => frame[13] = 6,
        12 | 15 => frame[22] = 1,
        18 => frame[24] ^= 1,
        21 => frame.truncate(30),
        24 => frame[14] = 0x65,
        27 => frame[17] = 200,
        30 => frame[20] = 0x20,
        _ => {}
    }
    if matches!(n, 12 | 15 | 30) {
        frame[24..26].fill(0);
        let sum = checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// The frame with a number at its end, and the number's complement before it, so that checksums stay valid.
fn numbered(frame: &[u8], number: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some(end) = frame.last_chunk_mut::<4>() {
        end[..2].copy_from_slice(&(!number).to_be_bytes());
        end[2..].copy_from_slice(&number.to_be_bytes());
    }
    frame
}

/// The frame without its number, and the number.
fn unnumbered(frame: &[u8]) -> (Vec<u8>, [u8; 2]) {
    match frame.split_last_chunk::<4>() {
        Some((shape, [_, _, number @ ..])) => (shape.to_vec(), *number),
        None => (frame.to_vec(), [0; 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_do_the_same_with_the_optimiser() {
        let check = |seed| check(&Drawing::draw(seed, 40), seed);
        let frames: Vec<usize> =
            (0..24).map(|seed| check(seed).unwrap_or_else(|error| panic!("{error:#}"))).collect();
        assert!(frames.iter().filter(|frames| **frames > 100).count() > 20, "{frames:?}");
    }
}

//! The rows of ordinary configurations: routers and filters whose author knows nothing about the engine, with one
//! port at which all paths join, and the same with many elements for inspecting packets.

use super::subject::{Configuration, Destinations, Input, Size, Subject};
use super::targets::{Measure, Target, USUAL};
use super::testpmd::Mode;
use crate::rules::drawn::Drawn;

/// The default lengths of bursts: that of DPDK's examples, and ours.
const BURSTS: [u16; 2] = [32, 128];

/// The seeds of the rule sets of each size.
const SEEDS: std::ops::RangeInclusive<u8> = 1..=3;

/// The rows, with these lengths of bursts.
pub(super) fn targets(bursts: &[u16]) -> Vec<Target> {
    let own = bursts.is_empty();
    let bursts = if own { &BURSTS } else { bursts };
    bursts.iter().flat_map(|&burst| rows(burst, own)).collect()
}

fn rows(burst: u16, forwards: bool) -> Vec<Target> {
    use Configuration::{
        Forward, PlainFilter, PlainFull, PlainFullInstrumented, PlainMinimal,
        PlainMinimalInstrumented,
    };

    let row = |name: String, configuration, destinations, (floor, aim)| {
        let size = Size::Spread;
        let ours = Subject::Ours(configuration, Input { size, destinations }, Some(burst));
        let peer = Subject::L3fwd(USUAL);
        Target {
            name: name.into(),
            burst: Some(burst),
            measure: Measure::Ratio { ours, peer, floor, aim },
        }
    };
    let router = |name: &str, configuration, targets| {
        row(name.to_owned(), configuration, Destinations::Few, targets)
    };
    let (minimal, full) = ((0.80, 0.95), (0.65, 0.85));
    let mut rows = vec![
        router("plain minimal router", PlainMinimal, minimal),
        router("plain full router", PlainFull, full),
        router("plain minimal router, instrumented", PlainMinimalInstrumented, minimal),
        router("plain full router, instrumented", PlainFullInstrumented, full),
    ];
    for (count, targets) in [(10, (0.45, 0.6)), (100, (0.40, 0.5)), (1000, (0.35, 0.4))] {
        for (seed, hits) in SEEDS.flat_map(|seed| [(seed, false), (seed, true)]) {
            let traffic = if hits { "hit" } else { "missed" };
            let name = format!("plain filter, {count} rules, seed {seed}, {traffic}");
            let destinations = Destinations::Drawn(Drawn { count, seed, hits });
            rows.push(row(name, PlainFilter, destinations, targets));
        }
    }
    if forwards {
        let (ours, peer) =
            (Subject::Ours(Forward, USUAL, Some(burst)), Subject::Testpmd(Mode::Io, Some(burst)));
        rows.insert(
            0,
            Target {
                name: "plain forward".into(),
                burst: Some(burst),
                measure: Measure::Ratio { ours, peer, floor: 0.95, aim: 1.0 },
            },
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_those_of_sockets() {
        /// Bytes of a socket's name that the bench's folder and DPDK leave.
        const ROOM: usize = 55;
        for target in targets(&[256]) {
            for subject in target.subjects() {
                let name = format!("{}-gate", subject.name());
                assert!(name.len() <= ROOM, "{name}");
            }
        }
    }
}

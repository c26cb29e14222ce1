//! Whole configurations: a graph of any classes, whose arguments are what manuals show, what classes ask for, nearly that,
//! or nothing of the kind; a text that has lost a byte. What can run runs for a few packets of virtual time.

use arbitrary::Unstructured;
use millrace_core::Timestamp;

use crate::bench::Bench;
use crate::draw::{Care, below, burst, draw, rarely};

pub(super) fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let care = if rarely(&mut input, 2) { Care::Any } else { Care::Right };
    let mut text = draw(&mut input, None, care).text;
    if rarely(&mut input, 8) {
        // Something is missing.
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let at = below(&mut input, places.len());
        if let Some(&at) = places.get(at) {
            text.remove(at);
        }
    }
    let threads = 1 + below(&mut input, 3);
    let Some(mut bench) = Bench::new(&text, threads) else { return };
    for feed in 0..3 {
        bench.give(feed, burst(&mut input));
        bench.pass(Timestamp::from_millis(1 << (below(&mut input, 16))));
    }
    bench.end();
}

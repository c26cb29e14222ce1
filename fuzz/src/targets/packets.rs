//! Hostile packets through graphs of all classes. The graph comes first in the input, with arguments that manuals show for
//! the most part; the rest is packets and time.

use arbitrary::Unstructured;
use millrace_core::Timestamp;

use crate::bench::Bench;
use crate::draw::{Care, below, burst, draw, known, one_of};

/// Most bursts of an input.
const BURSTS: usize = 32;

pub(super) fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let first = one_of(&mut input, &known().classes);
    let drawing = draw(&mut input, first, Care::Right);
    let Some(mut bench) = Bench::new(&drawing.text, 1) else { return };
    for _ in 0..BURSTS {
        if input.is_empty() {
            break;
        }
        bench.give(below(&mut input, drawing.feeds.max(1)), burst(&mut input));
        let time = [0, 0, 1, 100, 5_000][below(&mut input, 5)];
        bench.pass(Timestamp::from_millis(time));
    }
    bench.end();
}

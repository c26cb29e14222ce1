//! Hot swap, while packets flow: from a configuration to another one of the same input, which has elements of the same
//! names and often of the same classes, to the first one again, and so on.

use arbitrary::Unstructured;
use millrace_core::Timestamp;

use crate::bench::Bench;
use crate::draw::{Care, below, burst, draw, known, one_of};

/// Most swaps of an input.
const SWAPS: usize = 8;

pub(super) fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    // Both begin with an element of the same class.
    let first = one_of(&mut input, &known().classes);
    let texts =
        [draw(&mut input, first, Care::Right).text, draw(&mut input, first, Care::Right).text];
    let Some(mut bench) = Bench::new(&texts[0], 1) else { return };
    for swap in 0..SWAPS {
        for _ in 0..below(&mut input, 3) {
            bench.give(below(&mut input, 4), burst(&mut input));
            bench.pass(Timestamp::from_millis([0, 1, 1_000][below(&mut input, 3)]));
        }
        if input.is_empty() && swap > 2 {
            break;
        }
        bench.swap(&texts[below(&mut input, 4).min(2).abs_diff(swap % 2) % 2], 1);
    }
    bench.end();
}

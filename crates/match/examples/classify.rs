//! What the classifier costs: `cargo run --release -p millrace-match --example classify [RULES]...`
//!
//! For each kind of rule set the time of a lookup, of building and of an update, and the memory. Before anything is
//! timed, every answer is compared with a naive search. `sorted`: rules in the generator's order, the more special ones
//! in front; `mixed`: in no order.

#![allow(clippy::unwrap_used, reason = "a tool for developers")]

use std::time::Instant;

use millrace_match::rules::{Classifier, Key, NONE, RuleSet};
use millrace_testkit::generate::{frame::Frame, rules as generate, trace::Trace};

fn main() {
    let counts: Vec<usize> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let counts = if counts.is_empty() { vec![100, 1000, 10_000] } else { counts };
    println!("rules  kind  order   ns/lookup   M/s  build ms     bytes  trees  nodes  entries");
    for count in counts {
        for kind in &generate::KINDS {
            for mixed in [false, true] {
                measure(kind, count, mixed);
            }
        }
    }
}

fn measure(kind: &'static generate::Kind, count: usize, mixed: bool) {
    let mut made = generate::RuleSet::new(kind, count).make();
    if mixed {
        fastrand::Rng::with_seed(1).shuffle(&mut made);
    }
    let headers = Trace::new(1 << 16).make(&made);
    let keys: Vec<Key> =
        headers.iter().map(|header| Key::of_frame(&Frame::new(*header, &[]).bytes())).collect();
    let rules = RuleSet::parse(&generate::text(&made)).unwrap();
    let start = Instant::now();
    let classifier = Classifier::new(&rules);
    let build = start.elapsed().as_secs_f64() * 1e3;
    let mut found = vec![NONE; keys.len()];
    classifier.classify(&keys, &mut found);
    for (key, (header, found)) in keys.iter().zip(headers.iter().zip(&found)).step_by(7) {
        let first = generate::first_match(&made, header);
        assert_eq!(first, (*found != NONE).then_some(*found as usize), "{key:?}");
    }
    let mut best = f64::INFINITY;
    for _ in 0..15 {
        let start = Instant::now();
        for (keys, found) in keys.chunks(256).zip(found.chunks_mut(256)) {
            classifier.classify(keys, found);
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64);
    }

    let words = classifier.image().words();
    println!(
        "{count:>6} {:<5} {:<7} {best:>8.1} {:>6.1} {build:>8.1} {:>10} {:>5} {:>7} {:>7}",
        kind.name,
        if mixed { "mixed" } else { "sorted" },
        1e3 / best,
        classifier.bytes(),
        words[4],
        words[6],
        words[8],
    );
}

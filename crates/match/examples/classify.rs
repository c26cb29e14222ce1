//! Measures the cost of the classifier: `cargo run --profile dist -p millrace-match --example classify [RULES]...`
//!
//! For each kind of rule set, it measures the time of a lookup, of building and of an update, and the memory. Before
//! the measurements, it compares the results with a naive search. `sorted`: rules in the generator's order, the more
//! specific ones first. `mixed`: rules in random order. There are 65,536 different packets. `hit` and `miss` are
//! lookups through a cache of 4096 flows, of packets that are all of 1024 flows, and of the same packets as without a
//! cache. `far` is through a cache of 32 MB, in which 19 of 20 packets are found. `live` is without a cache, after 63
//! changes. The time of an update is the median of these changes, including a new list of actions for all rules, as
//! in SDNClassifier; after it, the slowest one.

#![allow(clippy::unwrap_used, reason = "a tool for developers")]

use std::time::Instant;

use millrace_match::rules::{FlowCache, Key, LiveRules, NONE, RuleSet};
use millrace_testkit::generate::{frame::Frame, rules as generate, trace::Trace};

fn main() {
    let counts: Vec<usize> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let counts = if counts.is_empty() { vec![100, 1000, 10_000] } else { counts };
    println!(
        " rules kind  order   ns/lookup   M/s    hit   miss    far   live   update us (most)  build ms    bytes trees"
    );
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
    let live = LiveRules::new(rules);
    let build = start.elapsed().as_secs_f64() * 1e3;
    let mut found = vec![NONE; keys.len()];
    live.classify(&keys, &mut found);
    for (key, (header, found)) in keys.iter().zip(headers.iter().zip(&found)).step_by(7) {
        let first = generate::first_match(&made, header);
        assert_eq!(first, (*found != NONE).then_some(*found as usize), "{key:?}");
    }
    let plain = time(&keys, |keys, found| live.classify(keys, found));
    let mut cache = FlowCache::new(4096);
    let miss = time(&keys, |keys, found| cache.classify(&live, 1, keys, found));
    let mut random = fastrand::Rng::with_seed(2);
    let few: Vec<Key> = keys.iter().map(|_| keys[random.usize(..1024)]).collect();
    let hit = time(&few, |keys, found| cache.classify(&live, 1, keys, found));
    let mut cache = FlowCache::new(1 << 20);
    let far = time(&keys, |keys, found| cache.classify(&live, 1, keys, found));
    let mut changed = live.clone();
    let changes: Vec<_> =
        (0..63).map(|_| *live.rules().nth(random.usize(..count)).unwrap()).collect();
    let mut updates = Vec::new();
    for (change, rule) in changes.iter().enumerate() {
        let start = Instant::now();
        changed = match change % 2 {
            0 => changed.with(random.usize(..count), *rule),
            _ => changed.without(random.usize(..count)).unwrap(),
        };
        let actions = (0..changed.numbers_end() as u32).map(|number| changed.action(number));
        std::hint::black_box(actions.collect::<Vec<_>>());
        updates.push(start.elapsed().as_secs_f64() * 1e6);
    }
    updates.sort_by(f64::total_cmp);
    let (update, most) = (updates[updates.len() / 2], updates[updates.len() - 1]);
    let after = time(&keys, |keys, found| changed.classify(keys, found));
    println!(
        "{count:>6} {:<5} {:<7} {plain:>9.1} {:>5.1} {hit:>6.1} {miss:>6.1} {far:>6.1} {after:>6.1} {update:>9.1} \
         {most:>8.1} {build:>9.1} {:>8} {:>5}",
        kind.name,
        if mixed { "mixed" } else { "sorted" },
        1e3 / plain,
        live.trees().bytes(),
        live.trees().image().words()[4],
    );
}

/// The minimum time per packet of several passes, in nanoseconds, in batches of 256.
fn time(keys: &[Key], mut classify: impl FnMut(&[Key], &mut [u32])) -> f64 {
    let mut found = vec![NONE; keys.len()];
    let pass = || {
        let start = Instant::now();
        for (keys, found) in keys.chunks(256).zip(found.chunks_mut(256)) {
            classify(keys, found);
        }
        start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64
    };
    std::iter::repeat_with(pass).take(15).fold(f64::INFINITY, f64::min)
}

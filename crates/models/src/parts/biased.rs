//! The biased lock.

use std::sync::Arc;

use loom::thread;

use crate::engine::biased::{BiasedMutex, Identity};
use crate::part::{Part, Scenario, join};

pub(crate) static PART: Part = Part {
    name: "biased",
    files: &["crates/core/src/engine/biased.rs"],
    stronger: &[
        (
            "let stall = self.keeper.load(Ordering::Acquire);",
            "a stall is plain memory, which is not watched: who reads its address reads its owner",
        ),
        (
            "self.keeper.store(keeper, Ordering::Release);",
            "the kernel's barrier before it orders earlier visits, too, but the language does not know that barrier",
        ),
    ],
    scenarios: &[
        Scenario { name: "the keeper and another context exclude each other", body: another },
        Scenario { name: "the keeper and a visitor exclude each other", body: visitor },
        Scenario { name: "who does not wait gets in alone or not at all", body: no_wait },
        Scenario { name: "a new keeper and the old one exclude each other", body: new_keeper },
        Scenario { name: "the keeper sees what visitors before it did", body: visitors },
    ],
    broken: &[],
};

type Pair = Arc<BiasedMutex<[u64; 2]>>;

/// A value whose halves are equal whenever nobody is inside.
fn pair() -> Pair {
    Arc::new(BiasedMutex::new([0; 2]))
}

fn add(pair: &mut [u64; 2]) {
    let [one, other] = pair;
    assert_eq!(one, other, "somebody else is inside");
    *one += 1;
    thread::yield_now();
    *other += 1;
}

/// A value that `own` keeps, and has changed once.
fn kept(own: &Identity) -> Pair {
    let pair = pair();
    add(&mut pair.lock(own));
    pair
}

fn ends_with(pair: &Pair, times: u64) {
    assert_eq!(*pair.visit(), [times; 2]);
}

fn another() {
    let (mut own, other) = (Identity::new(), Identity::new());
    let pair = kept(&own);
    let elsewhere = pair.clone();
    let second = thread::spawn(move || add(&mut elsewhere.lock(&other)));
    pair.with(&mut own, |_, pair| add(pair));
    pair.with(&mut own, |_, pair| add(pair));
    join(second);
    ends_with(&pair, 4);
}

fn visitor() {
    let own = Identity::new();
    let pair = kept(&own);
    let elsewhere = pair.clone();
    let second = thread::spawn(move || add(&mut elsewhere.visit()));
    add(&mut pair.lock(&own));
    add(&mut pair.lock(&own));
    join(second);
    ends_with(&pair, 4);
}

fn no_wait() {
    let (own, other) = (Identity::new(), Identity::new());
    let pair = kept(&own);
    let elsewhere = pair.clone();
    let second = thread::spawn(move || {
        let visited = elsewhere.try_visit().map(|mut pair| add(&mut pair)).is_some();
        u64::from(visited) + u64::from(elsewhere.try_with(&other, add).is_some())
    });
    let first = u64::from(pair.try_with(&own, add).is_some());
    let first = first + u64::from(pair.try_with(&own, add).is_some());
    let second = join(second);
    ends_with(&pair, 1 + first + second);
}

/// A second visitor finds the keeper inside, or about to be, and puts it back.
fn visitors() {
    let own = Identity::new();
    let pair = kept(&own);
    let elsewhere = pair.clone();
    let second = thread::spawn(move || {
        add(&mut elsewhere.visit());
        u64::from(elsewhere.try_visit().map(|mut pair| add(&mut pair)).is_some())
    });
    add(&mut pair.lock(&own));
    let visits = join(second);
    ends_with(&pair, 3 + visits);
}

/// One that has come often becomes the keeper while the former one does not know yet.
fn new_keeper() {
    let (own, other) = (Identity::new(), Identity::new());
    let pair = kept(&own);
    for _ in 0..64 {
        add(&mut pair.lock(&other));
    }
    let elsewhere = pair.clone();
    let second = thread::spawn(move || {
        add(&mut elsewhere.lock(&other));
        add(&mut elsewhere.lock(&other));
    });
    add(&mut pair.lock(&own));
    join(second);
    ends_with(&pair, 68);
}

//! Values that are replaced as a whole, and freed when no thread can see them.

use loom::thread;

use crate::engine::published::{Published, Seat};
use crate::moment::Round;
use crate::part::{Part, Scenario, join};
use crate::sync::Arc;
use crate::sync::cell::Watched;

pub(crate) static PART: Part = Part {
    name: "published",
    files: &["crates/core/src/engine/published.rs"],
    stronger: &[],
    scenarios: &[
        Scenario { name: "who reads in a round sees no freed value", body: reads },
        Scenario { name: "who wakes sees no freed value", body: wakes },
        Scenario { name: "two that replace free nothing that a third one sees", body: two },
    ],
    broken: &[],
};

/// A value that notes when it is freed.
#[derive(Default)]
struct Token(Watched);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn value() -> Arc<Published<Token>> {
    let value = Published::new(Token::default());
    value.store(Token::default());
    Arc::new(value)
}

/// A round in which a thread looks at the value twice.
fn round(seat: &mut Seat, value: &Published<Token>) {
    seat.begin_round();
    let seen = value.get(&Round);
    seen.0.look();
    thread::yield_now();
    seen.0.look();
}

fn reads() {
    let value = value();
    let mut seat = Seat::new();
    seat.begin_round();
    let elsewhere = value.clone();
    let second = thread::spawn(move || elsewhere.store(Token::default()));
    value.get(&Round).0.look();
    round(&mut seat, &value);
    round(&mut seat, &value);
    drop(seat);
    join(second);
}

fn wakes() {
    let value = value();
    let mut seat = Seat::new();
    let elsewhere = value.clone();
    let second = thread::spawn(move || elsewhere.store(Token::default()));
    round(&mut seat, &value);
    seat.leave();
    round(&mut seat, &value);
    seat.leave();
    drop(seat);
    join(second);
}

fn two() {
    let value = value();
    let mut seat = Seat::new();
    let threads = [(); 2].map(|()| {
        let elsewhere = value.clone();
        thread::spawn(move || elsewhere.store(Token::default()))
    });
    round(&mut seat, &value);
    drop(seat);
    threads.into_iter().for_each(join);
}

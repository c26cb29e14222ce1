//! Rings between threads: the call of who sends, and the rest of who takes.
//!
//! The ring itself is rtrb's, which is not modelled; here it is a number of packets, put in and seen as rtrb does.

use std::sync::Arc;

use loom::thread;

use super::threads::{Router, Thread};
use crate::part::{Part, Scenario, join};
use crate::rings::calling::{call, rest};
use crate::schedule::Task;
use crate::sync::atomic::{AtomicUsize, Ordering};

pub(crate) static PART: Part = Part {
    name: "rings",
    files: &["crates/elements/src/threads/rings/calling.rs"],
    stronger: &[],
    scenarios: &[
        Scenario { name: "who takes packets does not rest on one", body: one },
        Scenario { name: "who takes packets does not rest on those of two", body: two },
    ],
    broken: &[],
};

/// A consumer rests whenever it finds nothing, until it has taken what the senders send.
fn senders(count: usize) {
    let router = Router::new(1);
    let task = router.task(0);
    task.schedule();
    let ring = Arc::new(AtomicUsize::new(0));
    let (elsewhere, own, outlet) = (router.clone(), task.clone(), ring.clone());
    let taker = thread::spawn(move || {
        let run = |task: &Task| {
            if outlet.load(Ordering::Acquire) == count {
                elsewhere.stop();
                return true;
            }
            rest(task, || outlet.load(Ordering::Acquire) < count);
            false
        };
        Thread::new(&elsewhere, 0, vec![own]).run(run, || ());
    });
    let give = move |task: &Task| {
        ring.fetch_add(1, Ordering::Release);
        call(task);
    };
    let others: Vec<_> = (1..count)
        .map(|_| {
            let (give, task) = (give.clone(), task.clone());
            thread::spawn(move || give(&task))
        })
        .collect();
    give(&task);
    others.into_iter().for_each(join);
    join(taker);
}

fn one() {
    senders(1);
}

fn two() {
    senders(2);
}

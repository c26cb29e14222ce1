//! The end of a router: threads that finish packets for each other.
//!
//! Packets are numbers of steps that they still have to go; each step takes a packet to the next thread.

use std::sync::Arc;

use loom::thread;

use super::drained::{Drained, Passed};
use crate::Lock;
use crate::part::{Part, Scenario, join};

pub(crate) static PART: Part = Part {
    name: "drains",
    files: &["crates/core/src/run/drained.rs"],
    stronger: &[],
    scenarios: &[
        Scenario { name: "no thread ends while another has a packet for it", body: circle },
        Scenario { name: "no thread ends before a late one has handed over", body: late },
    ],
    broken: &[Scenario { name: "a late thread does not say that it comes", body: unannounced }],
};

type Queues = Arc<Vec<Lock<Vec<u32>>>>;

/// A thread's end: first its last round, which hands a packet over, then passes until all are idle.
fn end(all: &Drained, queues: &Queues, number: usize, last_round: Option<u32>, enters: bool) {
    let to = |thread: usize| &queues[thread % queues.len()];
    if let Some(steps) = last_round {
        to(number + 1).lock().push(steps);
    }
    if enters {
        all.enter();
    }
    loop {
        let passed = all.pass(number, || {
            let packets = std::mem::take(&mut *to(number).lock());
            for steps in &packets {
                if let Some(rest) = steps.checked_sub(1) {
                    to(number + 1).lock().push(rest);
                }
            }
            !packets.is_empty()
        });
        match passed {
            Passed::LastOfAll => return,
            Passed::Fruitful => (),
            Passed::Idle => thread::yield_now(),
        }
    }
}

fn ends(last_rounds: &[Option<u32>], packets: &[Vec<u32>], enters: bool) {
    let all = Arc::new(Drained::new(packets.len()));
    let queues: Queues = Arc::new(packets.iter().cloned().map(Lock::new).collect());
    let others: Vec<_> = (1..packets.len())
        .map(|number| {
            let (all, queues) = (all.clone(), queues.clone());
            let last_round = last_rounds[number];
            thread::spawn(move || end(&all, &queues, number, last_round, enters))
        })
        .collect();
    end(&all, &queues, 0, last_rounds[0], enters);
    others.into_iter().for_each(join);
    assert!(queues.iter().all(|queue| queue.lock().is_empty()), "a packet is left");
}

fn circle() {
    ends(&[None, None], &[vec![1], Vec::new()], true);
}

fn late() {
    ends(&[Some(0), None], &[Vec::new(), Vec::new()], true);
}

fn unannounced() {
    ends(&[Some(0), None], &[Vec::new(), Vec::new()], false);
}

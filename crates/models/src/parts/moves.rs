//! Tasks that move from thread to thread while they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use loom::thread;

use super::threads::{Router, Thread};
use crate::part::{Part, Scenario, join};
use crate::schedule::Task;
use crate::sync::cell::Watched;

pub(crate) static PART: Part = Part {
    name: "moves",
    files: &[
        "crates/core/src/run/roster.rs",
        "crates/core/src/schedule/task.rs",
        "crates/core/src/schedule/waker.rs",
    ],
    stronger: &[],
    scenarios: &[
        Scenario { name: "a task is on one thread at a time and is not lost", body: there },
        Scenario { name: "a task that is sent on while it moves arrives", body: on },
        Scenario {
            name: "a task that is scheduled while it is handed over runs",
            body: handed_over,
        },
    ],
    broken: &[],
};

/// What a task does, on one thread at a time.
#[derive(Default)]
struct Work {
    watched: Watched,
    runs: AtomicU32,
}

impl Work {
    /// Returns how often it has run.
    fn run(&self) -> u32 {
        self.watched.change();
        self.runs.fetch_add(1, Relaxed) + 1
    }
}

fn spawn(
    router: &Arc<Router>,
    number: usize,
    tasks: Vec<Task>,
    work: &Arc<Work>,
) -> thread::JoinHandle<()> {
    let (router, work) = (router.clone(), work.clone());
    thread::spawn(move || {
        let run = |task: &Task| {
            task.rest();
            if work.run() == 2 {
                router.stop();
            }
            true
        };
        Thread::new(&router, number, tasks).run(run, || ());
    })
}

/// The task is scheduled, moved and scheduled again; it ends the router with its second run.
fn there() {
    let router = Router::new(2);
    let work = Arc::new(Work::default());
    let task = router.task(0);
    task.schedule();
    let threads =
        [spawn(&router, 0, vec![task.clone()], &work), spawn(&router, 1, Vec::new(), &work)];
    task.send_to(1);
    again(&task);
    threads.into_iter().for_each(join);
}

/// The same with a second move, from where the task is by then, or is not yet.
fn on() {
    let router = Router::new(2);
    let work = Arc::new(Work { runs: AtomicU32::new(1), ..Work::default() });
    let task = router.task(0);
    let threads =
        [spawn(&router, 0, vec![task.clone()], &work), spawn(&router, 1, Vec::new(), &work)];
    task.send_to(1);
    task.send_to(0);
    task.schedule();
    threads.into_iter().for_each(join);
}

/// The old thread's one round hands the task over; the new thread sleeps unless it is scheduled.
fn handed_over() {
    let router = Router::new(2);
    let task = router.task(0);
    task.send_to(1);
    let mut old = Thread::new(&router, 0, vec![task.clone()]);
    let hands_over = thread::spawn(move || {
        let waker = old.router.wakers[0].clone();
        assert!(old.roster.changes(&waker) && old.roster.change(&waker, Vec::new));
    });
    let elsewhere = router.clone();
    let takes = thread::spawn(move || {
        let run = |task: &Task| {
            task.rest();
            elsewhere.stop();
            true
        };
        Thread::new(&elsewhere, 1, Vec::new()).run(run, || ());
    });
    task.schedule();
    join(hands_over);
    join(takes);
}

/// Schedules a task once it has run.
fn again(task: &Task) {
    while task.is_scheduled() {
        thread::yield_now();
    }
    task.schedule();
}

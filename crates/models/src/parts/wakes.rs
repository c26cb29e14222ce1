//! What wakes a thread that sleeps: tasks, timers, notifiers, the end.

use std::sync::Arc;

use loom::thread;

use super::threads::{NOW, Router, Thread};
use crate::part::{Part, Scenario, join};
use crate::schedule::Notifier;
use crate::sync::atomic::{AtomicUsize, Ordering};

pub(crate) static PART: Part = Part {
    name: "wakes",
    files: &[
        "crates/core/src/phase.rs",
        "crates/core/src/schedule/notifier.rs",
        "crates/core/src/schedule/task.rs",
        "crates/core/src/schedule/timer.rs",
        "crates/core/src/schedule/waker.rs",
    ],
    stronger: &[(
        "self.0.fetch_or(phase.bit(), Ordering::SeqCst) & phase.bit() == 0",
        "it happens a few times in a router's life, and what was done before is seen by whoever asks for the phase",
    )],
    scenarios: &[
        Scenario { name: "who is told to stop does not sleep on", body: stop },
        Scenario { name: "a task that is scheduled runs", body: task },
        Scenario {
            name: "work that comes before a task's scheduling is seen by a run",
            body: rest,
        },
        Scenario { name: "a timer that is set rings", body: timer },
        Scenario { name: "who finds nothing is notified of what comes", body: notifier },
    ],
    broken: &[Scenario { name: "a thread asks before it hears whether to go on", body: deaf }],
};

fn stop() {
    let router = Router::new(1);
    let elsewhere = router.clone();
    let second = thread::spawn(move || {
        Thread::new(&elsewhere, 0, Vec::new()).run(|_| false, || ());
    });
    router.stop();
    join(second);
}

/// Who is told to stop after it has asked, and before it reads how often it was called.
fn deaf() {
    let router = Router::new(1);
    let elsewhere = router.clone();
    let second = thread::spawn(move || {
        let Some(waker) = elsewhere.wakers.first() else { return };
        while elsewhere.is_running() {
            let heard = waker.calls();
            waker.sleep(&[], 1, heard);
        }
    });
    router.stop();
    join(second);
}

/// A handler schedules a task of another thread, which ends the router.
fn task() {
    let router = Router::new(1);
    let task = router.task(0);
    let (elsewhere, own) = (router.clone(), task.clone());
    let second = thread::spawn(move || {
        let run = |task: &crate::Task| {
            task.rest();
            elsewhere.stop();
            true
        };
        Thread::new(&elsewhere, 0, vec![own]).run(run, || ());
    });
    task.schedule();
    join(second);
}

/// A task looks for work and rests when there is none; another thread gives it some, twice.
fn rest() {
    let router = Router::new(1);
    let task = router.task(0);
    let work = Arc::new(AtomicUsize::new(0));
    let (elsewhere, own, left) = (router.clone(), task.clone(), work.clone());
    let second = thread::spawn(move || {
        let mut done = 0;
        let run = |task: &crate::Task| {
            let given = left.load(Ordering::Relaxed);
            let found = given - done;
            done = given;
            match (found, done) {
                (_, 2) => elsewhere.stop(),
                (0, _) => task.rest(),
                _ => (),
            }
            found > 0
        };
        Thread::new(&elsewhere, 0, vec![own]).run(run, || ());
    });
    for _ in 0..2 {
        work.fetch_add(1, Ordering::Relaxed);
        task.schedule();
    }
    join(second);
}

fn timer() {
    let router = Router::new(1);
    let timer = crate::schedule::Timer::new(0, 0);
    let mut own = Thread::new(&router, 0, Vec::new());
    let inbox = own.timers.inbox().clone();
    if let Some(waker) = router.wakers.first() {
        timer.settle(0, inbox, waker.clone());
    }
    let second = thread::spawn(move || {
        let elsewhere = own.router.clone();
        own.run(|_| false, || elsewhere.stop());
    });
    timer.schedule_at(NOW);
    join(second);
}

/// A queue without a lock: its puller finds it empty and sleeps, its pusher puts something in.
fn notifier() {
    let router = Router::new(1);
    let task = router.task(0);
    let queue = Arc::new((Notifier::default(), AtomicUsize::new(0)));
    queue.0.listen(task.clone());
    queue.0.wake();
    let (elsewhere, pulled) = (router.clone(), queue.clone());
    let second = thread::spawn(move || {
        let (notifier, length) = &*pulled;
        let run = |task: &crate::Task| {
            if length.load(Ordering::Relaxed) > 0 {
                elsewhere.stop();
                return true;
            }
            notifier.sleep_unless(|| length.load(Ordering::Relaxed) > 0);
            if !notifier.is_active() {
                task.rest();
            }
            false
        };
        Thread::new(&elsewhere, 0, vec![task]).run(run, || ());
    });
    queue.1.store(1, Ordering::Relaxed);
    queue.0.wake_unlocked();
    join(second);
}

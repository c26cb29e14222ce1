//! BalancedThreadSched - balances load by moving tasks between threads
//!
//! # Synopsis
//! `BalancedThreadSched([INTERVAL, INCREASING])`
//!
//! # Description
//! Every INTERVAL milliseconds, measures how long each task ran since the last measurement, and moves
//! some tasks from the busiest thread to the least busy one. Tasks that receive from a device stay with
//! its queues, and the tasks of Pipeliners with BLOCKING do not move. Packets stay in order when a task
//! moves.
//!
//! With this element in a configuration, any other task may run on any thread, so every element that
//! such a task reaches has state on all threads. The `home_thread` handler of an element can then move
//! its task to any thread.
//!
//! # Arguments
//! - INTERVAL: milliseconds between measurements, at least 1. Positional, default 1000.
//! - INCREASING: whether cheap tasks move first; otherwise expensive ones do. Positional, default true.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `moves` (read): tasks moved so far.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! BalancedThreadSched(100);
//! InfiniteSource(LIMIT 100) -> Discard;
//! InfiniteSource(LIMIT 100) -> Discard;
//! ```
//!
//! # See also
//! StaticThreadSched

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Lock, Refused, Setup, Task, Timer, Timestamp,
    register,
};

/// The element; its manual is at the top of the file.
pub struct BalancedThreadSched {
    interval: Timestamp,
    increasing: bool,
    timer: Timer,
    /// Each task's cycles at the last measurement, in the order of the plan.
    seen: Lock<Vec<u64>>,
    moves: AtomicU64,
}

/// A task that may move, and the cycles it used since the last measurement.
struct Load<'a> {
    task: &'a Task,
    cycles: u64,
}

register!(BalancedThreadSched, "balanced_thread_sched.rs");

impl Element for BalancedThreadSched {
    const CLASS: Class = Class::new("BalancedThreadSched", "0/0", "a/a").information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let interval = setup.args.in_range("INTERVAL", Kind::Positional, 1..=u32::MAX);
        let increasing = setup.args.positional("INCREASING", true);
        setup.args.complete()?;
        setup.let_tasks_move();
        Ok(Self {
            interval: Timestamp::from_millis(interval.unwrap_or(1000).into()),
            increasing,
            timer: setup.timer(),
            seen: Lock::default(),
            moves: 0.into(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.timer.schedule_at(init.clock().now() + self.interval);
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let router = cx.router();
        let mut loads = Vec::new();
        let mut threads = vec![0u64; router.plan().threads];
        let mut seen = self.seen.lock();
        seen.resize(router.tasks().count(), 0);
        for ((task, planned), seen) in router.tasks().zip(&router.plan().tasks).zip(seen.iter_mut())
        {
            let now = task.cycles();
            let cycles = now.wrapping_sub(std::mem::replace(seen, now));
            if let Some(thread) = threads.get_mut(task.home()) {
                *thread += cycles;
            }
            if planned.runs && planned.receives.is_none() {
                loads.push(Load { task, cycles });
            }
        }
        drop(seen);
        loads.sort_by_key(|load| load.cycles);
        if !self.increasing {
            loads.reverse();
        }
        for (at, to) in balance(&mut threads, &loads) {
            let moved = loads.get(at).is_some_and(|load| router.move_task(load.task, to).is_ok());
            self.moves.fetch_add(moved.into(), Relaxed);
        }
        self.timer.schedule_at(cx.now() + self.interval);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("moves", |sched, _| sched.moves.load(Relaxed));
    }
}

/// Decides which tasks move to which threads, given the load of each thread and the tasks in order
/// of preference.
fn balance(threads: &mut [u64], loads: &[Load<'_>]) -> Vec<(usize, usize)> {
    let homes = loads.iter().map(|load| (load.task.home(), load.cycles)).collect::<Vec<_>>();
    moves(threads, &homes)
}

/// [`balance`], given the home thread and the cycles of each task.
fn moves(threads: &mut [u64], tasks: &[(usize, u64)]) -> Vec<(usize, usize)> {
    let mut homes: Vec<usize> = tasks.iter().map(|task| task.0).collect();
    let mut moves = Vec::new();
    let mean = threads.iter().sum::<u64>() / (threads.len() as u64).max(1);
    for _ in 0..threads.len() {
        let by_load = |&thread: &usize| threads[thread];
        let least = (0..threads.len()).min_by_key(by_load).unwrap_or(0);
        let most = (0..threads.len()).max_by_key(by_load).unwrap_or(0);
        let (low, high) = (threads[least], threads[most]);
        // Ignore differences of less than an eighth.
        if mean - low < mean / 8 && high - mean < mean / 8 {
            break;
        }
        for (at, &(_, cycles)) in tasks.iter().enumerate() {
            let fits = threads[least] + cycles < mean + mean / 4;
            if homes[at] == most
                && cycles > 0
                && fits
                && threads[least] + 2 * cycles <= threads[most]
            {
                threads[least] += cycles;
                threads[most] -= cycles;
                homes[at] = least;
                moves.push((at, least));
            }
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    use super::*;

    #[test]
    fn load_moves_from_the_busiest_thread_to_the_idlest() {
        // All on one thread.
        assert_eq!(moves(&mut [40, 0], &[(0, 10), (0, 10), (0, 20)]), [(0, 1), (1, 1)]);
        // Nearly even.
        assert!(moves(&mut [105, 100], &[(0, 5), (0, 100), (1, 100)]).is_empty());
        // A single task cannot be split.
        assert!(moves(&mut [100, 0], &[(0, 100)]).is_empty());
        assert!(moves(&mut [0, 0], &[(0, 0)]).is_empty());
        assert!(moves(&mut [], &[]).is_empty());
        let mut threads = [90, 0, 0];
        let spread = moves(&mut threads, &[(0, 30), (0, 30), (0, 30)]);
        assert_eq!((spread.len(), threads), (2, [30, 30, 30]));
    }

    #[test]
    fn checks_its_arguments() {
        assert!(Rig::new("BalancedThreadSched(10, false)", 0, 0).is_ok());
        assert!(Rig::new("BalancedThreadSched(0)", 0, 0).is_err());
    }
}

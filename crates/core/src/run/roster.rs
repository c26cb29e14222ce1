//! The tasks of a thread, and those that leave it for another one.

use crate::schedule::{Move, Task, Waker};

/// The tasks that a thread runs. A task is in one roster, or on its way from one to another.
#[derive(Debug, Default)]
pub(super) struct Roster {
    tasks: Vec<Task>,
    leaving: Vec<Leaving>,
}

/// For each element, for each of a thread's rings to others: packets put in, and taken out.
pub(super) type HandedOver = Vec<Vec<(u64, u64)>>;

/// A task waiting to be handed over. It must wait until all packets that this thread put into its rings to
/// others before are out; otherwise packets from the task's new thread would overtake them.
#[derive(Debug)]
struct Leaving {
    task: Task,
    to: usize,
    /// When the task stopped here.
    handed_over: HandedOver,
}

impl Leaving {
    fn is_ready(&self, now: &HandedOver) -> bool {
        let then = self.handed_over.iter().flatten();
        // Rings that were made since then have nothing of the task.
        let now =
            self.handed_over.iter().zip(now).flat_map(|(then, now)| now.iter().take(then.len()));
        then.zip(now).all(|((put_in, _), (_, taken_out))| taken_out >= put_in)
    }
}

impl Roster {
    pub(super) fn new(tasks: Vec<Task>) -> Self {
        Self { tasks, leaving: Vec::new() }
    }

    /// The tasks to run.
    pub(super) fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Whether a task waits to be handed over.
    pub(super) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Whether there is something to [`change`](Self::change).
    #[inline]
    pub(super) fn changes(&self, waker: &Waker) -> bool {
        waker.has_moves() || self.has_leaving()
    }

    /// Hands over tasks that are moving to other threads, and accepts arriving ones. Returns whether one
    /// left.
    #[cold]
    pub(super) fn change(&mut self, waker: &Waker, handed_over: impl Fn() -> HandedOver) -> bool {
        for order in waker.take_moves() {
            match order {
                Move::Here(task) => self.tasks.push(task),
                Move::Away(task, to) => self.part_with(task, to, &handed_over),
            }
        }
        let before = self.leaving.len();
        let now = handed_over();
        for Leaving { task, to, .. } in self.leaving.extract_if(.., |one| one.is_ready(&now)) {
            task.set_home(to);
            if let Some(there) = task.waker_of(to) {
                there.send(Move::Here(task.clone()));
            }
        }
        self.leaving.len() < before
    }

    /// Takes a task off the thread, to hand it over to another one.
    fn part_with(&mut self, task: Task, to: usize, handed_over: impl Fn() -> HandedOver) {
        if let Some(leaving) = self.leaving.iter_mut().find(|leaving| leaving.task.is(&task)) {
            leaving.to = to;
        } else if let Some(at) = self.tasks.iter().position(|own| own.is(&task)) {
            self.tasks.remove(at);
            self.leaving.push(Leaving { task, to, handed_over: handed_over() });
        } else if let Some(there) = task.waker_of(task.home()) {
            // It is on its way to the thread that is to hand it over.
            there.send(Move::Away(task.clone(), to));
        }
    }
}

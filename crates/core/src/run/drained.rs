//! What the threads of a router know of each other at its end.

use crate::Lock;

/// Who has looked for packets since the last ones were found. A thread that has nothing left stays, because others may
/// still hand packets over to it.
#[derive(Debug, Default)]
pub(super) struct Drained(Lock<Passes>);

#[derive(Debug, Default)]
struct Passes {
    /// How many passes over the elements have found something, and how many threads have begun.
    fruitful: usize,
    /// For each thread, how many of these had ended when its last pass began, which found nothing.
    idle_since: Vec<Option<usize>>,
}

/// What a pass has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// It has found something.
    Fruitful,
    /// It has found nothing.
    Idle,
    /// It has found nothing, and no packet is left with any thread.
    LastOfAll,
}

impl Drained {
    /// For so many callers of [`pass`](Self::pass).
    pub(super) fn new(callers: usize) -> Self {
        let passes = Passes { fruitful: 0, idle_since: vec![None; callers] };
        Self(passes.into())
    }

    /// A caller begins: its last round may have handed packets over to threads that have found nothing before.
    pub(super) fn enter(&self) {
        self.0.lock().fruitful += 1;
    }

    /// A caller looks for packets and sends them on; `find` returns whether there were any.
    pub(super) fn pass(&self, caller: usize, find: impl FnOnce() -> bool) -> Passed {
        let before = self.0.lock().fruitful;
        let found = find();
        let mut passes = self.0.lock();
        if found {
            passes.fruitful += 1;
            return Passed::Fruitful;
        }
        if let Some(since) = passes.idle_since.get_mut(caller) {
            *since = Some(before);
        }
        // No packet is left, for what a pass hands over is there when it ends.
        match passes.idle_since.iter().all(|&since| since == Some(passes.fruitful)) {
            true => Passed::LastOfAll,
            false => Passed::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last round of a thread may hand packets over to one that has just looked and found none.
    #[test]
    fn no_thread_ends_before_all_have_looked_since_the_last_one_came() {
        let all = Drained::new(2);
        let look = |thread| all.pass(thread, || false);
        all.enter();
        assert_eq!(look(1), Passed::Idle);
        all.enter();
        assert_eq!(look(0), Passed::Idle, "thread 1 has not looked since thread 0 came");
        assert_eq!((look(1), look(0)), (Passed::LastOfAll, Passed::LastOfAll));
    }
}

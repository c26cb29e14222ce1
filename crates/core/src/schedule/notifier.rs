//! Signals from queues to their pullers.

use super::task::Task;
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicBool, Ordering, fence};

/// Signals whether a queue has packets, and wakes the tasks that wait for some.
///
/// Change it while you hold the queue's lock: then a puller that found the queue empty and a pusher agree on
/// which came first. Without a lock, the puller calls [`sleep_unless`](Self::sleep_unless) and the pusher
/// [`wake_unlocked`](Self::wake_unlocked), which have fences. A task that is scheduled by this sees what was signalled
/// before.
#[derive(Debug, Default)]
pub struct Notifier {
    active: AtomicBool,
    listeners: RwLock<Vec<Task>>,
}

impl Notifier {
    /// Signals that there are packets: schedules the listeners unless they were already notified.
    #[inline]
    pub fn wake(&self) {
        if !self.active.load(Ordering::Relaxed) {
            self.wake_listeners();
        }
    }

    /// Like [`wake`](Self::wake), after a change that [`sleep_unless`](Self::sleep_unless) looks at.
    pub fn wake_unlocked(&self) {
        // What was changed before is seen there, or the sleep is seen here.
        fence(Ordering::SeqCst);
        self.wake();
    }

    /// Signals that there are no packets, unless `some` finds that there are some by now.
    pub fn sleep_unless(&self, some: impl FnOnce() -> bool) {
        self.sleep();
        fence(Ordering::SeqCst);
        if some() {
            self.wake();
        }
    }

    /// Signals that there are no packets.
    #[inline]
    pub fn sleep(&self) {
        // Who asks time and again is told so by a plain load.
        if self.active.load(Ordering::Relaxed) {
            self.active.store(false, Ordering::Relaxed);
        }
    }

    /// Whether there are packets, by the last signal.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Adds a task to schedule on [`wake`](Self::wake).
    pub fn listen(&self, task: Task) {
        if let Ok(mut listeners) = self.listeners.write() {
            listeners.push(task);
        }
    }

    #[cold]
    fn wake_listeners(&self) {
        self.active.store(true, Ordering::Relaxed);
        if let Ok(listeners) = self.listeners.read() {
            listeners.iter().for_each(Task::schedule);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_woken_between_the_look_and_the_sleep_does_not_sleep() {
        let notifier = Notifier::default();
        let task = Task::new(0, 0);
        notifier.listen(task.clone());
        notifier.wake();
        assert!(task.is_scheduled());
        task.unschedule();
        // A handler has just made packets possible, and found the notifier awake.
        notifier.wake_unlocked();
        notifier.sleep_unless(|| true);
        assert!(notifier.is_active() && task.is_scheduled());
        task.unschedule();
        notifier.sleep_unless(|| false);
        assert!(!notifier.is_active() && !task.is_scheduled());
    }
}

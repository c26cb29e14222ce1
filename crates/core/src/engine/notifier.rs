//! Signals from queues to those who pull from them.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Task;

/// Says whether a queue has packets, and wakes the tasks that wait for some.
///
/// Change it while you hold the queue's lock: then a puller that found the queue empty and a
/// pusher agree on which came first.
#[derive(Debug, Default)]
pub struct Notifier {
    active: AtomicBool,
    listeners: RwLock<Vec<Task>>,
}

impl Notifier {
    /// There are packets: schedules the listeners unless they know.
    #[inline]
    pub fn wake(&self) {
        if !self.active.load(Ordering::Relaxed) {
            self.wake_listeners();
        }
    }

    /// There are none.
    #[inline]
    pub fn sleep(&self) {
        self.active.store(false, Ordering::SeqCst);
    }

    /// Whether there are packets, as last said.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// Adds a task to be scheduled on [`wake`](Self::wake).
    pub fn listen(&self, task: Task) {
        if let Ok(mut listeners) = self.listeners.write() {
            listeners.push(task);
        }
    }

    #[cold]
    fn wake_listeners(&self) {
        self.active.store(true, Ordering::SeqCst);
        if let Ok(listeners) = self.listeners.read() {
            listeners.iter().for_each(Task::schedule);
        }
    }
}

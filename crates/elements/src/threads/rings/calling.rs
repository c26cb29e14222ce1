//! Who sends packets wakes who takes them, and never misses that it sleeps.

use millrace_core::Task;
use millrace_core::sync::atomic::{Ordering, fence};

/// Schedules the consuming task, if it rests. Call this after sending packets.
#[inline]
pub(crate) fn call(task: &Task) {
    // Either the task finds the packets in its last check before it rests, or this thread sees that
    // it rests: the fences on both sides order each side's write before its read.
    fence(Ordering::SeqCst);
    if !task.is_scheduled() {
        task.schedule();
    }
}

/// Lets the consuming task rest until packets are sent again.
pub(crate) fn rest(task: &Task, is_empty: impl FnOnce() -> bool) {
    task.unschedule();
    fence(Ordering::SeqCst);
    if !is_empty() {
        task.schedule();
    }
}

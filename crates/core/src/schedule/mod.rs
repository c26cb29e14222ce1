//! What runs on a thread of its own accord, and what wakes the thread: tasks, timers, notifiers.

mod notifier;
mod task;
mod timer;
mod waker;

pub use notifier::Notifier;
pub(crate) use task::Move;
pub use task::Task;
pub use timer::Timer;
pub(crate) use timer::{Inbox, TimerQueue};
pub(crate) use waker::Waker;
pub use waker::{DelayStats, RestStats};

//! Threads that start when the sandbox holds.
//!
//! A thread has the capabilities and the landlock domain of the thread that started it. Control sockets are opened before
//! the sandbox is entered, so their threads wait here, and are started from within.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use millrace_core::Lock;

/// A thread's name, and how far it is.
type Named = (&'static str, Arc<Lock<State>>);

/// The threads that wait; none while threads start at once.
static WAITING: Lock<Option<Vec<Named>>> = Lock::new(None);

enum State {
    Waiting(Box<dyn FnOnce() + Send>),
    Running(JoinHandle<()>),
    Ended,
}

/// A thread that runs, or will.
pub(crate) struct Thread(Arc<Lock<State>>);

/// From now on, threads wait for [`open`].
pub(super) fn close() {
    *WAITING.lock() = Some(Vec::new());
}

/// Starts the threads that wait; others start at once from now on.
pub(super) fn open() -> io::Result<()> {
    for (name, thread) in WAITING.lock().take().into_iter().flatten() {
        let mut state = thread.lock();
        if let State::Waiting(work) = std::mem::replace(&mut *state, State::Ended) {
            *state = State::Running(Builder::new().name(name.to_owned()).spawn(work)?);
        }
    }
    Ok(())
}

/// Starts a thread, at once or when the sandbox holds.
pub(crate) fn spawn(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<Thread> {
    let mut waiting = WAITING.lock();
    let state = match *waiting {
        Some(_) => State::Waiting(Box::new(work)),
        None => State::Running(Builder::new().name(name.to_owned()).spawn(work)?),
    };
    let thread = Arc::new(Lock::new(state));
    if let Some(waiting) = &mut *waiting {
        waiting.push((name, thread.clone()));
    }
    Ok(Thread(thread))
}

impl Thread {
    /// Waits until the thread has ended. One that has not started never will.
    pub(crate) fn join(self) {
        let state = std::mem::replace(&mut *self.0.lock(), State::Ended);
        if let State::Running(thread) = state {
            // It has no result; what it panicked of was printed.
            let _ = thread.join();
        }
    }
}

//! Opening what belongs to an interface again after the interface was gone.

use std::time::{Duration, Instant};

/// How often to check for an interface that is gone or down.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// A way to open a queue of an interface, tried every [`LOOK`] while the interface is gone.
pub(crate) struct Reopening<T> {
    open: Box<dyn Fn() -> Option<T> + Send>,
    next: Instant,
}

impl<T> Reopening<T> {
    /// Tries `open`, for the first time at once.
    pub(crate) fn new(open: impl Fn() -> Option<T> + Send + 'static) -> Self {
        Self { open: Box::new(open), next: Instant::now() }
    }

    /// Puts the next try off.
    pub(crate) fn wait(&mut self) {
        self.next = Instant::now() + LOOK;
    }

    /// Whether it is time for a try; puts the next one off.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next;
        if is_due {
            self.next = now + LOOK;
        }
        is_due
    }

    /// Tries. What fails now may succeed later.
    pub(crate) fn open(&self) -> Option<T> {
        (self.open)()
    }
}

//! When something may be lost, and why.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Fault;

/// Everything that was done to the router and its surroundings, with its time.
#[derive(Debug)]
pub(super) struct Windows {
    begun: Instant,
    all: Mutex<Vec<Window>>,
    /// What was done and when, in seconds since the start.
    events: Mutex<Vec<Event>>,
}

/// Something that was done: what, and from when to when, in seconds since the start.
pub(super) type Event = (String, f64, f64);

/// The time during which a fault may be felt.
#[derive(Clone, Copy, Debug)]
struct Window {
    fault: Fault,
    from: Instant,
    /// None while it lasts.
    to: Option<Instant>,
}

/// What was on its way when a fault came was sent this much earlier, at most.
const ON_THE_WAY: Duration = Duration::from_millis(200);

impl Windows {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), all: Mutex::default(), events: Mutex::default() }
    }

    /// Opens the window of a fault. It closes when [`close`](Self::close) is called.
    pub(super) fn open(&self, fault: Fault) {
        let window = Window { fault, from: Instant::now(), to: None };
        self.lock().push(window);
    }

    /// The last fault has ended; what it takes to recover from it is added.
    pub(super) fn close(&self) {
        let now = Instant::now();
        let mut all = self.lock();
        if let Some(window) = all.iter_mut().rev().find(|window| window.to.is_none()) {
            window.to = Some(now + window.fault.recovery());
            self.note(window.fault.name().to_owned(), window.from, now);
        }
    }

    /// Remembers that something was done.
    pub(super) fn note(&self, what: String, from: Instant, to: Instant) {
        let event = (what, self.seconds(from), self.seconds(to));
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// What was done, in the order in which it ended.
    pub(super) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The fault by which a packet that was sent at this time may have been lost.
    pub(super) fn explains_loss(&self, sent: Instant) -> Option<Fault> {
        let found = self.find(sent, sent + ON_THE_WAY, Fault::loses);
        found.map(|window| window.fault)
    }

    /// Whether what went on in this time may have failed by any fault.
    pub(super) fn explains_failure(&self, from: Instant, to: Instant) -> bool {
        self.find(from, to, |_| true).is_some()
    }

    /// Whether data of a stream may be lost in this time.
    pub(super) fn explains_stall(&self, from: Instant, to: Instant) -> bool {
        self.find(from, to, Fault::loses).is_some()
    }

    /// The time since the start, in seconds, for reports.
    pub(super) fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.begun).as_secs_f64()
    }

    fn find(&self, from: Instant, to: Instant, kind: impl Fn(Fault) -> bool) -> Option<Window> {
        let all = self.lock();
        // The latest come first.
        let mut latest = all.iter().rev().filter(|window| kind(window.fault));
        latest.find(|window| window.from <= to && window.to.is_none_or(|end| from <= end)).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Window>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_fault_can_explain_is_excused() {
        let windows = Windows::new();
        let before = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        assert_eq!(windows.explains_loss(Instant::now()), None);
        windows.open(Fault::Mtu);
        assert_eq!(windows.explains_loss(Instant::now()), None, "a longer MTU loses nothing");
        assert!(windows.explains_failure(before, Instant::now()));
        windows.close();
        windows.open(Fault::Down);
        assert_eq!(windows.explains_loss(Instant::now()), Some(Fault::Down));
        assert_eq!(windows.explains_loss(before), None, "a second too early");
        windows.close();
        let recovered = Instant::now() + Fault::Down.recovery() + Duration::from_secs(1);
        assert_eq!(windows.explains_loss(recovered), None);
    }
}

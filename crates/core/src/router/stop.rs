//! How a router is stopped. Its threads read this state; nothing here waits for them.

use std::sync::atomic::Ordering;

use super::Router;
use crate::phase::Phase;

impl Router {
    /// How far the end has come.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phases.latest()
    }

    /// Whether tasks and timers run.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.phase() < Phase::Draining
    }

    /// Enters a later phase, whatever drives the router; there is no way back.
    pub fn enter(&self, phase: Phase) {
        if self.phases.enter(phase) {
            self.wakers.iter().for_each(|waker| waker.wake());
        }
    }

    /// Whether it has entered a phase, whatever followed.
    pub(crate) fn has_entered(&self, phase: Phase) -> bool {
        self.phases.has_entered(phase)
    }

    /// Requests a stop, as Click's elements do. An element that drives the router (DriverManager, Script) may
    /// keep it running.
    pub fn request_stop(&self) {
        self.request_stops(1);
    }

    /// Makes this many requests to stop at once.
    pub(crate) fn request_stops(&self, times: usize) {
        let more = |requests: usize| Some(requests.saturating_add(times));
        // It does not fail.
        let _ = self.stop_requests.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        self.wake();
    }

    /// Whether a request to stop is pending.
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.stop_requests.load(Ordering::Relaxed) > 0 || self.phase() == Phase::Ending
    }

    /// Takes one of the requests to stop. In [`Phase::Ending`] there is always one more.
    pub(crate) fn take_stop_request(&self) -> bool {
        let less = |requests: usize| requests.checked_sub(1);
        self.is_asked_to_stop()
            && (self.stop_requests.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
                || self.phase() == Phase::Ending)
    }

    pub(crate) fn driver(&self) -> Option<usize> {
        self.draft.driver
    }

    /// Makes the first thread check for outside events: requests to stop, signals.
    pub fn wake(&self) {
        if let Some(first) = self.wakers.first() {
            first.wake();
        }
    }

    /// Runs the elements that listen to signals that have arrived.
    pub(crate) fn heed_signals(&self) {
        for (signal, elements) in self.signals.take() {
            if elements.is_empty() {
                self.signals.nobody_heard(signal);
            }
            for id in elements {
                if let Err(error) = self.write_of(id, "run", b"") {
                    let message = error.to_string();
                    if !message.is_empty() {
                        self.chatter(&message);
                    }
                }
            }
        }
    }
}

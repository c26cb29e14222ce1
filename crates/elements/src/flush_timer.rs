//! Writes what a file still buffers, within a second: for `tail -f`, and for a reader of a pipe.

use millrace_core::{Context, Router, Setup, Timer, Timestamp};

/// The timer of an element that buffers what it writes. On virtual time, where nobody waits, it never expires.
pub(crate) struct FlushTimer(Timer);

impl FlushTimer {
    /// How long data stays in the buffer, at most.
    const PERIOD: Timestamp = Timestamp::from_secs(1);

    pub(crate) fn new(setup: &mut Setup<'_>) -> Self {
        Self(setup.timer())
    }

    /// Call it when something was written to the buffer: the element's `run_timer` is called within a second, and
    /// flushes.
    #[inline]
    pub(crate) fn written(&self, cx: &Context) {
        self.set(cx.router());
    }

    /// As [`written`](Self::written), where no thread runs the element yet.
    #[inline]
    pub(crate) fn set(&self, router: &Router) {
        if self.0.expiry().is_none() && !router.clock().is_virtual() {
            self.0.schedule_at(router.clock().now() + Self::PERIOD);
        }
    }
}

//! How long packets do not move while one router replaces another.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Router;

/// The time from the moment when the old router was told to end until all threads of the new one have begun.
#[derive(Debug, Default)]
pub(super) struct Pause {
    since: OnceLock<Instant>,
    nanos: AtomicU64,
}

impl Router {
    /// How long packets did not move when this router replaced another one. None if it has replaced none, or its threads
    /// have not begun.
    pub fn swap_pause(&self) -> Option<Duration> {
        match self.pause.nanos.load(Ordering::SeqCst) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Another router has been told to end, in whose place this one is to run.
    pub(crate) fn pauses_since(&self, told: Instant) {
        // A router runs once.
        let _ = self.pause.since.set(told);
    }

    /// A thread begins to run this router.
    pub(crate) fn resumes(&self) {
        if let Some(since) = self.pause.since.get() {
            let nanos = since.elapsed().as_nanos().try_into().unwrap_or(u64::MAX);
            self.pause.nanos.fetch_max(nanos.max(1), Ordering::SeqCst);
        }
    }
}

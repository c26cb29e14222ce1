//! What surrounds the parts, reduced to what they need of it.

pub(crate) mod kernel;

use crate::sync::Lock;
use std::sync::Arc;

/// Counts of one writer, which order nothing: the checker need not watch them.
pub(crate) mod stats {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[derive(Debug, Default)]
    pub(crate) struct Count(AtomicU64);

    impl Count {
        pub(crate) fn add(&self, more: u64) {
            self.set(self.get() + more);
        }

        pub(crate) fn get(&self) -> u64 {
            self.0.load(Relaxed)
        }

        pub(crate) fn set(&self, value: u64) {
            self.0.store(value, Relaxed);
        }
    }
}

/// A thread's round.
pub(crate) mod moment {
    pub(crate) trait InRound {}

    /// In the engine it ends where the borrow of a context does; the scenarios see to that themselves.
    pub(crate) struct Round;

    impl InRound for Round {}
}

pub(crate) use moment::InRound;

/// Points in time.
#[allow(dead_code, reason = "the scenarios do not use all of it")]
#[path = "../../../core/src/time.rs"]
pub(crate) mod time;

pub(crate) use time::Timestamp;

/// The processor's caches are not modelled.
pub(crate) mod memory {
    pub(crate) fn prefetch<T>(_: &T) {}
}

/// A value that is replaced as a whole, as `arc_swap`'s, with a lock.
pub(crate) struct ArcSwap<T>(Lock<Arc<T>>);

/// What [`ArcSwap::load`] returns.
pub(crate) type Guard<T> = T;

impl<T> ArcSwap<T> {
    pub(crate) fn from_pointee(value: T) -> Self {
        Self(Lock::new(Arc::new(value)))
    }

    pub(crate) fn load(&self) -> Arc<T> {
        self.0.lock().clone()
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        self.load()
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        *self.0.lock() = value;
    }
}

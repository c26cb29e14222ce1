//! A router's time.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use crate::time::Timestamp;

/// A clock: the machine's, or a virtual one that moves only on request.
#[derive(Debug)]
pub enum Clock {
    /// Wall-clock time at the start plus monotonic time since: it never jumps back.
    Real {
        /// Wall-clock time at the start.
        origin: Timestamp,
        /// The start.
        start: Instant,
    },
    /// Virtual time in nanoseconds since the epoch (`--simtime`).
    Virtual(AtomicI64),
}

impl Clock {
    /// Where virtual time starts, as in Click: 1,000,000,000 s after the epoch.
    pub const VIRTUAL_START: Timestamp = Timestamp::from_nanos(1_000_000_000_000_000_000);

    /// The machine's clock.
    pub fn real() -> Self {
        Self::Real { origin: Timestamp::now(), start: Instant::now() }
    }

    /// A virtual clock at its start.
    pub fn virtual_() -> Self {
        Self::Virtual(AtomicI64::new(Self::VIRTUAL_START.as_nanos()))
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Real { origin, start } => {
                let elapsed = i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
                Timestamp::from_nanos(origin.as_nanos().saturating_add(elapsed))
            }
            Self::Virtual(nanos) => Timestamp::from_nanos(nanos.load(Relaxed)),
        }
    }

    /// True when time is virtual.
    pub fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    /// Moves virtual time forward to `to`. Has no effect on the machine's clock.
    pub fn advance(&self, to: Timestamp) {
        if let Self::Virtual(nanos) = self {
            nanos.fetch_max(to.as_nanos(), Relaxed);
        }
    }
}

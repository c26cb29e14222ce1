//! The clock of devices: real time, even if the packets' time is virtual.

use std::time::Instant;

/// Nanoseconds since its creation.
pub(super) struct DeviceClock(Instant);

impl DeviceClock {
    /// The current time.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Default for DeviceClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

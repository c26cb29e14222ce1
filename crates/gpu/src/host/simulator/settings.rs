//! What a simulated device is told.

use std::time::Duration;

/// How a simulated device behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the order of steps and rows, of pauses and poison.
    pub seed: u64,
    /// Each second step begins up to so much later.
    pub delay: Duration,
    /// Bytes of device memory.
    pub memory: u64,
    /// How long it cannot be opened after it was lost.
    pub down: Duration,
    /// How long a lane that was dropped may have work under way before the device counts as lost.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            delay: Duration::from_micros(20),
            memory: 1 << 30,
            down: Duration::from_millis(20),
            patience: Duration::from_millis(100),
        }
    }
}

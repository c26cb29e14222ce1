//! Settings of a simulated device.

use std::time::Duration;

/// How a simulated device behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed for the order of steps and rows, for pauses and for poison.
    pub seed: u64,
    /// Every second step is delayed by up to this time.
    pub delay: Duration,
    /// Bytes of device memory.
    pub memory: u64,
    /// The time during which it cannot be opened after it was lost.
    pub down: Duration,
    /// If work of a dropped lane takes longer than this, the device counts as lost.
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

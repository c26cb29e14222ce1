//! The settings of a section: sizes, times, path.

use std::time::Duration;

use super::balance::{PERIOD, PROBE};
use super::path::Mode;

/// Sizes and times of a section.
///
/// # Memory
///
/// A lane holds at most `(length + 1) * packets` packets with at most `bytes` bytes of data. They are in at most
/// `length * (1 + packets / 16)` batches, each of which takes some 3 KiB besides its packets. A lane uses `slots *
/// slot_bytes` bytes of the device's host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The number of packets at which a batch ends, or the plan's capacity if that is less.
    pub packets: usize,
    /// The age at which a batch ends that is not full.
    pub timeout: Duration,
    /// Maximum number of a lane's batches in flight on the device.
    pub slots: usize,
    /// The number of full batches whose packets may wait to be delivered, on either path.
    pub length: usize,
    /// Maximum number of bytes of packet data in a lane.
    pub bytes: usize,
    /// If the device takes longer than this for a batch, the batch counts as failed. It is also the maximum time
    /// during which batches are given to the device with an outdated table.
    pub patience: Duration,
    /// Which path batches take at the start.
    pub mode: Mode,
    /// How often the balancer compares the two paths.
    pub interval: Duration,
    /// The maximum fraction of packets that takes the more expensive path for comparison.
    pub probe: f64,
    /// True if slow work on the device (opening, loading tables) is done on the calling thread. It is needed for
    /// virtual time, in which no other thread may act.
    pub inline: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            packets: usize::MAX,
            timeout: Duration::from_micros(50),
            slots: 6,
            length: 12,
            bytes: 64 << 20,
            patience: Duration::from_millis(100),
            mode: Mode::Adaptive,
            interval: Duration::from_nanos(PERIOD),
            probe: PROBE,
            inline: false,
        }
    }
}

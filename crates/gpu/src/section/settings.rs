//! What a section is told: sizes, times, which path.

use std::time::Duration;

use super::balance::{PERIOD, PROBE};
use super::path::Mode;

/// Sizes and times of a section.
///
/// # Memory
/// A lane holds at most `(length + 1) * packets` packets with at most `bytes` bytes of data, in at most
/// `length * (1 + packets / 16)` batches with some 3 KiB beside their packets each, and of the device's host memory
/// `slots * slot_bytes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Packets at which a batch ends; the plan's capacity if that is less.
    pub packets: usize,
    /// Age at which a batch ends that is not full.
    pub timeout: Duration,
    /// Batches that a lane may have under way on the device.
    pub slots: usize,
    /// As many packets as this many full batches have may wait to be delivered, of either path.
    pub length: usize,
    /// Most bytes of packet data that a lane holds.
    pub bytes: usize,
    /// How long the device may take for a batch before it counts as failed; also how long batches are
    /// given to the device with a table that is no more the newest one.
    pub patience: Duration,
    /// Which path batches take at first.
    pub mode: Mode,
    /// How often the balancer compares the two ways.
    pub interval: Duration,
    /// The part of packets that goes the dearer way for it, at most.
    pub probe: f64,
    /// Whether slow work on the device (opening, loading tables) is done on the thread that asks for it: for virtual
    /// time, in which nothing may happen on the side.
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

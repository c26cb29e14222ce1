//! The counts of a router at one moment.

use std::time::{Duration, Instant};

use millrace_core::memory::copies::{self, Copies};
use millrace_core::stats::ElementStats;
use millrace_core::{Router, Timestamp};

use super::devices::{DeviceFigures, Ledger};

/// The counts at one moment. Reading them stops no thread.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Time since the start of the run, by the machine's clock.
    pub(crate) elapsed: Duration,
    /// Time since the start of the run, by the router's clock, if that is virtual.
    pub(crate) virtual_time: Option<Duration>,
    /// The counts of each element, in the order of the configuration.
    pub(crate) elements: Vec<ElementStats>,
    /// The number of bytes of each element that has a `byte_count`.
    pub(crate) bytes: Vec<Option<u64>>,
    /// The traffic of each device.
    pub(crate) devices: Vec<DeviceFigures>,
    /// Packets whose data was copied since the start.
    pub(crate) copies: Copies,
}

/// The sums over all elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Packets created by elements or received by devices.
    pub(crate) entered: u64,
    /// Packets sent by devices or written to files.
    pub(crate) left: u64,
    /// Packets dropped.
    pub(crate) dropped: u64,
    /// Packets in the router now.
    pub(crate) held: u64,
}

impl Totals {
    /// True when every packet is accounted for.
    pub(crate) fn balanced(&self) -> bool {
        self.entered == self.left + self.dropped + self.held
    }
}

/// The moment at which counting begins.
pub(crate) struct Origin {
    start: Instant,
    clock: Timestamp,
    copies: Copies,
}

impl Origin {
    /// Begins to count now.
    pub(crate) fn new(router: &Router) -> Self {
        let clock = router.clock().now();
        Self { start: Instant::now(), clock, copies: copies::snapshot() }
    }
}

impl Figures {
    /// Reads the counts of this moment.
    pub(crate) fn take(router: &Router, ledger: &Ledger, origin: &Origin) -> Self {
        Self {
            elapsed: origin.start.elapsed(),
            virtual_time: router
                .clock()
                .is_virtual()
                .then(|| (router.clock().now() - origin.clock).to_duration()),
            elements: (0..router.len()).map(|id| router.stats_of(id)).collect(),
            bytes: (0..router.len()).map(|id| byte_count(router, id)).collect(),
            devices: ledger.figures(),
            copies: copies::snapshot().since(&origin.copies),
        }
    }

    /// The sums over all elements.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for element in &self.elements {
            totals.entered += element.created;
            totals.left += element.consumed;
            totals.dropped += element.dropped();
            totals.held += element.held;
        }
        totals
    }
}

/// Packets that an element received: from its inputs or from a device, or created itself.
pub(crate) fn packets_in(stats: &ElementStats) -> u64 {
    stats.received + stats.created
}

/// Packets that an element sent: to its outputs, to a device or to a file.
pub(crate) fn packets_out(stats: &ElementStats) -> u64 {
    stats.sent + stats.consumed
}

/// The mean number of packets that an element receives at a time.
pub(crate) fn mean_batch(stats: &ElementStats) -> Option<f64> {
    (stats.batches > 0).then(|| stats.received as f64 / stats.batches as f64)
}

/// The mean number of cycles per packet in an element; `None` if no measured round ran the element.
pub(crate) fn cycles_per_packet(stats: &ElementStats) -> Option<f64> {
    let packets = packets_in(stats).max(packets_out(stats));
    (packets > 0 && stats.cycles > 0).then(|| stats.cycles as f64 / packets as f64)
}

fn byte_count(router: &Router, id: usize) -> Option<u64> {
    let text = router.read_of(id, "byte_count", b"").ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}

//! A queue's counters, which any thread can read, without the queue, and also after it is closed.

use std::fmt;

use millrace_core::{Count, Lock, Packet};

/// The counters of a queue. The thread that uses the queue writes them with plain stores; reading them stops
/// no thread.
///
/// ```
/// use millrace_io::Meter;
/// let meter = Meter::default();
/// meter.count(32, 2048);
/// meter.lost(1);
/// assert_eq!((meter.packets(), meter.bytes(), meter.batches()), (32, 2048, 1));
/// assert_eq!(meter.counts().lost, 1);
/// ```
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Meter {
    packets: Count,
    bytes: Count,
    batches: Count,
    lost: Count,
    segmented: Count,
    device: Lock<Device>,
}

/// Counts of a queue itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that the device lost because they were not received in time.
    pub lost: u64,
    /// Packets that were cut into segments because they were larger than the device accepts.
    pub segmented: u64,
}

impl std::ops::Add for QueueCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { lost: self.lost + other.lost, segmented: self.segmented + other.segmented }
    }
}

/// The number of packets that the device reports as lost.
#[derive(Default)]
struct Device {
    ask: Option<Ask>,
    /// The total of devices that are closed.
    before: u64,
}

/// Asks a device how many packets it has lost since it was opened; `None` when it no longer answers.
pub type Ask = Box<dyn FnMut() -> Option<u64> + Send>;

/// For the queue, on its thread.
impl Meter {
    /// Counts packets that have passed, in one batch.
    #[inline(always)]
    pub fn count(&self, packets: usize, bytes: usize) {
        if packets > 0 {
            self.packets.add(packets as u64);
            self.bytes.add(bytes as u64);
            self.batches.add(1);
        }
    }

    /// Like [`count`](Self::count), from the packets themselves.
    #[inline]
    pub fn count_all(&self, packets: &[Packet]) {
        self.count(packets.len(), packets.iter().map(Packet::len).sum());
    }

    /// Counts lost packets.
    #[inline]
    pub fn lost(&self, packets: u64) {
        if packets > 0 {
            self.lost.add(packets);
        }
    }

    /// Counts a packet that was cut into segments.
    #[inline]
    pub fn segmented(&self) {
        self.segmented.add(1);
    }

    /// Records that a device was opened which counts its losses itself. It replaces the previous one, which
    /// must still exist.
    pub fn opened(&self, ask: Ask) {
        let mut device = self.device.lock();
        device.close();
        device.ask = Some(ask);
    }

    /// Records that the device, which must still exist, will be closed.
    pub fn closes(&self) {
        self.device.lock().close();
    }
}

/// For all threads.
impl Meter {
    /// Packets that have passed.
    pub fn packets(&self) -> u64 {
        self.packets.get()
    }

    /// Their bytes, including Ethernet headers.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// The number of batches in which they passed.
    pub fn batches(&self) -> u64 {
        self.batches.get()
    }

    /// Further counts of the queue and its device.
    pub fn counts(&self) -> QueueCounts {
        let lost = self.lost.get() + self.device.lock().lost();
        QueueCounts { lost, segmented: self.segmented.get() }
    }
}

impl Device {
    fn lost(&mut self) -> u64 {
        self.before + self.ask.as_mut().and_then(|ask| ask()).unwrap_or(0)
    }

    fn close(&mut self) {
        self.before = self.lost();
        self.ask = None;
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("before", &self.before).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_devices_lost_is_known_when_they_are_closed() {
        let meter = Meter::default();
        let mut said = 0;
        meter.opened(Box::new(move || {
            said += 2;
            Some(said)
        }));
        meter.lost(1);
        assert_eq!(meter.counts().lost, 3);
        // The device of another opening begins to count again.
        meter.opened(Box::new(|| Some(10)));
        assert_eq!(meter.counts().lost, 15);
        meter.closes();
        assert_eq!(meter.counts().lost, 15);
        meter.segmented();
        assert_eq!(meter.counts(), QueueCounts { lost: 15, segmented: 1 });
    }
}

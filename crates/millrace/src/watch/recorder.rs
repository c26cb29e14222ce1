//! Records packets on the threads that forward them.

use millrace_core::observe::{Loss, Observer, Passage};
use millrace_core::{Count, Packet};
use zerocopy::FromZeros;

use super::filter::Filter;
use super::link::link_of;
use super::record::Head;
use super::ring::Ring;
use super::wish::{Stopped, Wish};

/// Copies packets that a filter selects to a ring of each thread. It waits for nobody: a packet that finds no room is
/// counted as missed.
pub(super) struct Recorder {
    filter: Filter,
    snap_len: usize,
    link_headers: bool,
    threads: Vec<OfThread>,
}

/// What one thread records.
struct OfThread {
    ring: Ring<Head>,
    matched: Count,
    missed: Count,
    unseen: Count,
}

/// Bytes of a ring, unless it is wished otherwise.
const RING: usize = 4 << 20;
const SMALLEST_RING: usize = 1 << 14;
const LARGEST_RING: usize = 256 << 20;

impl Recorder {
    pub(super) fn new(filter: Filter, wish: &Wish, threads: usize) -> Self {
        let size = if wish.ring == 0 { RING } else { wish.ring };
        let of_thread = |_| {
            let size = size.clamp(SMALLEST_RING, LARGEST_RING);
            let ring = Ring::new(size, |head: &Head| head.captured as usize);
            let [matched, missed, unseen] = std::array::from_fn(|_| Count::default());
            OfThread { ring, matched, missed, unseen }
        };
        let snap_len = if wish.snap_len == 0 { usize::MAX } else { wish.snap_len as usize };
        let threads = (0..threads).map(of_thread).collect();
        Self { filter, snap_len, link_headers: wish.link_headers, threads }
    }

    pub(super) fn counts(&self) -> Stopped {
        let sum = |of: fn(&OfThread) -> &Count| self.threads.iter().map(|one| of(one).get()).sum();
        Stopped {
            matched: sum(|thread| &thread.matched),
            missed: sum(|thread| &thread.missed),
            unseen: sum(|thread| &thread.unseen),
        }
    }

    /// The packets that wait, up to about so many bytes of a thread, in the order of their times.
    pub(super) fn take(&self, most: usize) -> Vec<(Head, Vec<u8>)> {
        let mut taken = Vec::new();
        for thread in &self.threads {
            thread.ring.take(most, |head, data| taken.push((head, data)));
        }
        // Those of one thread stay in their order.
        taken.sort_by_key(|(head, _)| head.time);
        taken
    }

    fn record(&self, head: Head, packet: &Packet) {
        let Some(thread) = self.threads.get(head.thread as usize) else { return };
        if !self.filter.takes(packet) {
            return;
        }
        thread.matched.add(1);
        let mut link = link_of(packet);
        let mut data = packet.data();
        // A header in the headroom is what it was unless somebody has used the room since.
        let stripped = packet.mac_header().filter(|&at| at < 0 && self.link_headers);
        if let Some(whole) = stripped.and_then(|at| packet.data_from(at.unsigned_abs())) {
            (data, link) = (whole, millrace_io::pcap::LinkType::ETHER);
        }
        let captured = data.len().min(self.snap_len);
        let head = Head {
            length: data.len() as u32,
            captured: captured as u32,
            link: link.0,
            annotations: *packet.annotations(),
            ..head
        };
        if !thread.ring.put(&head, data.get(..captured).unwrap_or_default()) {
            thread.missed.add(1);
        }
    }
}

impl Observer for Recorder {
    fn passes(&self, at: &Passage, packet: &Packet) {
        let head = Head {
            time: at.now.as_nanos(),
            place: at.connection as u32,
            batch: at.batch as u32,
            thread: at.thread as u32,
            ..Head::new_zeroed()
        };
        self.record(head, packet);
    }

    fn drops(&self, at: &Loss, packet: &Packet) {
        let head = Head {
            time: at.now.as_nanos(),
            place: at.element as u32,
            reason: at.reason as u32,
            thread: at.thread as u32,
            ..Head::new_zeroed()
        };
        self.record(head, packet);
    }

    fn drops_unseen(&self, at: &Loss, count: usize) {
        if let Some(thread) = self.threads.get(at.thread) {
            thread.unseen.add(count as u64);
        }
    }
}

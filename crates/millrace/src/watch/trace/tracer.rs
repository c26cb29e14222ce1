//! Follows single packets on the threads that forward them.

use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};

use millrace_core::graph::Link;
use millrace_core::memory::annotations::ANNOTATION_LEN;
use millrace_core::observe::{Begin, Loss, Observer, Passage};
use millrace_core::{Count, Packet};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::super::filter::Filter;
use super::super::link::link_of;
use super::super::ring::Ring;

/// One look at a packet; its first bytes follow.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Look {
    /// Looks of all threads are in this order.
    pub(super) order: u64,
    pub(super) time: i64,
    pub(super) cycles: u64,
    /// The trace, the packet in it, and the packet that an element made this one of.
    pub(super) trace: u32,
    pub(super) packet: u32,
    pub(super) parent: u32,
    /// The connection, or the element that drops it.
    pub(super) place: u32,
    /// 0 for a drop.
    pub(super) batch: u32,
    pub(super) reason: u32,
    pub(super) thread: u32,
    pub(super) length: u32,
    pub(super) captured: u32,
    pub(super) link: u32,
    pub(super) annotations: [u8; ANNOTATION_LEN],
}

/// No packet.
pub(super) const NONE: u32 = u32::MAX;

/// Packets that are followed at a time; the one that was seen least recently makes room for another.
const FOLLOWED: usize = 64;

/// Bytes of each packet.
const BYTES: usize = 256;

const RING: usize = 1 << 20;

impl OfThread {
    fn process(&self, element: usize, followed: Option<usize>, was_pulled: bool) {
        self.at.store(element, Relaxed);
        self.was_pulled.store(was_pulled, Relaxed);
        self.current.store(followed.unwrap_or(usize::MAX), Relaxed);
    }
}

/// Follows packets that a filter selects, where they begin.
pub(super) struct Tracer {
    filter: Filter,
    /// Where a packet may begin to be followed, by connection.
    starts: Vec<bool>,
    links: Vec<Link>,
    /// Whether packets are pulled, by connection.
    pulled: Vec<bool>,
    /// Elements without outputs, where packets end.
    sinks: Vec<bool>,
    /// One in so many is followed, and how many more are.
    every: u64,
    matched: AtomicU64,
    left: AtomicI64,
    order: AtomicU64,
    traces: AtomicU32,
    packets: AtomicU32,
    followed: [Followed; FOLLOWED],
    threads: Vec<OfThread>,
}

/// A packet that is followed; each belongs to one thread at a time, which alone writes.
#[derive(Default)]
struct Followed {
    /// [`Packet::identity`]; 0 for nobody.
    identity: AtomicUsize,
    /// The element that it has come to.
    element: AtomicUsize,
    trace: AtomicU32,
    packet: AtomicU32,
    seen: AtomicU64,
}

struct OfThread {
    ring: Ring<Look>,
    missed: Count,
    /// The packet that is being processed, by its place in `followed`, and the element that does: what leaves that element
    /// now was made of it. `usize::MAX` for none.
    current: AtomicUsize,
    at: AtomicUsize,
    /// Whether the packet was pulled. What is pulled from an element is not made of what was pushed to it: that is a queue.
    was_pulled: AtomicBool,
    /// A packet that has come to its end unless the next event is its drop.
    ending: AtomicUsize,
}

impl Tracer {
    pub(super) fn new(
        filter: Filter,
        starts: Vec<bool>,
        (links, pulled): (Vec<Link>, Vec<bool>),
        sinks: Vec<bool>,
        (every, count): (u64, u64),
        threads: usize,
    ) -> Self {
        let of_thread = |_| OfThread {
            ring: Ring::new(RING, |look: &Look| look.captured as usize),
            missed: Count::default(),
            current: usize::MAX.into(),
            at: 0.into(),
            was_pulled: false.into(),
            ending: usize::MAX.into(),
        };
        Self {
            filter,
            starts,
            links,
            pulled,
            sinks,
            every: every.max(1),
            matched: 0.into(),
            left: i64::try_from(count).unwrap_or(i64::MAX).into(),
            order: 0.into(),
            traces: 0.into(),
            packets: 0.into(),
            followed: std::array::from_fn(|_| Followed::default()),
            threads: (0..threads).map(of_thread).collect(),
        }
    }

    /// The looks since the last time, in their order.
    pub(super) fn take(&self) -> Vec<(Look, Vec<u8>)> {
        let mut taken = Vec::new();
        for thread in &self.threads {
            thread.ring.take(usize::MAX, |look, data| taken.push((look, data)));
        }
        taken.sort_by_key(|(look, _)| look.order);
        taken
    }

    /// Looks that found no room.
    pub(super) fn missed(&self) -> u64 {
        self.threads.iter().map(|thread| thread.missed.get()).sum()
    }

    /// The place of a packet among those that are followed, if it is at this element.
    fn find(&self, identity: usize, element: usize) -> Option<usize> {
        let at = self.followed.iter().position(|one| one.identity.load(Relaxed) == identity)?;
        let one = &self.followed[at];
        if one.element.load(Relaxed) == element {
            return Some(at);
        }
        // The packet has ended without a word, and another one has its memory.
        one.identity.store(0, Relaxed);
        None
    }

    /// Follows a packet: of a trace that there is, or a new one.
    fn follow(&self, identity: usize, trace: u32) -> usize {
        let oldest = |(_, one): &(usize, &Followed)| match one.identity.load(Relaxed) {
            0 => 0,
            _ => one.seen.load(Relaxed) + 1,
        };
        let at = self.followed.iter().enumerate().min_by_key(oldest).map_or(0, |(at, _)| at);
        let one = &self.followed[at];
        one.trace.store(trace, Relaxed);
        one.packet.store(self.packets.fetch_add(1, Relaxed), Relaxed);
        one.identity.store(identity, Relaxed);
        at
    }

    /// Whether a packet that begins here is followed.
    fn selects(&self, connection: usize, packet: &Packet) -> bool {
        self.starts.get(connection) == Some(&true)
            && self.left.load(Relaxed) > 0
            && self.filter.takes(packet)
            && self.matched.fetch_add(1, Relaxed).is_multiple_of(self.every)
            && self.left.fetch_sub(1, Relaxed) > 0
    }

    /// A packet is seen as it leaves `element`. Returns its place and the packet that it was made of, if it is followed.
    fn meet(
        &self,
        thread: &OfThread,
        (element, is_pulled): (usize, bool),
        packet: &Packet,
    ) -> Option<(usize, u32)> {
        let identity = packet.identity();
        if let Some(at) = self.find(identity, element) {
            return Some((at, NONE));
        }
        // What leaves an element while that has a packet that is followed was made of that packet.
        let makes =
            thread.at.load(Relaxed) == element && (!is_pulled || thread.was_pulled.load(Relaxed));
        let parent = self.followed.get(thread.current.load(Relaxed)).filter(|_| makes)?;
        let (trace, parent) = (parent.trace.load(Relaxed), parent.packet.load(Relaxed));
        Some((self.follow(identity, trace), parent))
    }

    fn note(&self, thread: &OfThread, (at, parent): (usize, u32), look: Look, packet: &Packet) {
        let one = &self.followed[at];
        let data = packet.data();
        let captured = data.len().min(BYTES);
        let look = Look {
            order: self.order.fetch_add(1, SeqCst),
            trace: one.trace.load(Relaxed),
            packet: one.packet.load(Relaxed),
            parent,
            length: data.len() as u32,
            captured: captured as u32,
            link: link_of(packet).0,
            annotations: *packet.annotations(),
            ..look
        };
        one.seen.store(look.order, Relaxed);
        if !thread.ring.put(&look, data.get(..captured).unwrap_or_default()) {
            thread.missed.add(1);
        }
    }

    /// A packet that came to an element without outputs has ended there.
    fn settle(&self, thread: &OfThread) {
        let ending = thread.ending.swap(usize::MAX, Relaxed);
        if let Some(one) = self.followed.get(ending) {
            one.identity.store(0, Relaxed);
        }
    }
}

impl Observer for Tracer {
    fn passes(&self, at: &Passage, packet: &Packet) {
        let Some(thread) = self.threads.get(at.thread) else { return };
        let Some(&((from, _), (to, _))) = self.links.get(at.connection) else { return };
        self.settle(thread);
        let is_pulled = self.pulled.get(at.connection) == Some(&true);
        let met = self.meet(thread, (from, is_pulled), packet).or_else(|| {
            self.selects(at.connection, packet).then(|| {
                let trace = self.traces.fetch_add(1, Relaxed);
                (self.follow(packet.identity(), trace), NONE)
            })
        });
        let Some(met) = met else {
            if is_pulled {
                thread.process(to, None, true);
            }
            return;
        };
        let look = Look {
            time: at.now.as_nanos(),
            cycles: at.cycles,
            place: at.connection as u32,
            batch: at.batch as u32,
            thread: at.thread as u32,
            ..Look::new_zeroed()
        };
        self.note(thread, met, look, packet);
        self.followed[met.0].element.store(to, Relaxed);
        if is_pulled {
            thread.process(to, Some(met.0), true);
        }
        if self.sinks.get(to) == Some(&true) {
            thread.ending.store(met.0, Relaxed);
        }
    }

    fn begins(&self, at: &Begin, packet: &Packet) {
        if let Some(thread) = self.threads.get(at.thread) {
            let followed =
                |at: &usize| self.followed[*at].identity.load(Relaxed) == packet.identity();
            thread.process(at.element, (0..FOLLOWED).find(followed), false);
        }
    }

    fn drops(&self, at: &Loss, packet: &Packet) {
        let Some(thread) = self.threads.get(at.thread) else { return };
        let met = self.meet(thread, (at.element, false), packet);
        if let Some(met) = met {
            let look = Look {
                time: at.now.as_nanos(),
                cycles: at.cycles,
                place: at.element as u32,
                reason: at.reason as u32,
                thread: at.thread as u32,
                ..Look::new_zeroed()
            };
            self.note(thread, met, look, packet);
            self.followed[met.0].identity.store(0, Relaxed);
        }
        self.settle(thread);
    }
}

//! The express socket, which delivers lone packets next to a ring.
//!
//! A ring delivers packets by the block: at once when many arrive, up to a millisecond late when one arrives
//! alone. A plain socket delivers each packet at once, for many times the work. So while few packets arrive
//! ([`Pace`]), there is also a plain socket, the express socket. Each packet then arrives on both, and the
//! copy that is seen first is passed on ([`Expected`]). While many arrive there is only the ring, at its
//! usual cost.
//!
//! # Order
//! The kernel handles the packets of a flow one after the other, so each of the two delivers them in order.
//! The express socket is read only some time after it was opened, when the ring has been read to its end:
//! from then on, all packets that are only in the ring have been passed on. Packets that arrive while the
//! express socket is being closed, or find no room in it, are taken from the ring.
//!
//! The kernel could put each packet into only one of the two sockets (PACKET_FANOUT with a program that we
//! switch), but that costs it 100 ns per packet of about 1,600 in all, also while many arrive.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::messages::Inbox;
use super::rx_ring::{Load, RxRing};
use super::socket::PacketSocket;

/// The express socket of a ring, while there is one.
pub(super) struct Express {
    pub(super) inbox: Inbox,
    way: Way,
    /// Frames that have been passed on, and whose copy is still to come through the ring.
    by_ring: Expected,
    /// The same, through the express socket.
    by_messages: Expected,
    pace: Pace,
}

/// The state of an express socket.
enum Way {
    Closed,
    /// The ring may have packets that arrived before it was opened.
    Opened(PacketSocket, Instant),
    Open(PacketSocket),
    /// It cannot be opened.
    Refused,
}

/// What to do about the express socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Few packets arrive: open it.
    Open,
    /// It may be read, and slept on.
    Use,
    /// Many packets arrive: close it.
    Close,
    /// Nothing before the next interval.
    Wait,
}

/// The maximum number of packets before the express socket may be read.
const MOST_EXPECTED: usize = 512;
/// How long the express socket is open before it is read: by then the kernel has handed over the ring's
/// block, unless it is late.
pub(super) const SETTLED: Duration = Duration::from_millis(20);
/// How long to wait for a missing copy: no copy that arrived has ever been this late.
const LATE: Duration = Duration::from_secs(1);

impl Express {
    pub(super) fn new() -> Self {
        Self {
            inbox: Inbox::new(),
            way: Way::Closed,
            by_ring: Expected::default(),
            by_messages: Expected::default(),
            pace: Pace::new(Instant::now()),
        }
    }

    /// Begins with a socket, or without one if it could not be opened.
    pub(super) fn begin(&mut self, socket: Option<PacketSocket>) {
        self.way = socket.map_or(Way::Refused, |socket| Way::Opened(socket, Instant::now()));
    }

    /// Closes the socket. The kernel needs some milliseconds for that; nothing waits for it.
    pub(super) fn close(&mut self, ring: &RxRing) {
        self.by_messages = Expected::default();
        self.pace.begin(ring.taken(), Instant::now());
        if let Way::Opened(socket, _) | Way::Open(socket) =
            std::mem::replace(&mut self.way, Way::Closed)
        {
            let closer = std::thread::Builder::new().name("millrace-close".to_owned());
            // Without a thread, it is closed here.
            let _ = closer.spawn(move || drop(socket));
        }
    }

    /// The source of messages, while they may be read.
    pub(super) fn messages(&mut self) -> Option<(&PacketSocket, &mut Inbox, Copies<'_>)> {
        let Way::Open(socket) = &self.way else { return None };
        let copies = Copies { seen: &mut self.by_messages, unseen: Some(&mut self.by_ring) };
        Some((socket, &mut self.inbox, copies))
    }

    /// The socket, while it may be read.
    pub(super) fn socket(&self) -> Option<&PacketSocket> {
        match &self.way {
            Way::Open(socket) => Some(socket),
            _ => None,
        }
    }

    /// Whether frames have been passed on whose copies are still to come through the ring.
    #[cfg(test)]
    pub(super) fn expects_by_ring(&self) -> bool {
        !self.by_ring.is_empty()
    }

    /// For frames of the ring; `None` while they have no copies.
    pub(super) fn copies(&mut self) -> Option<Copies<'_>> {
        let is_alone = matches!(self.way, Way::Closed | Way::Refused);
        if is_alone && self.by_ring.is_empty() {
            return None;
        }
        let unseen = (!is_alone).then_some(&mut self.by_messages);
        Some(Copies { seen: &mut self.by_ring, unseen })
    }

    /// Called after messages have been read, to the end or not. Returns what to do now.
    pub(super) fn came(&mut self, load: Load, is_end: bool) -> Step {
        if load.frames == 0 && self.by_messages.is_empty() {
            return Step::Nothing;
        }
        let now = Instant::now();
        if is_end {
            self.by_messages.forget(now);
        }
        if self.pace.is_high(load, now) { Step::Close } else { Step::Nothing }
    }

    /// What to do when a block of the ring has been read or there was none.
    pub(super) fn consider(&mut self, socket: &PacketSocket, ring: &mut RxRing) -> Step {
        if matches!(self.way, Way::Open(_) | Way::Refused) && self.by_ring.is_empty() {
            return Step::Nothing;
        }
        let now = Instant::now();
        if self.by_ring.is_late(now) && has_all(socket, ring) {
            self.by_ring.forget(now);
        }
        match &self.way {
            Way::Open(_) | Way::Refused => Step::Nothing,
            Way::Opened(_, since)
                if now.saturating_duration_since(*since) > SETTLED && has_all(socket, ring) =>
            {
                if let Way::Opened(socket, _) = std::mem::replace(&mut self.way, Way::Refused) {
                    self.way = Way::Open(socket);
                }
                self.pace.begin(Load::default(), now);
                Step::Use
            }
            Way::Opened(..) if self.by_messages.len() > MOST_EXPECTED => Step::Close,
            Way::Opened(..) => Step::Nothing,
            Way::Closed => match self.pace.is_low(ring.taken(), now) {
                Some(true) => Step::Open,
                Some(false) => Step::Wait,
                None => Step::Nothing,
            },
        }
    }
}

/// Whether everything that the kernel has put into a ring has been read, including its open block.
fn has_all(socket: &PacketSocket, ring: &mut RxRing) -> bool {
    // Where it does not tell, it has been time enough. A frame whose offload it has no words for it does not
    // count, but leaves its place in the block.
    let received = socket.counted().map_or(0, |counted| counted.received);
    ring.is_empty() && received <= ring.taken().frames
}

/// Which frames of one source have been seen on the other one.
pub(super) struct Copies<'a> {
    seen: &'a mut Expected,
    /// Where to record those that have not; `None` if they have no copies.
    unseen: Option<&'a mut Expected>,
}

impl Copies<'_> {
    /// Whether this frame has been passed on, as its copy.
    pub(super) fn has_seen(&mut self, id: Id) -> bool {
        if self.seen.take(id) {
            return true;
        }
        if let Some(unseen) = &mut self.unseen {
            unseen.expect(id, Instant::now());
        }
        false
    }
}

/// Identifies a frame among those of other flows: its length, and a hash of its first bytes. Frames of one
/// flow may be equal, because they arrive in the same order from both sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u64);

/// Bytes that are hashed: headers and more.
pub(super) const PREFIX: usize = 256;

impl Id {
    pub(super) fn of(bytes: &[u8], length: usize) -> Self {
        /// 2^64 divided by the golden ratio.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let bytes = bytes.get(..PREFIX).unwrap_or(bytes);
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
        let (words, rest) = bytes.as_chunks();
        let hash =
            words.iter().fold(length as u64, |hash, word| mix(hash, u64::from_ne_bytes(*word)));
        Self(rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte))))
    }
}

/// Frames whose copy is still to come, in the expected order, with the time since when.
#[derive(Default)]
struct Expected(VecDeque<(Id, Instant)>);

impl Expected {
    fn expect(&mut self, id: Id, now: Instant) {
        self.0.push_back((id, now));
    }

    /// Whether a frame is such a copy. It is then removed.
    fn take(&mut self, id: Id) -> bool {
        // On several cores the kernel may mix flows in different ways.
        let place = self.0.iter().position(|(expected, _)| *expected == id);
        place.and_then(|place| self.0.remove(place)).is_some()
    }

    /// Forgets those that are late: all copies that exist have been seen.
    fn forget(&mut self, now: Instant) {
        while self.is_late(now) {
            self.0.pop_front();
        }
    }

    /// Whether the first one is late.
    fn is_late(&self, now: Instant) -> bool {
        self.0.front().is_some_and(|(_, since)| now.saturating_duration_since(*since) > LATE)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// The recent rate of frames.
#[derive(Debug)]
struct Pace {
    /// Since when.
    since: Instant,
    /// While there is an express socket: what it has delivered since then. Otherwise: what the ring had
    /// delivered before.
    load: Load,
}

/// This many within a millisecond count as many: to receive 32,000 a second twice, through messages, costs a
/// twentieth of a core.
const MANY: Load = Load { frames: 32, bytes: 128 << 10 };
/// This many per millisecond count as few again.
const FEW: Load = Load { frames: 8, bytes: 32 << 10 };
const MILLISECOND: Duration = Duration::from_millis(1);
/// How long few frames must have arrived before there is an express socket.
pub(super) const INTERVAL: Duration = Duration::from_millis(20);

impl Pace {
    fn new(now: Instant) -> Self {
        Self { since: now, load: Load::default() }
    }

    fn begin(&mut self, before: Load, now: Instant) {
        *self = Self { since: now, load: before };
    }

    /// Counts frames that arrived through the express socket; returns whether they are many by now.
    fn is_high(&mut self, more: Load, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) > MILLISECOND {
            self.begin(Load::default(), now);
        }
        self.load.frames += more.frames;
        self.load.bytes += more.bytes;
        self.load.frames >= MANY.frames || self.load.bytes >= MANY.bytes
    }

    /// Given the total of frames that arrived through the ring, returns whether they are few lately; `None`
    /// before an interval has passed.
    fn is_low(&mut self, total: Load, now: Instant) -> Option<bool> {
        let passed = now.saturating_duration_since(self.since);
        if passed < INTERVAL {
            return None;
        }
        let limit = |few: u64| few.saturating_mul(passed.as_millis() as u64);
        let is_low = total.frames.wrapping_sub(self.load.frames) < limit(FEW.frames)
            && total.bytes.wrapping_sub(self.load.bytes) < limit(FEW.bytes);
        self.begin(total, now);
        Some(is_low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(frames: u64) -> Load {
        Load { frames, bytes: frames * 60 }
    }

    #[test]
    fn many_frames_or_bytes_within_a_millisecond_are_many() {
        let start = Instant::now();
        let after = |micros| start + Duration::from_micros(micros);
        let mut pace = Pace::new(start);
        assert!(!pace.is_high(frames(31), after(10)));
        assert!(pace.is_high(frames(1), after(900)));
        // As many over a longer time are not.
        let mut pace = Pace::new(start);
        assert!((0..100).all(|n| !pace.is_high(frames(1), after(n * 40))));
        let mut pace = Pace::new(start);
        let large = Load { frames: 1, bytes: 64 << 10 };
        assert_eq!((0..2).filter(|n| pace.is_high(large, after(n * 10))).count(), 1);
    }

    #[test]
    fn each_copy_is_expected_once() {
        let now = Instant::now();
        let [a, b] = [[7; 60], [8; 60]].map(|bytes| Id::of(&bytes, 60));
        assert_ne!(Id::of(&[7; 60], 61), a);
        let long = [9; 2000];
        assert_eq!(Id::of(&long, 2000), Id::of(&long[..PREFIX], 2000));
        let mut expected = Expected::default();
        for id in [a, b, a] {
            expected.expect(id, now);
        }
        assert_eq!([a, a, a, b].map(|id| expected.take(id)), [true, true, false, true]);
        expected.expect(a, now);
        expected.forget(now + LATE / 2);
        assert!(!expected.is_empty());
        expected.forget(now + LATE * 2);
        assert!(expected.is_empty());
    }

    #[test]
    fn few_frames_over_an_interval_are_few() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.begin(frames(1000), start);
        assert_eq!(pace.is_low(frames(1000), start + INTERVAL / 2), None);
        assert_eq!(pace.is_low(frames(1160), start + INTERVAL), Some(false));
        assert_eq!(pace.is_low(frames(1319), start + INTERVAL * 2), Some(true));
        // Later than at the interval, as many more may come.
        assert_eq!(pace.is_low(frames(1319 + 319), start + INTERVAL * 4), Some(true));
        let large = Load { frames: 1700, bytes: 3 << 20 };
        assert_eq!(pace.is_low(large, start + INTERVAL * 5), Some(false));
    }
}

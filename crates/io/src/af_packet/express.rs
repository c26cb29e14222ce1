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
//! The express socket is read only some time after it was opened, when everything has been read that the ring had got by
//! then: all packets that are only in the ring have been passed on. Packets that arrive while the
//! express socket is being closed, or find no room in it, are taken from the ring.
//!
//! # After a standstill
//! Few packets fill a block of the ring each, and few blocks make a ring: after some tens of milliseconds without us it
//! drops packets that the express socket still has room for. So what has collected there looks like many packets, but is
//! read to its end before the socket is closed, if the ring has dropped any.
//!
//! The kernel could put each packet into only one of the two sockets (PACKET_FANOUT with a program that we
//! switch), but that costs it 100 ns per packet of about 1,600 in all, also while many arrive.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
    /// What the ring had dropped when the express socket had no more than it.
    dropped: u64,
    /// What has been read since the socket was to be closed, although the ring lacks it.
    behind: u64,
    /// Frames that the ring has dropped, and the express socket has brought.
    rescued: Arc<AtomicU64>,
    /// When frames were late, and how many the ring had got by then.
    late: Option<(Instant, u64)>,
}

/// The state of an express socket.
enum Way {
    Closed,
    /// The ring may have packets that arrived before it was opened. When it has settled, everything that the ring has got
    /// by then is to be read first: so many frames.
    Opened(PacketSocket, Instant, Option<u64>),
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
            dropped: 0,
            behind: 0,
            rescued: Arc::default(),
            late: None,
        }
    }

    /// How many frames came through the express socket that the ring dropped.
    pub(super) fn rescued(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rescued)
    }

    /// Begins with a socket, or without one if it could not be opened.
    pub(super) fn begin(&mut self, socket: Option<PacketSocket>) {
        self.way = socket.map_or(Way::Refused, |socket| Way::Opened(socket, Instant::now(), None));
    }

    /// Closes the socket. The kernel needs some milliseconds for that; nothing waits for it.
    pub(super) fn close(&mut self, ring: &RxRing) {
        self.by_messages = Expected::default();
        self.pace.begin(ring.taken(), Instant::now());
        if let Way::Opened(socket, ..) | Way::Open(socket) =
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

    /// How many frames have been passed on before their copies came through the ring, and how many of the copies have
    /// come.
    #[cfg(test)]
    pub(super) fn came_first(&self) -> (u64, u64) {
        (self.by_ring.expected, self.by_ring.come)
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

    /// Called after messages have been read, to the end or not. `dropped` tells what the ring has dropped so far.
    /// Returns what to do now.
    pub(super) fn came(&mut self, load: Load, is_end: bool, dropped: impl FnOnce() -> u64) -> Step {
        /// As many as there are in a full socket, or more.
        const MOST_BEHIND: u64 = 1 << 16;
        if load.frames == 0 && self.by_messages.is_empty() {
            return Step::Nothing;
        }
        let now = Instant::now();
        if is_end {
            self.by_messages.forget(now);
        }
        let is_high = self.pace.is_high(load, now);
        if is_end {
            if self.behind > 0 {
                (self.dropped, self.behind) = (dropped(), 0);
            }
        } else if is_high && self.behind < MOST_BEHIND && dropped() > self.dropped {
            self.behind += load.frames.max(1);
            return Step::Nothing;
        }
        if is_high { Step::Close } else { Step::Nothing }
    }

    /// Forgets frames whose copies are late, once everything has been read that the ring had when they were: it has
    /// dropped these copies.
    fn forget_dropped(&mut self, socket: &PacketSocket, ring: &RxRing, now: Instant) {
        let (since, mark) = *self.late.get_or_insert_with(|| (now, received(socket)));
        if ring.passed() < mark {
            return;
        }
        self.late = None;
        let rescued = self.by_ring.forget(since);
        // What the ring lacks for other reasons is no drop of it.
        let most = dropped(socket).saturating_sub(self.rescued.load(Relaxed));
        self.rescued.fetch_add(rescued.min(most), Relaxed);
    }

    /// What to do when a block of the ring has been read or there was none.
    pub(super) fn consider(&mut self, socket: &PacketSocket, ring: &RxRing) -> Step {
        if matches!(self.way, Way::Open(_) | Way::Refused) && self.by_ring.is_empty() {
            return Step::Nothing;
        }
        let now = Instant::now();
        if self.by_ring.is_late(now) {
            self.forget_dropped(socket, ring, now);
        }
        let has_all = match &mut self.way {
            Way::Opened(_, since, mark) if now.saturating_duration_since(*since) > SETTLED => {
                ring.passed() >= *mark.get_or_insert_with(|| received(socket))
            }
            _ => false,
        };
        match &self.way {
            Way::Open(_) | Way::Refused => Step::Nothing,
            Way::Opened(..) if has_all => {
                if let Way::Opened(socket, ..) = std::mem::replace(&mut self.way, Way::Refused) {
                    self.way = Way::Open(socket);
                }
                self.pace.begin(Load::default(), now);
                (self.dropped, self.behind) = (dropped(socket), 0);
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

/// How many frames the kernel has put into the ring of a socket, those of its open block among them. A frame whose offload
/// it has no words for does not count, but leaves its place in the block. Where it does not tell, it has been time enough.
fn received(socket: &PacketSocket) -> u64 {
    socket.counted().map_or(0, |counted| counted.received)
}

/// How many frames the ring of a socket has dropped.
pub(super) fn dropped(socket: &PacketSocket) -> u64 {
    socket.counted().map_or(0, |counted| counted.dropped)
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
struct Expected {
    frames: VecDeque<(Id, Instant)>,
    /// How many there were.
    #[cfg(test)]
    expected: u64,
    /// How many of them have come.
    #[cfg(test)]
    come: u64,
}

impl Expected {
    fn expect(&mut self, id: Id, now: Instant) {
        self.frames.push_back((id, now));
        #[cfg(test)]
        {
            self.expected += 1;
        }
    }

    /// Whether a frame is such a copy. It is then removed.
    fn take(&mut self, id: Id) -> bool {
        // On several cores the kernel may mix flows in different ways.
        let place = self.frames.iter().position(|(expected, _)| *expected == id);
        let has_come = place.and_then(|place| self.frames.remove(place)).is_some();
        #[cfg(test)]
        {
            self.come += u64::from(has_come);
        }
        has_come
    }

    /// Forgets those that are late, and returns how many: all copies that exist have been seen.
    fn forget(&mut self, now: Instant) -> u64 {
        let before = self.frames.len();
        while self.is_late(now) {
            self.frames.pop_front();
        }
        (before - self.frames.len()) as u64
    }

    /// Whether the first one is late.
    fn is_late(&self, now: Instant) -> bool {
        self.frames.front().is_some_and(|(_, since)| now.saturating_duration_since(*since) > LATE)
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    fn len(&self) -> usize {
        self.frames.len()
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

/// This many within [`WINDOW`] count as many: to receive 32,000 a second twice, through messages, costs a
/// twentieth of a core. A shorter burst does not: the ring alone lasts for 64 ms without us, and the express socket for
/// ten times as long.
const MANY: Load = Load { frames: 320, bytes: 1280 << 10 };
const WINDOW: Duration = Duration::from_millis(10);
/// This many per millisecond count as few again.
const FEW: Load = Load { frames: 8, bytes: 32 << 10 };
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
        if now.saturating_duration_since(self.since) > WINDOW {
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
    fn many_frames_or_bytes_within_a_window_are_many() {
        let start = Instant::now();
        let after = |micros| start + Duration::from_micros(micros);
        let mut pace = Pace::new(start);
        assert!(!pace.is_high(frames(319), after(10)), "a burst");
        assert!(pace.is_high(frames(1), after(9000)));
        // As many over a longer time are not.
        let mut pace = Pace::new(start);
        assert!((0..1000).all(|n| !pace.is_high(frames(1), after(n * 40))));
        let mut pace = Pace::new(start);
        let large = Load { frames: 1, bytes: 640 << 10 };
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

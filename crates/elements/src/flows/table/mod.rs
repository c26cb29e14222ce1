//! The table of flows: state for each flow, forgotten when the flow is silent for too long.
//!
//! # Layout
//! A flow is a [record](Records) that the [index](Index) finds by its [key](TableKey). The rewriters' tables have the
//! same records, index and keys. Their mappings, however, have two keys each, and policies that choose the mapping to
//! evict; the rewriters implement that part themselves.
//!
//! # Threads
//! A packet of a known flow takes no lock on the table, and writes only its time to it. A record has a version, odd
//! while it belongs to no flow: a reader checks the version before and after, as with a seqlock. State that never
//! [changes](Fixed) is read the same way. State that packets [change](Changing) has a lock in the record, which only
//! packets of the same flow contend for. That lock is needed so that two threads with packets of one flow count each
//! packet once.
//!
//! Flows are added and removed under one lock. A flow that has timed out is never found. It is removed when another one
//! is added - a part of the records is checked at a time, each part once an interval - and when a handler asks for the
//! count.

pub(crate) mod index;
pub(crate) mod records;

use millrace_core::sync::Arc;
use millrace_core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use millrace_core::sync::atomic::{AtomicU32, AtomicU64, fence};
use millrace_core::{InRound, Lock, Published, Timestamp};

use super::key::TableKey;
use index::{Found, Index};
use records::Records;

/// States by key.
pub(crate) struct Flows<K: TableKey, S: Slot> {
    index: Published<Index>,
    records: Records<Record<K, S>>,
    /// Odd while the index changes.
    changes: AtomicU64,
    book: Lock<Book>,
    capacity: usize,
    /// Milliseconds after the last packet; 0 for never.
    timeout: u64,
    /// Milliseconds between checks for flows that have timed out.
    interval: u64,
}

/// Holds the state of a flow.
pub(crate) trait Slot: Default + Send + Sync + 'static {
    type State;

    /// Stores the state of a new flow, which no lookup finds yet.
    fn put(&self, state: Self::State);

    /// Removes the state, at a moment when no thread changes it, and calls `gone` then.
    fn take(&self, gone: impl FnOnce()) -> Option<Self::State>;
}

/// A number that does not change during the flow.
#[derive(Debug, Default)]
pub(crate) struct Fixed(AtomicU64);

/// State that packets change.
#[derive(Debug)]
pub(crate) struct Changing<T>(Lock<Option<T>>);

/// A flow, or a free record.
#[derive(Debug)]
#[repr(align(64))]
struct Record<K: TableKey, S> {
    version: AtomicU32,
    key: K::Stored,
    /// The time of the last packet, in milliseconds.
    last: AtomicU64,
    slot: S,
}

/// A flow that was found.
struct Live<'t, K: TableKey, S> {
    record: &'t Record<K, S>,
    version: u32,
    last: u64,
}

/// The state that only one thread at a time may change.
struct Book {
    live: usize,
    free: Vec<u32>,
    /// Records are checked in parts, by their number modulo `PARTS`.
    parts: [Part; PARTS],
    /// The part to check next.
    next: usize,
}

#[derive(Clone, Copy, Default)]
struct Part {
    swept: u64,
    /// No flow in the part times out before this.
    due: u64,
}

/// The number of parts: a packet that adds a flow waits while one part is checked.
const PARTS: usize = 16;
/// How far the clocks of threads may differ, in milliseconds.
const SLACK: u64 = 1000;

/// The table's unit of time: milliseconds.
pub(crate) fn millis(time: Timestamp) -> u64 {
    time.as_millis().max(0).unsigned_abs()
}

impl<K: TableKey> Flows<K, Fixed> {
    /// The number of a flow that received a packet; `new` creates it for an unknown flow. `None` when there is no room
    /// for the flow, or `new` returns `None`. Numbers that are forgotten in the process go to `gone`.
    #[inline]
    pub(crate) fn number(
        &self,
        at: &impl InRound,
        key: K,
        now: u64,
        new: impl FnOnce() -> Option<u64>,
        gone: impl FnMut(u64),
    ) -> Option<u64> {
        self.number_by(self.index.get(at), key, now, new, gone)
    }

    #[inline]
    fn number_by(
        &self,
        index: &Index,
        key: K,
        now: u64,
        new: impl FnOnce() -> Option<u64>,
        gone: impl FnMut(u64),
    ) -> Option<u64> {
        if let Some(number) = self.read(index, key, now, true) {
            return Some(number);
        }
        self.admit(key, now, new, gone, |record| record.slot.0.load(Relaxed))
    }

    /// The number of a flow, if it is known, without counting as a packet of it. It may be missed while the table
    /// changes.
    pub(crate) fn peek(&self, at: &impl InRound, key: K, now: u64) -> Option<u64> {
        self.read(self.index.get(at), key, now, false)
    }

    /// The number of a flow that is found without a lock; `comes` if a packet of it did.
    #[inline(always)]
    fn read(&self, index: &Index, key: K, now: u64, comes: bool) -> Option<u64> {
        let live = self.find(index, key, now)?;
        let number = live.record.slot.0.load(Relaxed);
        if !live.is_still_there() {
            return None;
        }
        if comes {
            live.touch(now);
        }
        Some(number)
    }

    /// Whether the flow of a packet is known.
    pub(crate) fn knows(&self, at: &impl InRound, key: K, now: u64) -> bool {
        self.known(at, key, now).is_some()
    }

    /// The number of a flow that received a packet, if it is known. Takes no lock unless the table changes meanwhile.
    pub(crate) fn known(&self, at: &impl InRound, key: K, now: u64) -> Option<u64> {
        let changes = self.changes.load(Acquire);
        if let Some(number) = self.read(self.index.get(at), key, now, true) {
            return Some(number);
        }
        fence(Acquire);
        let unchanged = changes & 1 == 0 && self.changes.load(Relaxed) == changes;
        let see = |record: &Record<K, Fixed>| record.slot.0.load(Relaxed);
        if unchanged { None } else { self.admit(key, now, || None, |_| (), see) }
    }
}

impl<K: TableKey, T: Send + 'static> Flows<K, Changing<T>> {
    /// Calls `act` with the state of a flow that received a packet; `new` creates it for an unknown flow. `None` when
    /// there is no room for the flow, or `new` returns `None`. State that is forgotten in the process goes to `gone`.
    pub(crate) fn with<R>(
        &self,
        at: &impl InRound,
        key: K,
        now: u64,
        new: impl FnMut() -> Option<T>,
        gone: impl FnMut(T),
        act: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        self.with_by(self.index.get(at), key, now, new, gone, act)
    }

    fn with_by<R>(
        &self,
        index: &Index,
        key: K,
        now: u64,
        mut new: impl FnMut() -> Option<T>,
        mut gone: impl FnMut(T),
        act: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let mut live = self.find(index, key, now);
        loop {
            if let Some(live) = live {
                let mut state = live.record.slot.0.lock();
                // The state is removed under this lock.
                if let Some(state) = state.as_mut().filter(|_| live.is_still_there()) {
                    live.touch(now);
                    return Some(act(state));
                }
            }
            live = Some(self.admit(key, now, &mut new, &mut gone, |record| record.live())?);
        }
    }
}

impl<K: TableKey, S: Slot> Flows<K, S> {
    /// A table for this many flows that forgets those that are silent for `timeout` milliseconds, checking every
    /// `interval` milliseconds.
    pub(crate) fn new(capacity: usize, timeout: u64, interval: u64) -> Self {
        let parts = [Part::default(); PARTS];
        Self {
            index: Published::new(Index::new(8, fastrand::u64(..))),
            records: Records::new(),
            changes: 0.into(),
            book: Lock::new(Book { live: 0, free: Vec::new(), parts, next: 0 }),
            capacity,
            timeout,
            interval,
        }
    }

    /// Bytes that the table takes when it is full.
    pub(crate) fn bytes_when_full(&self) -> usize {
        let records = Records::<Record<K, S>>::bytes_for(self.capacity);
        let free = self.capacity.saturating_mul(size_of::<u32>());
        records.saturating_add(free).saturating_add(Index::bytes_for(self.capacity))
    }

    /// The number of flows at this time.
    pub(crate) fn count(&self, now: u64, gone: impl FnMut(S::State)) -> usize {
        let (mut book, mut gone) = (self.book.lock(), gone);
        self.sweep_all(&mut book, now, &mut gone);
        book.live
    }

    /// Forgets a flow; returns its state.
    pub(crate) fn forget(&self, key: K) -> Option<S::State> {
        let mut book = self.book.lock();
        let (number, _) = self.look_up(key)?;
        self.remove(&mut book, number)
    }

    /// Forgets any flow, to make room for another.
    pub(crate) fn evict(&self) {
        let mut book = self.book.lock();
        let count = self.records.numbers().count();
        let start = fastrand::usize(..count.max(1));
        let mut numbers = self.records.numbers().skip(start).chain(self.records.numbers());
        let is_live = |number: &u32| self.records.get(*number).is_some_and(Record::is_live);
        if let Some(number) = numbers.find(is_live) {
            self.remove(&mut book, number);
        }
    }

    /// Forgets all flows.
    pub(crate) fn clear(&self) {
        self.drain(|_, _, _| ());
    }

    /// Lets a flow time out `left` milliseconds from now, if not before, unless it receives a packet until then.
    pub(crate) fn retire(&self, key: K, now: u64, left: u64) {
        let mut book = self.book.lock();
        if self.timeout > left
            && let Some((number, record)) = self.look_up(key)
        {
            let last = now.saturating_add(left).saturating_sub(self.timeout);
            record.last.fetch_min(last, Relaxed);
            self.note_due(&mut book, number, last);
        }
    }

    /// Counts as a packet of a flow.
    pub(crate) fn renew(&self, key: K, now: u64) {
        let _book = self.book.lock();
        if let Some((_, record)) = self.look_up(key) {
            record.last.store(now, Relaxed);
        }
    }

    /// Takes over the flows of another table, as many as fit.
    pub(crate) fn take(&self, old: &Self) {
        let mut book = self.book.lock();
        old.drain(|key, state, last| {
            if book.live < self.capacity {
                self.insert(&mut book, key, last, state);
            }
        });
    }

    /// The flow with a key, unless it has timed out. An existing flow may not be found while other threads change the
    /// table, or when an index entry of another flow has the same tag.
    #[inline(always)]
    fn find(&self, index: &Index, key: K, now: u64) -> Option<Live<'_, K, S>> {
        let found = index.probe(index.hash(key))?;
        let record = self.records.get(found.record)?;
        let live = record.live();
        let same = K::load(&record.key) == key && live.is_still_there();
        let is_known = same && !self.is_over(live.last, now);
        // If the clock was set back, the deadline in the book must be updated.
        (is_known && live.last <= now.saturating_add(SLACK)).then_some(live)
    }

    /// What `see` returns for the flow of a packet, known or new.
    #[cold]
    #[inline(never)]
    fn admit<'t, R>(
        &'t self,
        key: K,
        now: u64,
        new: impl FnOnce() -> Option<S::State>,
        gone: impl FnMut(S::State),
        see: impl FnOnce(&'t Record<K, S>) -> R,
    ) -> Option<R> {
        let (mut book, mut gone) = (self.book.lock(), gone);
        if let Some((number, record)) = self.look_up(key) {
            if !self.is_over(record.last.load(Relaxed), now) {
                record.last.store(now, Relaxed);
                self.note_due(&mut book, number, now);
                return Some(see(record));
            }
            self.remove(&mut book, number).into_iter().for_each(&mut gone);
        }
        self.sweep_next(&mut book, now, &mut gone);
        if book.live >= self.capacity {
            self.sweep_again(&mut book, now, &mut gone);
        }
        if book.live >= self.capacity {
            return None;
        }
        let number = self.insert(&mut book, key, now, new()?)?;
        self.records.get(number).map(see)
    }

    /// The record of a flow. Call with the lock held.
    fn look_up(&self, key: K) -> Option<(u32, &Record<K, S>)> {
        let index = self.index.load();
        index.probe_all(index.hash(key)).find_map(|(found, _)| {
            let record = self.records.get(found.record)?;
            (K::load(&record.key) == key).then_some((found.record, record))
        })
    }

    fn insert(&self, book: &mut Book, key: K, last: u64, state: S::State) -> Option<u32> {
        let number = match book.free.pop() {
            Some(number) => number,
            None => self.records.add(Record::default)?,
        };
        let record = self.records.get(number)?;
        // A reader that sees any of the following stores also sees that the record is free.
        fence(Release);
        key.store(&record.key);
        record.last.store(last, Relaxed);
        record.slot.put(state);
        record.version.fetch_add(1, Release);
        self.change(|| self.enter(key, number));
        book.live += 1;
        self.note_due(book, number, last);
        Some(number)
    }

    fn enter(&self, key: K, number: u32) {
        let found = Found { record: number, reply: false };
        let hash_of = |index: &Index, found: Found| {
            Some(index.hash(K::load(&self.records.get(found.record)?.key)))
        };
        loop {
            let index = self.index.load();
            if !index.is_crowded() && index.insert(index.hash(key), found) {
                return;
            }
            self.index.store(Arc::new(index.grown(hash_of)));
        }
    }

    fn remove(&self, book: &mut Book, number: u32) -> Option<S::State> {
        let record = self.records.get(number).filter(|record| record.is_live())?;
        let key = K::load(&record.key);
        let state = record.slot.take(|| {
            // Who sees anything of the next flow sees this, too: there is a fence before that.
            record.version.fetch_add(1, Relaxed);
        });
        let index = self.index.load();
        self.change(|| index.remove(index.hash(key), Found { record: number, reply: false }));
        book.free.push(number);
        book.live -= 1;
        state
    }

    /// Changes the index, and signals to readers that they may have missed an entry. Call with the lock held.
    fn change(&self, act: impl FnOnce()) {
        let changes = self.changes.load(Relaxed);
        self.changes.store(changes.wrapping_add(1), Relaxed);
        fence(Release);
        act();
        self.changes.store(changes.wrapping_add(2), Release);
    }

    /// Removes all flows.
    fn drain(&self, mut gone: impl FnMut(K, S::State, u64)) {
        let mut book = self.book.lock();
        let live: Vec<u32> =
            self.records.iter().filter(|one| one.1.is_live()).map(|one| one.0).collect();
        for number in live {
            let Some(record) = self.records.get(number) else { continue };
            let (key, last) = (K::load(&record.key), record.last.load(Relaxed));
            self.remove(&mut book, number).into_iter().for_each(|state| gone(key, state, last));
        }
    }

    #[inline(always)]
    fn is_over(&self, last: u64, now: u64) -> bool {
        self.timeout > 0 && now.saturating_sub(last) >= self.timeout
    }

    /// Updates the deadline of a part for a flow that received a packet: it becomes earlier only if the clock was set
    /// back.
    fn note_due(&self, book: &mut Book, number: u32, last: u64) {
        if let Some(part) = book.parts.get_mut(number as usize % PARTS) {
            part.due = part.due.min(last.saturating_add(self.timeout));
        }
    }

    /// Checks the next part, unless it was checked during the last interval.
    fn sweep_next(&self, book: &mut Book, now: u64, gone: &mut impl FnMut(S::State)) {
        let part = book.next;
        book.next = (part + 1) % PARTS;
        let swept = book.parts.get(part).map_or(now, |part| part.swept);
        if now.saturating_sub(swept) >= self.interval {
            self.sweep(book, part, now, gone);
        }
    }

    /// Checks all parts that were not checked during the last interval: what comes to a full table must not check all of
    /// it each time.
    fn sweep_again(&self, book: &mut Book, now: u64, gone: &mut impl FnMut(S::State)) {
        for part in 0..PARTS {
            let swept = book.parts.get(part).map_or(now, |part| part.swept);
            if now.abs_diff(swept) >= self.interval {
                self.sweep(book, part, now, gone);
            }
        }
    }

    fn sweep_all(&self, book: &mut Book, now: u64, gone: &mut impl FnMut(S::State)) {
        (0..PARTS).for_each(|part| self.sweep(book, part, now, gone));
    }

    fn sweep(&self, book: &mut Book, part: usize, now: u64, gone: &mut impl FnMut(S::State)) {
        let Some(own) = book.parts.get_mut(part) else { return };
        own.swept = now;
        // Otherwise each new flow that finds a full table would check all of it.
        if self.timeout == 0 || now < own.due {
            return;
        }
        let mut oldest = now;
        for number in self.records.numbers().skip(part).step_by(PARTS) {
            let Some(record) = self.records.get(number).filter(|one| one.is_live()) else {
                continue;
            };
            let last = record.last.load(Relaxed);
            if self.is_over(last, now) {
                self.remove(book, number).into_iter().for_each(&mut *gone);
            } else {
                oldest = oldest.min(last);
            }
        }
        // Flows that receive packets later time out later.
        if let Some(own) = book.parts.get_mut(part) {
            own.due = oldest.saturating_add(self.timeout);
        }
    }
}

impl<K: TableKey, S: Slot> Default for Record<K, S> {
    fn default() -> Self {
        Self { version: 1.into(), key: K::Stored::default(), last: 0.into(), slot: S::default() }
    }
}

impl<K: TableKey, S> Record<K, S> {
    fn is_live(&self) -> bool {
        self.version.load(Relaxed) & 1 == 0
    }

    /// The record's current state.
    #[inline(always)]
    fn live(&self) -> Live<'_, K, S> {
        let version = self.version.load(Acquire);
        Live { record: self, version, last: self.last.load(Relaxed) }
    }
}

impl<K: TableKey, S> Live<'_, K, S> {
    /// Whether the record still belongs to the flow, so that everything read from it since is valid.
    #[inline(always)]
    fn is_still_there(&self) -> bool {
        fence(Acquire);
        self.version & 1 == 0 && self.record.version.load(Relaxed) == self.version
    }

    /// Records the time of a packet.
    #[inline(always)]
    fn touch(&self, now: u64) {
        if self.last < now {
            self.record.last.store(now, Relaxed);
        }
    }
}

impl Slot for Fixed {
    type State = u64;

    fn put(&self, state: u64) {
        self.0.store(state, Relaxed);
    }

    fn take(&self, gone: impl FnOnce()) -> Option<u64> {
        gone();
        Some(self.0.load(Relaxed))
    }
}

impl<T> Default for Changing<T> {
    fn default() -> Self {
        Self(Lock::new(None))
    }
}

impl<T: Send + 'static> Slot for Changing<T> {
    type State = T;

    fn put(&self, state: T) {
        *self.0.lock() = Some(state);
    }

    fn take(&self, gone: impl FnOnce()) -> Option<T> {
        let mut state = self.0.lock();
        gone();
        state.take()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::key::Key;
    use super::*;

    fn flow(number: impl Into<u32>) -> Key {
        Key::numbered(number.into())
    }

    fn add(count: &AtomicU64, packets: u64) {
        count.fetch_add(packets, Relaxed);
    }

    /// Compares random packets of few flows with a plain map that is searched at every packet.
    #[test]
    fn it_agrees_with_a_map_that_forgets_at_once() {
        let mut random = fastrand::Rng::with_seed(7);
        for capacity in [3, 20, 1000] {
            let (table, mut plain) =
                (Flows::new(capacity, 50, 0), HashMap::<u8, (u64, u64)>::new());
            let (mut now, mut next, mut ended) = (0, 0u64, 0);
            for _ in 0..5000 {
                now += random.u64(0..8);
                let key = random.u8(0..60);
                plain.retain(|_, (_, last)| now - *last < 50);
                let room = plain.contains_key(&key) || plain.len() < capacity;
                next += 1;
                let expected = room.then(|| {
                    let flow = plain.entry(key).or_insert((next, now));
                    flow.1 = now;
                    flow.0
                });
                let index = table.index.load();
                let gone = |_| ended += 1;
                let given = table.number_by(&index, flow(key), now, || Some(next), gone);
                assert_eq!(given, expected);
                if random.u8(..) < 20 {
                    assert_eq!(table.count(now, |_| ended += 1), plain.len());
                }
            }
            assert!(ended > 0);
            table.count(now, |_| ());
            plain.retain(|_, (_, last)| now - *last < 50);
            let other = Flows::<_, Fixed>::new(2, 50, 10);
            other.take(&table);
            assert_eq!(other.count(now, |_| ()), plain.len().min(2));
            table.clear();
            assert_eq!(table.count(now, |_| ()), 0);
        }
    }

    #[test]
    fn flows_time_out_though_the_clock_was_set_back() {
        let table = Flows::<_, Fixed>::new(1, 50, 0);
        let come = |key: u8, now| {
            let index = table.index.load();
            table.number_by(&index, flow(key), now, || Some(0), |_| ()).is_some()
        };
        assert!(come(1, 1_000_000));
        assert_eq!(table.count(1_000_050, |_| ()), 0);
        assert!(come(2, 1000));
        assert!(!come(3, 1049));
        assert!(come(3, 1050));
        assert_eq!(table.count(1100, |_| ()), 0);
    }

    #[test]
    fn threads_count_each_packet_once() {
        let table = Flows::<_, Changing<u64>>::new(1000, 0, 1000);
        let index = || table.index.load();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for packet in 0..20_000u64 {
                        let key = flow((packet % 97) as u8);
                        let (new, act) = (|| Some(0), |n: &mut u64| *n += 1);
                        let counted = table.with_by(&index(), key, packet, new, |_| (), act);
                        assert!(counted.is_some());
                    }
                });
            }
        });
        let counts = (0..97u8).map(|key| {
            table.with_by(&index(), flow(key), 0, || None, |_| (), |count| *count).unwrap()
        });
        assert_eq!(counts.sum::<u64>(), 80_000);
    }

    /// Flows come and go all the time; each lookup finds its own flow, and each flow ends once.
    #[test]
    fn threads_find_their_flows_while_others_come_and_go() {
        let table = Flows::<_, Changing<u64>>::new(300, 20, 1);
        let numbers = Flows::<_, Fixed>::new(300, 20, 1);
        let [counted, ended] = [0, 0].map(AtomicU64::new);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (table, numbers, counted, ended) = (&table, &numbers, &counted, &ended);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    for packet in 0..20_000 {
                        let (key, now) = (random.u32(0..400), packet / 50);
                        let (index, new) = (table.index.load(), || Some(0));
                        let gone = |packets| add(ended, packets);
                        if table.with_by(&index, flow(key), now, new, gone, |n| *n += 1).is_some() {
                            counted.fetch_add(1, Relaxed);
                        }
                        let (index, new) = (numbers.index.load(), || Some(key.into()));
                        let number = numbers.number_by(&index, flow(key), now, new, |_| ());
                        assert!(number.is_none_or(|number| number == u64::from(key)));
                    }
                });
            }
        });
        table.count(u64::MAX, |packets| add(&ended, packets));
        assert_eq!(ended.into_inner(), counted.into_inner());
        assert!(numbers.count(0, |_| ()) <= 300);
    }
}

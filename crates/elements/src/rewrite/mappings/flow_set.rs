//! The mappings under one capacity, and the choice of the one to evict when there are too many.
//!
//! Packets do not update the order of expiry; they write only the time and the state of a mapping. The mapping to
//! evict is found when one must go. Two heaps hold the mappings, one for those whose guarantee may still hold and
//! one for the others. They are ordered by a time that is never later than the actual expiry. An entry that
//! reaches the top too early is put back with its actual time. So the evicted mapping is the same as with Click's
//! heaps, which every packet updates.
//!
//! Memory: 16 bytes per heap entry, in addition to the table: one entry per mapping, and at most as many replaced
//! entries; the heaps reserve at most twice that.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

use millrace_core::args::Seconds;
use millrace_core::{Footprint, Lock, Setup};

use super::flow_table::{ANNO_SHIFT, FlowTable, NewMapping, PROTOCOL_SHIFT, Record, SHIFTED, View};
use super::sequence::SequenceShifts;
use crate::flows::key::{FlowId, Key};
use crate::flows::table::index::Found;

/// How long the mappings of one map are kept, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// How long after its last packet the mapping cannot be evicted; 0 for no guarantee.
    pub(crate) guarantee: u64,
    pub(crate) timeouts: Timeouts,
}

/// How long after its last packet a mapping expires, depending on what was seen of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeouts {
    Plain(u64),
    Udp { plain: u64, streaming: u64 },
    Tcp { no_data: u64, data: u64, done: u64 },
}

/// What was seen of a flow: flags of TCP connections, a count of UDP packets.
pub(crate) mod seen {
    /// The connection has ended: this bit for the forward direction, the next one for replies.
    pub(in crate::rewrite) const DONE: u32 = 1;
    pub(in crate::rewrite) const BOTH_DONE: u32 = 3;
    /// There was data: this bit for the forward direction, the next one for replies.
    pub(in crate::rewrite) const DATA: u32 = 4;
    pub(in crate::rewrite) const BOTH_DATA: u32 = 12;
    /// Datagrams: twice their number, up to 6, plus 1 if there was a reply.
    pub(in crate::rewrite) const STREAMING: u32 = 7;
    /// The bits that these use.
    pub(in crate::rewrite) const MASK: u32 = 0xff;
}

/// Reads a time in whole seconds; returns milliseconds.
pub(crate) fn time(setup: &mut Setup<'_>, name: &str) -> Option<u64> {
    let time: Option<Seconds> = setup.args.optional_keyword(name);
    time.map(|time| time.as_secs().saturating_mul(1000).min(1 << 50))
}

impl Timeouts {
    /// The timeout of a flow in this state.
    pub(crate) fn of(&self, state: u32) -> u64 {
        match *self {
            Self::Plain(time) => time,
            Self::Udp { streaming, .. } if state & seen::MASK >= seen::STREAMING => streaming,
            Self::Udp { plain, .. } => plain,
            Self::Tcp { done, .. } if state & seen::BOTH_DONE == seen::BOTH_DONE => done,
            Self::Tcp { data, .. } if state & seen::BOTH_DATA == seen::BOTH_DATA => data,
            Self::Tcp { no_data, .. } => no_data,
        }
    }
}

/// Mappings under one capacity; several rewriters may share it.
pub(crate) struct FlowSet {
    pub(crate) table: FlowTable,
    book: Lock<Book>,
    /// The shifts of mappings with the flag [`SHIFTED`].
    shifts: Lock<HashMap<u32, SequenceShifts>>,
}

/// The state that only one thread at a time may change.
struct Book {
    capacity: i32,
    live: usize,
    free: Vec<u32>,
    guaranteed: Heap,
    others: Heap,
    next_ticket: u32,
    born: u32,
    maps: Vec<Map>,
}

type Heap = BinaryHeap<Reverse<Entry>>;

/// A heap entry: a time and a mapping. It is valid while the mapping still has this ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: u64,
    ticket: u32,
    record: u32,
}

/// One of the maps in the table.
struct Map {
    policy: Policy,
    /// For each input: mappings, and flows that got none.
    inputs: Vec<InputCounts>,
    /// The number of keys in the map, and the number of buckets that Click's table would have.
    keys: usize,
    buckets: usize,
}

/// What an input counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputCounts {
    pub(crate) mappings: u32,
    pub(crate) failures: u32,
}

/// A mapping that a rewriter wants to add.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) map: u32,
    pub(crate) from: FlowId,
    pub(crate) to: FlowId,
    pub(crate) outputs: [u16; 2],
    pub(crate) input: usize,
    pub(crate) protocol: u8,
    pub(crate) anno: u8,
    pub(crate) deltas: (u16, u16),
}

/// What a rewriter reads from a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) flow: FlowId,
    /// The index of the rewriter's map.
    pub(crate) map: usize,
    pub(crate) protocol: u8,
}

impl FlowSet {
    pub(crate) fn new(capacity: i32) -> Self {
        Self {
            table: FlowTable::new(),
            book: Lock::new(Book {
                capacity,
                live: 0,
                free: Vec::new(),
                guaranteed: Heap::new(),
                others: Heap::new(),
                next_ticket: 0,
                born: 0,
                maps: Vec::new(),
            }),
            shifts: Lock::default(),
        }
    }

    /// Locks the mappings for changes, by one thread at a time.
    pub(crate) fn lock(&self) -> Changing<'_> {
        let book = self.book.lock();
        Changing { set: self, book }
    }

    /// The shifts of sequence numbers.
    pub(crate) fn shifts(&self) -> MutexGuard<'_, HashMap<u32, SequenceShifts>> {
        self.shifts.lock()
    }

    /// Bytes of memory that the mappings use.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        let book = self.lock().book;
        let entries = book.guaranteed.capacity() + book.others.capacity();
        self.table.memory() + entries * size_of::<Entry>() + book.free.capacity() * 4
    }
}

/// A set of mappings, locked for changes.
pub(crate) struct Changing<'s> {
    set: &'s FlowSet,
    book: MutexGuard<'s, Book>,
}

impl Changing<'_> {
    /// Adds a map, for a rewriter with `inputs` inputs; returns its number.
    pub(crate) fn add_map(&mut self, policy: Policy, inputs: usize) -> u32 {
        let inputs = vec![InputCounts::default(); inputs];
        self.book.maps.push(Map { policy, inputs, keys: 0, buckets: 1 });
        u32::try_from(self.book.maps.len() - 1).unwrap_or(u32::MAX)
    }

    pub(crate) fn find(&self, key: Key) -> Option<View<'_>> {
        self.set.table.find(key)
    }

    /// Whether the flow has a mapping.
    pub(crate) fn contains(&self, map: u32, flow: FlowId) -> bool {
        self.set.table.contains(Key { flow, space: map })
    }

    /// Adds a mapping, and evicts another one if there are too many. If all others are guaranteed, refuses the new
    /// one and counts a failure.
    pub(crate) fn add(&mut self, wanted: &Wanted, now: u64) -> Option<u32> {
        let keys = [wanted.from, wanted.to.reversed()];
        // Replies belong to the newest flow.
        let old = self.find(Key { flow: keys[1], space: wanted.map });
        if let Some(old) = old.map(|view| view.found.record) {
            self.destroy(old);
        }
        let new = NewMapping {
            keys,
            map: wanted.map,
            deltas: wanted.deltas,
            outputs: wanted.outputs,
            touched: now,
            state: u32::from(wanted.anno) << ANNO_SHIFT
                | u32::from(wanted.protocol) << PROTOCOL_SHIFT,
            input: u32::try_from(wanted.input).unwrap_or_default(),
            born: self.book.born,
        };
        let free = self.book.free.pop();
        let number = self.set.table.add(free, &new)?;
        self.book.born = self.book.born.wrapping_add(1);
        self.book.live += 1;
        let (forward, reply) =
            (Found { record: number, reply: false }, Found { record: number, reply: true });
        self.set.table.enter(forward);
        let pair = keys[0] != keys[1];
        match pair {
            true => self.set.table.enter(reply),
            // The flow is its own reply: later packets count as replies.
            false => self.set.table.redirect(forward, reply),
        }
        if let Some(map) = self.book.maps.get_mut(wanted.map as usize) {
            map.keys += 1 + usize::from(pair);
            if let Some(counts) = map.inputs.get_mut(wanted.input) {
                counts.mappings += 1;
            }
        }
        self.queue(number, now);
        if i64::try_from(self.book.live).unwrap_or(i64::MAX) > i64::from(self.book.capacity) {
            self.end_guarantees(now);
            let goes = self.first_of_others(now).unwrap_or(number);
            self.destroy(goes);
            if goes == number {
                self.count_failure(wanted.map, wanted.input);
                return None;
            }
        }
        if let Some(map) = self.book.maps.get_mut(wanted.map as usize)
            && map.keys > 2 * map.buckets
        {
            map.buckets = 2 * map.buckets + 1;
        }
        Some(number)
    }

    /// Counts a flow that got no mapping.
    pub(crate) fn count_failure(&mut self, map: u32, input: usize) {
        let map = self.book.maps.get_mut(map as usize);
        if let Some(counts) = map.and_then(|map| map.inputs.get_mut(input)) {
            counts.failures = counts.failures.wrapping_add(1);
        }
    }

    /// The counts of an input in one of the rewriter's maps.
    pub(crate) fn counts(&self, map: u32, input: usize) -> InputCounts {
        let map = self.book.maps.get(map as usize);
        map.and_then(|map| map.inputs.get(input)).copied().unwrap_or_default()
    }

    /// The number of mappings.
    pub(crate) fn len(&self) -> usize {
        self.book.live
    }

    /// What the mappings take when there are as many as there may be.
    pub(crate) fn footprint(&self) -> Footprint {
        // One more is made before one is removed.
        let most = usize::try_from(self.book.capacity).unwrap_or(0).saturating_add(1);
        // Each is in a heap, which doubles when it is full, and may be in the list of free ones later.
        let entries = most.saturating_mul(2 * size_of::<Entry>() + size_of::<u32>());
        Footprint::tables(FlowTable::bytes_for(most).saturating_add(entries))
    }

    pub(crate) fn capacity(&self) -> i32 {
        self.book.capacity
    }

    pub(crate) fn set_capacity(&mut self, capacity: i32, now: u64) {
        self.book.capacity = capacity;
        self.reap(now);
    }

    /// Removes expired mappings, and those above the capacity.
    pub(crate) fn reap(&mut self, now: u64) {
        self.end_guarantees(now);
        while let Some(first) = self.first_of_others(now) {
            if self.expiry(first).is_some_and(|expiry| expiry > now) {
                break;
            }
            self.destroy(first);
        }
        let capacity = usize::try_from(self.book.capacity).unwrap_or(0);
        while self.book.live > capacity {
            let goes = self.first_of_others(now).or_else(|| self.first_guaranteed());
            match goes {
                Some(goes) => self.destroy(goes),
                None => break,
            }
        }
    }

    /// Removes every mapping.
    pub(crate) fn clear(&mut self) {
        let all: Vec<u32> = self.set.table.records().map(|(number, _)| number).collect();
        all.into_iter().for_each(|number| self.destroy(number));
    }

    /// Removes the mappings that an input made in these maps.
    pub(crate) fn clear_input(&mut self, maps: &[u32], input: usize) {
        let records = self.set.table.records();
        let of_input = |record: &Record| {
            maps.contains(&record.map()) && record.input.load(Relaxed) as usize == input
        };
        let all: Vec<u32> =
            records.filter(|(_, record)| of_input(record)).map(|(number, _)| number).collect();
        all.into_iter().for_each(|number| self.destroy(number));
    }

    /// The number of maps of all rewriters.
    pub(crate) fn maps(&self) -> usize {
        self.book.maps.len()
    }

    /// Keeps the mappings in these maps for which `keep` returns true, and gives the maps new policies.
    pub(crate) fn keep(
        &mut self,
        maps: &[u32],
        policies: &[Policy],
        keep: impl Fn(&Record) -> bool,
        now: u64,
    ) {
        let mut changed = false;
        for (map, policy) in maps.iter().zip(policies) {
            if let Some(map) = self.book.maps.get_mut(*map as usize) {
                changed |= map.policy != *policy;
                map.policy = *policy;
            }
        }
        let all: Vec<(u32, bool)> = self
            .set
            .table
            .records()
            .filter(|(_, record)| maps.contains(&record.map()))
            .map(|(number, record)| (number, keep(record)))
            .filter(|(_, kept)| changed || !kept)
            .collect();
        for (number, kept) in all {
            match kept {
                true => self.requeue(number, now),
                false => self.destroy(number),
            }
        }
    }

    /// Sets the number of inputs of these maps' rewriter.
    pub(crate) fn set_inputs(&mut self, maps: &[u32], inputs: usize) {
        for map in maps {
            if let Some(map) = self.book.maps.get_mut(*map as usize) {
                map.inputs.resize(inputs, InputCounts::default());
            }
        }
    }

    /// Puts a mapping into the order of expiry again, because it may expire earlier than before.
    pub(crate) fn requeue(&mut self, number: u32, now: u64) {
        if self.set.table.record(number).is_some_and(Record::is_live) {
            self.queue(number, now);
        }
    }

    /// The keys of a map, in the order of Click's table.
    pub(crate) fn in_order(&self, map: u32) -> Vec<(u32, bool)> {
        let records = self.set.table.records().filter(|(_, record)| record.map() == map);
        let mut records: Vec<_> = records.collect();
        let newest = self.book.born;
        records.sort_by_key(|(_, record)| Reverse(newest.wrapping_sub(record.born.load(Relaxed))));
        let buckets = self.book.maps.get(map as usize).map_or(1, |map| map.buckets);
        let mut order = ClickOrder::default();
        for (number, record) in records {
            let pair = record.key(false) != record.key(true);
            let keys = [false, true].into_iter().skip(usize::from(!pair));
            keys.for_each(|reply| order.insert(record.key(reply).click_hash(), (number, reply)));
            if order.len > 2 * order.buckets.len() {
                order.rehash(2 * order.buckets.len() + 1);
            }
        }
        while order.buckets.len() < buckets {
            order.rehash(2 * order.buckets.len() + 1);
        }
        order.into_keys().collect()
    }

    /// When a mapping expires if no packet arrives, in milliseconds.
    pub(crate) fn expiry(&self, number: u32) -> Option<u64> {
        let record = self.set.table.record(number)?;
        let policy = self.policy(record)?;
        Some(record.touched.load(Relaxed) + policy.timeouts.of(record.state.load(Relaxed)))
    }

    fn destroy(&mut self, number: u32) {
        let Some(record) = self.set.table.record(number).filter(|record| record.is_live()) else {
            return;
        };
        let (input, pair) = (record.input.load(Relaxed), record.key(false) != record.key(true));
        if let Some(map) = self.book.maps.get_mut(record.map() as usize) {
            map.keys = map.keys.saturating_sub(1 + usize::from(pair));
            if let Some(counts) = map.inputs.get_mut(input as usize) {
                counts.mappings = counts.mappings.saturating_sub(1);
            }
        }
        if record.state.load(Relaxed) & SHIFTED != 0 {
            self.set.shifts().remove(&number);
        }
        record.ticket.store(u32::MAX, Relaxed);
        self.set.table.remove(number);
        self.book.free.push(number);
        self.book.live -= 1;
    }

    fn policy(&self, record: &Record) -> Option<Policy> {
        self.book.maps.get(record.map() as usize).map(|map| map.policy)
    }

    /// When the guarantee of a mapping ends.
    fn guaranteed_until(&self, number: u32) -> Option<u64> {
        let record = self.set.table.record(number)?;
        let guarantee = self.policy(record)?.guarantee;
        (guarantee > 0).then(|| record.touched.load(Relaxed) + guarantee)
    }

    /// Puts a mapping into a heap, which invalidates its earlier entry. When most entries are invalid, removes
    /// them.
    fn queue(&mut self, number: u32, now: u64) {
        let Some(record) = self.set.table.record(number) else { return };
        // The highest ticket is never issued.
        self.book.next_ticket = self.book.next_ticket.wrapping_add(1) % u32::MAX;
        let ticket = self.book.next_ticket;
        record.ticket.store(ticket, Relaxed);
        self.place(Entry { time: 0, ticket, record: number }, now);
        let entries = self.book.guaranteed.len() + self.book.others.len();
        if entries > 2 * self.book.live + 64 {
            let table = &self.set.table;
            let valid = |Reverse(entry): &Reverse<Entry>| is_valid(table, entry);
            self.book.guaranteed.retain(valid);
            self.book.others.retain(valid);
        }
    }

    fn place(&mut self, entry: Entry, now: u64) {
        match self.guaranteed_until(entry.record).filter(|until| *until > now) {
            Some(time) => self.book.guaranteed.push(Reverse(Entry { time, ..entry })),
            None => {
                let time = self.expiry(entry.record).unwrap_or(0);
                self.book.others.push(Reverse(Entry { time, ..entry }));
            }
        }
    }

    /// Moves mappings whose guarantee has ended to the heap `others`.
    fn end_guarantees(&mut self, now: u64) {
        while let Some(&Reverse(first)) = self.book.guaranteed.peek() {
            if first.time > now {
                break;
            }
            self.book.guaranteed.pop();
            if is_valid(&self.set.table, &first) {
                self.place(first, now);
            }
        }
    }

    /// The mapping without a guarantee that expires first.
    fn first_of_others(&mut self, now: u64) -> Option<u32> {
        loop {
            let Reverse(first) = *self.book.others.peek()?;
            let valid = is_valid(&self.set.table, &first);
            let guaranteed = self.guaranteed_until(first.record).is_some_and(|until| until > now);
            let early = self.expiry(first.record).is_some_and(|expiry| expiry > first.time);
            if valid && !guaranteed && !early {
                return Some(first.record);
            }
            self.book.others.pop();
            if valid {
                self.place(first, now);
            }
        }
    }

    /// The mapping whose guarantee ends first.
    fn first_guaranteed(&mut self) -> Option<u32> {
        loop {
            let Reverse(first) = *self.book.guaranteed.peek()?;
            let valid = is_valid(&self.set.table, &first);
            let until = self.guaranteed_until(first.record).unwrap_or(first.time);
            if valid && until <= first.time {
                return Some(first.record);
            }
            self.book.guaranteed.pop();
            if valid {
                self.book.guaranteed.push(Reverse(Entry { time: until, ..first }));
            }
        }
    }
}

fn is_valid(table: &FlowTable, entry: &Entry) -> bool {
    let record = table.record(entry.record);
    record.is_some_and(|record| record.ticket.load(Relaxed) == entry.ticket)
}

/// The protocol in the state of a mapping.
pub(crate) fn protocol_of(state: u32) -> u8 {
    (state >> PROTOCOL_SHIFT) as u8
}

/// A model of Click's table, chains of entries in buckets, which gives the order of the lines in dumps.
struct ClickOrder {
    /// Each chain, from its end to its front.
    buckets: Vec<Vec<(u32, (u32, bool))>>,
    len: usize,
}

impl Default for ClickOrder {
    fn default() -> Self {
        Self { buckets: vec![Vec::new()], len: 0 }
    }
}

impl ClickOrder {
    fn insert(&mut self, hash: u32, key: (u32, bool)) {
        let buckets = self.buckets.len();
        if let Some(chain) = self.buckets.get_mut(hash as usize % buckets) {
            chain.push((hash, key));
            self.len += 1;
        }
    }

    fn rehash(&mut self, buckets: usize) {
        let old = std::mem::replace(&mut self.buckets, vec![Vec::new(); buckets]);
        self.len = 0;
        for (hash, key) in old.into_iter().flat_map(|chain| chain.into_iter().rev()) {
            self.insert(hash, key);
        }
    }

    fn into_keys(self) -> impl Iterator<Item = (u32, bool)> {
        self.buckets.into_iter().flat_map(|chain| chain.into_iter().rev().map(|(_, key)| key))
    }
}

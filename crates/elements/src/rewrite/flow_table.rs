//! The table of flows: mappings that are found by either of two keys.
//!
//! # Layout
//! A mapping is a record of one cache line. Records stand in chunks, each twice as long as the one before, and
//! never move. The index has buckets of one cache line with eight entries: 32 bits of the hash and the number of a
//! record and of its key. An entry may stand in two buckets; the second follows from the first and from the bits
//! in the entry (partial-key cuckoo hashing, Fan et al., CoNEXT 2014). So a lookup takes two cache lines as a
//! rule, and both can be asked for ahead.
//!
//! # Threads
//! Any number of threads look up without waiting and without writing. One thread at a time changes the table
//! (the caller has a lock for that). A record has a version, odd while it is changed or free: who reads a record
//! looks at the version before and after, as with a seqlock, and takes a record that changed for one not found.
//! An entry that moves is written to its new place before it goes from the old one. A reader may miss an entry
//! that comes, goes or moves at that moment: it then has to look again with the lock.
//!
//! # Memory
//! 64 bytes a record, with free ones at most as many again and 64; 8 bytes an entry, two entries a record, and
//! the index at least three eighths full once it has grown. That is at most 171 bytes a mapping beyond the first
//! hundred.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use millrace_core::memory::prefetch;

use super::flow_id::FlowId;
use super::flow_set::ANNO_SHIFT;

/// A flow as a table knows it: of the table's many maps, the one that it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) flow: FlowId,
    pub(super) map: u32,
}

/// One of the two keys of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The number of the record.
    pub(super) record: u32,
    /// Whether the key is that of the replies.
    pub(super) reply: bool,
}

/// A mapping. What is not said of one direction holds for both.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Record {
    version: AtomicU32,
    map: AtomicU32,
    /// The keys: of the flow, of its replies.
    addresses: [AtomicU64; 2],
    ports: [AtomicU32; 2],
    /// What is added to the checksum of the IP header (upper half) and of the transport header, forward.
    deltas: AtomicU32,
    /// Where packets leave: forward (upper half), replies.
    outputs: AtomicU32,
    /// When the last packet came, in milliseconds.
    pub(super) touched: AtomicU64,
    /// What was seen of the flow, 8 bits; an annotation for replies, 8 bits; marks.
    pub(super) state: AtomicU32,
    /// The input that made the mapping.
    pub(super) input: AtomicU32,
    /// The number of the mapping, counted from the first.
    pub(super) born: AtomicU32,
    /// What the order of expiry knows of it.
    pub(super) ticket: AtomicU32,
}

/// What a new mapping is.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewMapping {
    pub(super) keys: [FlowId; 2],
    pub(super) map: u32,
    pub(super) deltas: (u16, u16),
    pub(super) outputs: [u16; 2],
    pub(super) touched: u64,
    pub(super) state: u32,
    pub(super) input: u32,
    pub(super) born: u32,
}

/// What is done with a packet of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'t> {
    pub(super) record: &'t Record,
    pub(super) found: Found,
    /// The flow that the packet becomes part of.
    pub(super) to: FlowId,
    /// What is added to the checksum of the IP header and of the transport header.
    pub(super) deltas: (u16, u16),
    pub(super) output: u16,
    pub(super) state: u32,
}

impl Record {
    fn free() -> Self {
        Self {
            version: AtomicU32::new(1),
            map: AtomicU32::new(0),
            addresses: [AtomicU64::new(0), AtomicU64::new(0)],
            ports: [AtomicU32::new(0), AtomicU32::new(0)],
            deltas: AtomicU32::new(0),
            outputs: AtomicU32::new(0),
            touched: AtomicU64::new(0),
            state: AtomicU32::new(0),
            input: AtomicU32::new(0),
            born: AtomicU32::new(0),
            ticket: AtomicU32::new(0),
        }
    }

    /// Whether a mapping stands here.
    pub(super) fn is_live(&self) -> bool {
        self.version.load(Relaxed) & 1 == 0
    }

    /// The map that the mapping belongs to.
    pub(super) fn map(&self) -> u32 {
        self.map.load(Relaxed)
    }

    /// A key of the mapping.
    #[inline(always)]
    pub(super) fn key(&self, reply: bool) -> FlowId {
        let [forward_addresses, reply_addresses] = &self.addresses;
        let [forward_ports, reply_ports] = &self.ports;
        let (addresses, ports) = match reply {
            false => (forward_addresses, forward_ports),
            true => (reply_addresses, reply_ports),
        };
        FlowId { addresses: addresses.load(Relaxed), ports: ports.load(Relaxed) }
    }

    /// Gives replies the annotation of another mapping, which has this state.
    pub(super) fn take_annotation(&self, state: u32) {
        let mask = 0xff << ANNO_SHIFT;
        self.state.fetch_and(!mask, Relaxed);
        self.state.fetch_or(state & mask, Relaxed);
    }

    /// Where packets leave: forward, replies.
    pub(super) fn outputs(&self) -> [u16; 2] {
        let outputs = self.outputs.load(Relaxed);
        [(outputs >> 16) as u16, outputs as u16]
    }

    /// What is done with packets of one direction.
    #[inline(always)]
    fn view(&self, found: Found) -> View<'_> {
        let (deltas, outputs) = (self.deltas.load(Relaxed), self.outputs.load(Relaxed));
        let deltas = if found.reply { !deltas } else { deltas };
        View {
            record: self,
            found,
            to: self.key(!found.reply).reversed(),
            deltas: ((deltas >> 16) as u16, deltas as u16),
            output: (if found.reply { outputs } else { outputs >> 16 }) as u16,
            state: self.state.load(Relaxed),
        }
    }
}

/// The index.
#[derive(Debug)]
pub(super) struct Index {
    seed: u64,
    /// The number of buckets less one; they are a power of two.
    mask: usize,
    buckets: Box<[Bucket]>,
    entries: AtomicUsize,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

const WAYS: usize = 8;

/// A hash: the lower half says the bucket, the upper one goes into the entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hash(u64);

impl Index {
    fn new(buckets: usize, seed: u64) -> Self {
        let buckets = buckets.next_power_of_two();
        Self {
            seed,
            mask: buckets - 1,
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            entries: AtomicUsize::new(0),
        }
    }

    /// The hash of a key.
    #[inline(always)]
    pub(super) fn hash(&self, key: Key) -> Hash {
        let words = u64::from(key.flow.ports) << 32 | u64::from(key.map);
        let mixed = fold(key.flow.addresses ^ self.seed, words ^ 0x9e37_79b9_7f4a_7c15);
        Hash(fold(mixed, 0xd6e8_feb8_6659_fd93 ^ self.seed.rotate_left(23)))
    }

    /// Asks for the bucket where an entry stands as a rule.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: Hash) {
        if let Some(bucket) = self.buckets.get(hash.0 as usize & self.mask) {
            prefetch(bucket);
        }
    }

    /// The first entry with this hash, if there is any.
    #[inline(always)]
    pub(super) fn probe(&self, hash: Hash) -> Option<Found> {
        let tag = tag_of(hash);
        let first = hash.0 as usize & self.mask;
        let found = self.buckets.get(first).and_then(|bucket| bucket.find(tag));
        match found {
            Some(entry) => Some(found_of(entry)),
            None => self.buckets.get(self.other(first, tag))?.find(tag).map(found_of),
        }
    }

    /// Every entry with this hash.
    fn probe_all(&self, hash: Hash) -> impl Iterator<Item = (Found, &AtomicU64)> {
        let tag = tag_of(hash);
        let first = hash.0 as usize & self.mask;
        let second = Some(self.other(first, tag)).filter(|second| *second != first);
        [Some(first), second].into_iter().flatten().flat_map(move |at| {
            let entries = self.buckets.get(at).map_or(&[][..], |bucket| &bucket.0[..]);
            entries.iter().filter_map(move |entry| {
                let value = entry.load(Relaxed);
                (value != 0 && (value >> 32) as u32 == tag).then(|| (found_of(value), entry))
            })
        })
    }

    /// Puts an entry in; false when there is no room for it near its places.
    fn insert(&self, hash: Hash, found: Found) -> bool {
        let tag = tag_of(hash);
        let first = hash.0 as usize & self.mask;
        let value = u64::from(tag) << 32 | which(found);
        let places = [first, self.other(first, tag)];
        let free = |at: usize| {
            let bucket = self.buckets.get(at)?;
            bucket.0.iter().find(|entry| entry.load(Relaxed) == 0)
        };
        let slot = places.into_iter().find_map(free).or_else(|| {
            // One that stands here and has room elsewhere makes way.
            places.into_iter().find_map(|at| {
                self.buckets.get(at)?.0.iter().find_map(|entry| {
                    let held = entry.load(Relaxed);
                    let elsewhere = self.other(at, (held >> 32) as u32);
                    let room = free(elsewhere).filter(|_| elsewhere != at)?;
                    room.store(held, Release);
                    Some(entry)
                })
            })
        });
        let Some(slot) = slot else { return false };
        slot.store(value, Release);
        self.entries.fetch_add(1, Relaxed);
        true
    }

    /// The other bucket of an entry that may stand in bucket `at`.
    #[inline(always)]
    fn other(&self, at: usize, tag: u32) -> usize {
        (at ^ tag.wrapping_mul(0x5bd1_e995) as usize) & self.mask
    }

    /// Whether so many entries are too many.
    fn is_crowded(&self) -> bool {
        self.entries.load(Relaxed) * 4 >= self.buckets.len() * WAYS * 3
    }
}

impl Bucket {
    #[inline(always)]
    fn find(&self, tag: u32) -> Option<u64> {
        for entry in &self.0 {
            let value = entry.load(Acquire);
            if (value >> 32) as u32 == tag {
                return Some(value);
            }
        }
        None
    }
}

#[inline(always)]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// What of the hash stands in an entry; never 0, so that an empty entry is none.
#[inline(always)]
fn tag_of(hash: Hash) -> u32 {
    ((hash.0 >> 32) as u32).max(1)
}

/// What stands in an entry beside the hash; never 0.
fn which(found: Found) -> u64 {
    u64::from(found.record << 1 | u32::from(found.reply)) + 1
}

#[inline(always)]
fn found_of(entry: u64) -> Found {
    let which = (entry as u32).wrapping_sub(1);
    Found { record: which >> 1, reply: which & 1 == 1 }
}

/// The table; see the top of the file.
pub(super) struct FlowTable {
    index: ArcSwap<Index>,
    chunks: [OnceLock<Box<[Record]>>; CHUNKS],
    /// Records that there are.
    records: AtomicUsize,
}

const CHUNKS: usize = 25;
/// The length of the first chunk.
const FIRST: usize = 64;

impl FlowTable {
    pub(super) fn new() -> Self {
        Self {
            index: ArcSwap::from_pointee(Index::new(8, fastrand::u64(..))),
            chunks: [const { OnceLock::new() }; CHUNKS],
            records: AtomicUsize::new(0),
        }
    }

    /// The index as it is now, for lookups of a batch.
    #[inline]
    pub(super) fn index(&self) -> Guard<Arc<Index>> {
        self.index.load()
    }

    /// The record with a number.
    #[inline(always)]
    pub(super) fn record(&self, number: u32) -> Option<&Record> {
        let place = number as usize + FIRST;
        let chunk = place.ilog2() - FIRST.ilog2();
        self.chunks.get(chunk as usize)?.get()?.get(place - (FIRST << chunk))
    }

    /// What is done with a packet, if the record is that of its flow. None also when the record changes.
    #[inline(always)]
    pub(super) fn view(&self, found: Found, key: Key) -> Option<View<'_>> {
        let record = self.record(found.record)?;
        let before = record.version.load(Acquire);
        let view = record.view(found);
        let same = record.key(found.reply) == key.flow && record.map.load(Relaxed) == key.map;
        fence(Acquire);
        let unchanged = record.version.load(Relaxed) == before && before & 1 == 0;
        (same && unchanged).then_some(view)
    }

    /// Looks a key up, thoroughly. With the lock, what is not found is not there.
    pub(super) fn find(&self, key: Key) -> Option<View<'_>> {
        let index = self.index();
        let found = index.probe_all(index.hash(key)).map(|(found, _)| found).collect::<Vec<_>>();
        found.into_iter().find_map(|found| self.view(found, key))
    }

    /// Whether a key is there. With the lock.
    pub(super) fn contains(&self, key: Key) -> bool {
        let index = self.index();
        index.probe_all(index.hash(key)).any(|(found, _)| self.view(found, key).is_some())
    }

    /// Adds a record for a mapping that nobody finds yet; `free` is the number of a free one. With the lock.
    /// None when the table has as many as it can have.
    pub(super) fn add(&self, free: Option<u32>, new: &NewMapping) -> Option<u32> {
        let number = match free {
            Some(number) => number,
            None => self.new_record()?,
        };
        let record = self.record(number)?;
        // Who sees any of what follows sees that the record is free.
        fence(Release);
        record.map.store(new.map, Relaxed);
        for (to, key) in record.addresses.iter().zip(&new.keys) {
            to.store(key.addresses, Relaxed);
        }
        for (to, key) in record.ports.iter().zip(&new.keys) {
            to.store(key.ports, Relaxed);
        }
        let (ip, transport) = new.deltas;
        record.deltas.store(u32::from(ip) << 16 | u32::from(transport), Relaxed);
        let [forward, reply] = new.outputs;
        record.outputs.store(u32::from(forward) << 16 | u32::from(reply), Relaxed);
        record.touched.store(new.touched, Relaxed);
        record.state.store(new.state, Relaxed);
        record.input.store(new.input, Relaxed);
        record.born.store(new.born, Relaxed);
        record.version.fetch_add(1, Release);
        Some(number)
    }

    /// Lets a record be found by one of its keys. With the lock.
    pub(super) fn enter(&self, found: Found) {
        let Some(record) = self.record(found.record) else { return };
        let key = Key { flow: record.key(found.reply), map: record.map() };
        loop {
            let index = self.index.load_full();
            if !index.is_crowded() && index.insert(index.hash(key), found) {
                return;
            }
            self.index.store(Arc::new(self.grown(&index)));
        }
    }

    /// Lets the entry for a key lead to the other key of the same record. With the lock.
    pub(super) fn redirect(&self, from: Found, to: Found) {
        let Some(record) = self.record(from.record) else { return };
        let key = Key { flow: record.key(from.reply), map: record.map() };
        let index = self.index();
        let entry = index.probe_all(index.hash(key)).find(|(found, _)| *found == from);
        if let Some((_, entry)) = entry {
            entry.store(entry.load(Relaxed) & !0xffff_ffff | which(to), Release);
        }
    }

    /// Takes a mapping out: its record is free. With the lock.
    pub(super) fn remove(&self, number: u32) {
        let Some(record) = self.record(number).filter(|record| record.is_live()) else { return };
        record.version.fetch_add(1, AcqRel);
        let index = self.index();
        for reply in [false, true] {
            let key = Key { flow: record.key(reply), map: record.map() };
            for (found, entry) in index.probe_all(index.hash(key)) {
                if found == (Found { record: number, reply }) {
                    entry.store(0, Release);
                    index.entries.fetch_sub(1, Relaxed);
                }
            }
        }
    }

    /// Every mapping.
    pub(super) fn records(&self) -> impl Iterator<Item = (u32, &Record)> {
        let numbers = 0..u32::try_from(self.records.load(Acquire)).unwrap_or(u32::MAX);
        let records = numbers.filter_map(|number| Some((number, self.record(number)?)));
        records.filter(|(_, record)| record.is_live())
    }

    /// Bytes that records and index take.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let records = self.chunks.iter().filter_map(OnceLock::get).map(|chunk| chunk.len());
        records.sum::<usize>() * size_of::<Record>()
            + self.index().buckets.len() * size_of::<Bucket>()
    }

    fn new_record(&self) -> Option<u32> {
        let number = self.records.load(Relaxed);
        let chunk = (number + FIRST).ilog2() - FIRST.ilog2();
        let len = FIRST << chunk;
        self.chunks.get(chunk as usize)?.get_or_init(|| (0..len).map(|_| Record::free()).collect());
        self.records.store(number + 1, Release);
        u32::try_from(number).ok()
    }

    /// An index of twice the size with the same entries.
    fn grown(&self, old: &Index) -> Index {
        let mut buckets = old.buckets.len() * 2;
        loop {
            let new = Index::new(buckets, old.seed);
            let mut entries = old.buckets.iter().flat_map(|bucket| &bucket.0);
            let fits = entries.all(|entry| {
                let entry = entry.load(Relaxed);
                let Some(found) = (entry != 0).then(|| found_of(entry)) else { return true };
                let Some(record) = self.record(found.record) else { return true };
                let key = Key { flow: record.key(found.reply), map: record.map() };
                new.insert(new.hash(key), found)
            });
            if fits {
                return new;
            }
            buckets *= 2;
        }
    }
}

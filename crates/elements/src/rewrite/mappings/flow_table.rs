//! The flow table: mappings that are found by either of two keys.
//!
//! # Layout
//! A mapping is a [record](Records) of one cache line. The [index](Index) is the one that all flow tables use; a
//! key's space is the number of the map.
//!
//! # Threads
//! Any number of threads look up without waiting and without writing. One thread at a time changes the table
//! (the caller holds a lock for that). A record has a version, which is odd while the record changes or is free. A
//! reader checks the version before and after, as with a seqlock, and treats a record that changed as not found.
//! A reader that finds nothing has to look again with the lock.
//!
//! # Memory
//! 64 bytes per record, with at most as many free records again, plus 64; 8 bytes per index entry, two entries per
//! record, and an index at least three eighths full once it has grown. That is at most 171 bytes per mapping beyond
//! the first hundred.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use millrace_core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use millrace_core::sync::atomic::{AtomicU32, AtomicU64, fence};

use crate::flows::key::{FlowId, Key};
use crate::flows::table::index::{Found, Index};
use crate::flows::table::records::Records;

/// A mapping. Fields without a stated direction apply to both.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Record {
    version: AtomicU32,
    map: AtomicU32,
    /// The keys: of the flow, of its replies.
    addresses: [AtomicU64; 2],
    ports: [AtomicU32; 2],
    /// The amounts to add to the checksums of the IP header (upper half) and of the transport header, forward.
    deltas: AtomicU32,
    /// The outputs: forward (upper half), replies.
    outputs: AtomicU32,
    /// When the last packet arrived, in milliseconds.
    pub(crate) touched: AtomicU64,
    /// What was seen of the flow, 8 bits; an annotation for replies, 8 bits; flags; the protocol, 8 bits.
    pub(crate) state: AtomicU32,
    /// The input that made the mapping.
    pub(crate) input: AtomicU32,
    /// The number of the mapping, counted from the first one.
    pub(crate) born: AtomicU32,
    /// The number of its valid entry in the order of expiry.
    pub(crate) ticket: AtomicU32,
}

/// The position of the annotation for replies in the state of a mapping.
pub(crate) const ANNO_SHIFT: u32 = 8;
/// A flag: sequence numbers are shifted.
pub(crate) const SHIFTED: u32 = 1 << 16;
/// The position of the protocol.
pub(super) const PROTOCOL_SHIFT: u32 = 24;

/// The contents of a new mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewMapping {
    pub(crate) keys: [FlowId; 2],
    pub(crate) map: u32,
    pub(crate) deltas: (u16, u16),
    pub(crate) outputs: [u16; 2],
    pub(crate) touched: u64,
    pub(crate) state: u32,
    pub(crate) input: u32,
    pub(crate) born: u32,
}

/// How a packet of a flow is rewritten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'t> {
    pub(crate) record: &'t Record,
    pub(crate) found: Found,
    /// The flow that the packet is rewritten to.
    pub(crate) to: FlowId,
    /// The amounts to add to the checksums of the IP header and of the transport header.
    pub(crate) deltas: (u16, u16),
    pub(crate) output: u16,
    pub(crate) state: u32,
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

    /// Whether the record holds a mapping.
    pub(crate) fn is_live(&self) -> bool {
        self.version.load(Relaxed) & 1 == 0
    }

    /// The map that the mapping belongs to.
    pub(crate) fn map(&self) -> u32 {
        self.map.load(Relaxed)
    }

    /// A key of the mapping.
    #[inline(always)]
    pub(crate) fn key(&self, reply: bool) -> FlowId {
        let [forward_addresses, reply_addresses] = &self.addresses;
        let [forward_ports, reply_ports] = &self.ports;
        let (addresses, ports) = match reply {
            false => (forward_addresses, forward_ports),
            true => (reply_addresses, reply_ports),
        };
        FlowId { addresses: addresses.load(Relaxed), ports: ports.load(Relaxed) }
    }

    /// A key as the table uses it.
    fn table_key(&self, reply: bool) -> Key {
        Key { flow: self.key(reply), space: self.map() }
    }

    /// Copies the annotation for replies from another mapping, whose state is `state`.
    pub(crate) fn take_annotation(&self, state: u32) {
        let mask = 0xff << ANNO_SHIFT;
        self.state.fetch_and(!mask, Relaxed);
        self.state.fetch_or(state & mask, Relaxed);
    }

    /// The outputs: forward, replies.
    pub(crate) fn outputs(&self) -> [u16; 2] {
        let outputs = self.outputs.load(Relaxed);
        [(outputs >> 16) as u16, outputs as u16]
    }

    /// How packets of one direction are rewritten.
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

/// The table; see the top of the file.
pub(crate) struct FlowTable {
    index: ArcSwap<Index>,
    records: Records<Record>,
}

impl FlowTable {
    pub(crate) fn new() -> Self {
        Self {
            index: ArcSwap::from_pointee(Index::new(8, fastrand::u64(..))),
            records: Records::new(),
        }
    }

    /// The size in bytes with this many mappings, each with two keys.
    pub(crate) fn bytes_for(mappings: usize) -> usize {
        let index = Index::bytes_for(mappings.saturating_mul(2));
        Records::<Record>::bytes_for(mappings).saturating_add(index)
    }

    /// The current index, for lookups of a batch.
    #[inline]
    pub(crate) fn index(&self) -> Guard<Arc<Index>> {
        self.index.load()
    }

    /// The record with a number.
    #[inline(always)]
    pub(crate) fn record(&self, number: u32) -> Option<&Record> {
        self.records.get(number)
    }

    /// How a packet is rewritten, if the record is that of its flow; `None` if not, or if the record changes.
    #[inline(always)]
    pub(crate) fn view(&self, found: Found, key: Key) -> Option<View<'_>> {
        let record = self.record(found.record)?;
        let before = record.version.load(Acquire);
        let view = record.view(found);
        let same = record.key(found.reply) == key.flow && record.map.load(Relaxed) == key.space;
        fence(Acquire);
        let unchanged = record.version.load(Relaxed) == before && before & 1 == 0;
        (same && unchanged).then_some(view)
    }

    /// Looks up a key in all possible places. With the lock, a key that is not found does not exist.
    pub(crate) fn find(&self, key: Key) -> Option<View<'_>> {
        let index = self.index();
        let found = index.probe_all(index.hash(key)).map(|(found, _)| found).collect::<Vec<_>>();
        found.into_iter().find_map(|found| self.view(found, key))
    }

    /// Whether a key exists. Requires the lock.
    pub(crate) fn contains(&self, key: Key) -> bool {
        let index = self.index();
        index.probe_all(index.hash(key)).any(|(found, _)| self.view(found, key).is_some())
    }

    /// Adds a record for a mapping, which lookups do not find yet; `free` is the number of a free record. Requires
    /// the lock. Returns `None` if the table cannot hold more records.
    pub(crate) fn add(&self, free: Option<u32>, new: &NewMapping) -> Option<u32> {
        let number = match free {
            Some(number) => number,
            None => self.records.add(Record::free)?,
        };
        let record = self.record(number)?;
        // A thread that sees any of the stores below also sees that the record is free.
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

    /// Enters one of a record's keys into the index. Requires the lock.
    pub(crate) fn enter(&self, found: Found) {
        let Some(record) = self.record(found.record) else { return };
        let key = record.table_key(found.reply);
        let hash_of = |index: &Index, found: Found| {
            Some(index.hash(self.record(found.record)?.table_key(found.reply)))
        };
        loop {
            let index = self.index.load_full();
            if !index.is_crowded() && index.insert(index.hash(key), found) {
                return;
            }
            self.index.store(Arc::new(index.grown(hash_of)));
        }
    }

    /// Makes the index entry of a key lead to the other key of the same record. Requires the lock.
    pub(crate) fn redirect(&self, from: Found, to: Found) {
        let Some(record) = self.record(from.record) else { return };
        let index = self.index();
        index.redirect(index.hash(record.table_key(from.reply)), from, to);
    }

    /// Removes a mapping and frees its record. Requires the lock.
    pub(crate) fn remove(&self, number: u32) {
        let Some(record) = self.record(number).filter(|record| record.is_live()) else { return };
        // Who sees anything of the next mapping sees this, too: `add` has a fence before that.
        record.version.fetch_add(1, Relaxed);
        let index = self.index();
        for reply in [false, true] {
            index.remove(index.hash(record.table_key(reply)), Found { record: number, reply });
        }
    }

    /// Every mapping.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u32, &Record)> {
        self.records.iter().filter(|(_, record)| record.is_live())
    }

    /// Bytes of memory that the records and the index use.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.records.memory() + self.index().memory()
    }
}

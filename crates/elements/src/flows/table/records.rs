//! Records that never move, accessed by number.
//!
//! They are stored in chunks, each twice as long as the one before. So adding records copies none, and records can be
//! read while others are added.

use std::ops::Range;
use std::sync::OnceLock;

use millrace_core::sync::IS_MODEL;
use millrace_core::sync::atomic::AtomicUsize;
use millrace_core::sync::atomic::Ordering::Relaxed;

/// Records by number, counted from 0.
pub(crate) struct Records<R> {
    chunks: [OnceLock<Box<[R]>>; CHUNKS],
    /// The number of records. It orders nothing: who reads it has the lock, or sees a chunk or does not.
    len: AtomicUsize,
}

const CHUNKS: usize = 25;
/// The length of the first chunk.
const FIRST: usize = if IS_MODEL { 1 } else { 64 };

impl<R> Records<R> {
    pub(crate) fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS], len: AtomicUsize::new(0) }
    }

    /// The record with a number.
    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&R> {
        let place = number as usize + FIRST;
        let chunk = place.ilog2() - FIRST.ilog2();
        self.chunks.get(chunk as usize)?.get()?.get(place - (FIRST << chunk))
    }

    /// The numbers of all records.
    pub(crate) fn numbers(&self) -> Range<u32> {
        0..u32::try_from(self.len.load(Relaxed)).unwrap_or(u32::MAX)
    }

    /// Every record.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        self.numbers().filter_map(|number| Some((number, self.get(number)?)))
    }

    /// Adds a record and returns its number; `new` fills a new chunk. `None` when there is no room. Only one thread at
    /// a time may call it.
    pub(crate) fn add(&self, new: impl Fn() -> R) -> Option<u32> {
        let number = self.len.load(Relaxed);
        let chunk = (number + FIRST).ilog2() - FIRST.ilog2();
        let len = FIRST << chunk;
        self.chunks.get(chunk as usize)?.get_or_init(|| (0..len).map(|_| new()).collect());
        self.len.store(number + 1, Relaxed);
        u32::try_from(number).ok()
    }

    /// The size in bytes with this many records.
    pub(crate) fn bytes_for(records: usize) -> usize {
        let last = (records.saturating_sub(1).saturating_add(FIRST)).ilog2() - FIRST.ilog2();
        // Each chunk is as long as all before it together, and one first one more.
        let all = (FIRST << (last as usize + 1).min(CHUNKS)) - FIRST;
        all.saturating_mul(size_of::<R>())
    }

    /// The size in bytes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get).map(|chunk| chunk.len());
        chunks.sum::<usize>() * size_of::<R>()
    }
}

//! The index of a flow table: record numbers, found by hashes of keys.
//!
//! A bucket is one cache line with eight entries: 32 bits of the hash, and the number of a record and of its key. An
//! entry may be in either of two buckets; the second follows from the first and from the bits in the entry (partial-key
//! cuckoo hashing, Fan et al., CoNEXT 2014). So a lookup usually needs two cache lines, and both can be prefetched.
//!
//! Any number of threads look up without waiting and without writing. One thread at a time changes the index. An entry
//! that moves is written to its new bucket before it is removed from the old one. A reader may miss an entry that is
//! added, removed or moved at that moment: it then has to look again while no thread changes the index. Nothing here is
//! ordered: what an entry leads to has a version of its own, and who has to know whether it has missed something counts the
//! changes, with fences.

use millrace_core::memory::prefetch;
use millrace_core::sync::IS_MODEL;
use millrace_core::sync::atomic::Ordering::Relaxed;
use millrace_core::sync::atomic::{AtomicU64, AtomicUsize};

use crate::flows::key::{TableKey, fold};

/// A record, found by one of its two keys. A record with only one key is never found by the reply's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The number of the record.
    pub(crate) record: u32,
    /// Whether the key is that of the replies.
    pub(crate) reply: bool,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    seed: u64,
    /// The number of buckets less one; they are a power of two.
    mask: usize,
    buckets: Box<[Bucket]>,
    entries: AtomicUsize,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

const WAYS: usize = if IS_MODEL { 2 } else { 8 };

/// A hash: the lower half selects the bucket, the upper half goes into the entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hash(u64);

impl Index {
    /// An index with this many buckets, rounded up; the seed changes the hashes.
    pub(crate) fn new(buckets: usize, seed: u64) -> Self {
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
    pub(crate) fn hash(&self, key: impl TableKey) -> Hash {
        Hash(fold(key.mix(self.seed), 0xd6e8_feb8_6659_fd93 ^ self.seed.rotate_left(23)))
    }

    /// Prefetches the bucket where an entry usually is.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: Hash) {
        if let Some(bucket) = self.buckets.get(hash.0 as usize & self.mask) {
            prefetch(bucket);
        }
    }

    /// The first entry with this hash, if any.
    #[inline(always)]
    pub(crate) fn probe(&self, hash: Hash) -> Option<Found> {
        let tag = tag_of(hash);
        let first = hash.0 as usize & self.mask;
        let found = self.buckets.get(first).and_then(|bucket| bucket.find(tag));
        match found {
            Some(entry) => Some(found_of(entry)),
            None => self.buckets.get(self.other(first, tag))?.find(tag).map(found_of),
        }
    }

    /// Every entry with this hash.
    pub(crate) fn probe_all(&self, hash: Hash) -> impl Iterator<Item = (Found, &AtomicU64)> {
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

    /// Inserts an entry; returns false when there is no room for it in or near its buckets.
    pub(crate) fn insert(&self, hash: Hash, found: Found) -> bool {
        let tag = tag_of(hash);
        let first = hash.0 as usize & self.mask;
        let value = u64::from(tag) << 32 | which(found);
        let places = [first, self.other(first, tag)];
        let free = |at: usize| {
            let bucket = self.buckets.get(at)?;
            bucket.0.iter().find(|entry| entry.load(Relaxed) == 0)
        };
        let slot = places.into_iter().find_map(free).or_else(|| {
            // An entry that has room in its other bucket makes way.
            places.into_iter().find_map(|at| {
                self.buckets.get(at)?.0.iter().find_map(|entry| {
                    let held = entry.load(Relaxed);
                    let elsewhere = self.other(at, (held >> 32) as u32);
                    let room = free(elsewhere).filter(|_| elsewhere != at)?;
                    room.store(held, Relaxed);
                    Some(entry)
                })
            })
        });
        let Some(slot) = slot else { return false };
        slot.store(value, Relaxed);
        self.entries.fetch_add(1, Relaxed);
        true
    }

    /// Changes the entry with this hash that leads to `from` so that it leads to `to`.
    pub(crate) fn redirect(&self, hash: Hash, from: Found, to: Found) {
        let entry = self.probe_all(hash).find(|(found, _)| *found == from);
        if let Some((_, entry)) = entry {
            entry.store(entry.load(Relaxed) & !0xffff_ffff | which(to), Relaxed);
        }
    }

    /// Removes the entries with this hash that lead to `gone`.
    pub(crate) fn remove(&self, hash: Hash, gone: Found) {
        for (found, entry) in self.probe_all(hash) {
            if found == gone {
                entry.store(0, Relaxed);
                self.entries.fetch_sub(1, Relaxed);
            }
        }
    }

    /// An index of at least twice the size with the same entries; `hash` returns their hashes in the new index.
    pub(crate) fn grown(&self, hash: impl Fn(&Self, Found) -> Option<Hash>) -> Self {
        let mut buckets = self.buckets.len() * 2;
        loop {
            let new = Self::new(buckets, self.seed);
            let mut entries = self.buckets.iter().flat_map(|bucket| &bucket.0);
            let fits = entries.all(|entry| {
                let entry = entry.load(Relaxed);
                let Some(found) = (entry != 0).then(|| found_of(entry)) else { return true };
                let Some(hash) = hash(&new, found) else { return true };
                new.insert(hash, found)
            });
            if fits {
                return new;
            }
            buckets *= 2;
        }
    }

    /// The size in bytes with this many entries, while it grows to that.
    pub(crate) fn bytes_for(entries: usize) -> usize {
        let buckets = (entries.saturating_mul(4) / (3 * WAYS) + 1).checked_next_power_of_two();
        let bytes = buckets.unwrap_or(usize::MAX).max(8).saturating_mul(size_of::<Bucket>());
        bytes.saturating_add(bytes / 2)
    }

    /// The size in bytes.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// The other bucket of an entry that may be in bucket `at`.
    #[inline(always)]
    fn other(&self, at: usize, tag: u32) -> usize {
        (at ^ tag.wrapping_mul(0x5bd1_e995) as usize) & self.mask
    }

    /// Whether the index holds too many entries.
    pub(crate) fn is_crowded(&self) -> bool {
        self.entries.load(Relaxed) * 4 >= self.buckets.len() * WAYS * 3
    }
}

impl Bucket {
    #[inline(always)]
    fn find(&self, tag: u32) -> Option<u64> {
        for entry in &self.0 {
            let value = entry.load(Relaxed);
            if (value >> 32) as u32 == tag {
                return Some(value);
            }
        }
        None
    }
}

/// The part of the hash in an entry; never 0, so that it never matches an empty entry.
#[inline(always)]
fn tag_of(hash: Hash) -> u32 {
    ((hash.0 >> 32) as u32).max(1)
}

/// The rest of an entry, without the hash; never 0.
fn which(found: Found) -> u64 {
    u64::from(found.record << 1 | u32::from(found.reply)) + 1
}

#[inline(always)]
fn found_of(entry: u64) -> Found {
    let which = (entry as u32).wrapping_sub(1);
    Found { record: which >> 1, reply: which & 1 == 1 }
}

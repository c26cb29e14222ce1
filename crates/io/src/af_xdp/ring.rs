//! The rings that a socket shares with the kernel: each has one writer and one reader.

#![allow(unsafe_code, reason = "memory that is shared with the kernel")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::sys::Shared;

/// A packet in a ring: its address, its length, and whether it continues in the next descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Place {
    /// Offset in the packet memory: a start in the low 48 bits, to which the high 16 bits are added.
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) options: u32,
}

/// The number of address bits for the start of the chunk; the other bits are the offset of the data.
const START_BITS: u32 = 48;

impl Place {
    /// `XDP_PKT_CONTD`: the packet continues in the next descriptor.
    pub(super) const CONTINUED: u32 = 1;

    pub(super) fn is_continued(self) -> bool {
        self.options & Self::CONTINUED != 0
    }
}

/// The address of data that is `offset` bytes after `start`.
pub(super) fn address(start: u64, offset: u64) -> u64 {
    start | offset << START_BITS
}

/// The position of the data at an address.
pub(super) fn position(address: u64) -> u64 {
    (address & ((1 << START_BITS) - 1)) + (address >> START_BITS)
}

/// The positions of a ring's parts in its memory (`struct xdp_ring_offset`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Layout {
    producer: u64,
    consumer: u64,
    entries: u64,
    flags: u64,
}

impl Layout {
    /// The size in bytes of a ring with this many entries of type `T`.
    pub(super) fn len<T>(&self, size: u32) -> usize {
        self.entries as usize + size as usize * size_of::<T>()
    }
}

/// The state that both sides of a ring have.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
}

// SAFETY: the pointers lead to memory that is shared with the kernel, and one thread at a time uses
// the ring; the entries are plain numbers.
unsafe impl<T: Copy> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// # Safety
    /// `memory` is mapped as long as the ring is used, and is one of the socket's rings with `size` entries
    /// of type `T`, a power of two.
    unsafe fn new(memory: &Shared, layout: &Layout, size: u32) -> Option<Self> {
        let word = |at: u64| memory.at(at as usize, 4).map(NonNull::cast);
        Some(Self {
            producer: word(layout.producer)?,
            consumer: word(layout.consumer)?,
            flags: word(layout.flags)?,
            entries: memory.at(layout.entries as usize, size as usize * size_of::<T>())?.cast(),
            size,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: mapped, aligned, and only ever used as an atomic.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    fn wants_call(&self) -> bool {
        const NEED_WAKEUP: u32 = 1;
        // SAFETY: as above.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: the index is cut to the number of entries.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// The writing side of a ring: ours for the fill and the transmit ring.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Entries written, whether or not they are published.
    written: u32,
    /// Entries that the kernel had read at the last check.
    read: u32,
}

impl<T: Copy> Producer<T> {
    /// # Safety
    /// See [`Ring::new`], for a ring that the kernel reads.
    pub(super) unsafe fn new(memory: &Shared, layout: &Layout, size: u32) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(Self { ring: unsafe { Ring::new(memory, layout, size) }?, written: 0, read: 0 })
    }

    /// The number of free entries, at least `wanted` if there are as many.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let room = self.ring.size - self.written.wrapping_sub(self.read);
        if room >= wanted {
            return room;
        }
        self.read = self.ring.consumer().load(Ordering::Acquire);
        self.ring.size - self.written.wrapping_sub(self.read)
    }

    /// Writes the next entry. The kernel sees it after it is [published](Self::publish).
    ///
    /// # Safety
    /// There is [room](Self::room), and the memory of the entry belongs to the kernel from now on.
    #[inline]
    pub(super) unsafe fn write(&mut self, entry: T) {
        // SAFETY: the entry lies in the ring, and the kernel does not read it yet.
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
    }

    /// Makes the written entries visible to the kernel.
    #[inline]
    pub(super) fn publish(&self) {
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// Whether the kernel needs a call to look at the ring.
    #[inline]
    pub(super) fn wants_call(&self) -> bool {
        // The kernel sets the flag and looks at the ring; we write to the ring and look at the flag.
        // Were our load done before our store is seen, both could miss each other. A flag that is set
        // already says enough.
        self.ring.wants_call() || {
            fence(Ordering::SeqCst);
            self.ring.wants_call()
        }
    }

    /// How many entries the kernel has not read yet.
    pub(super) fn unread(&self) -> u32 {
        self.written.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }
}

/// The reading side of a ring: ours for the receive and the completion ring.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Entries read, whether or not they are released.
    read: u32,
    /// Entries that the kernel had written at the last check.
    written: u32,
}

impl<T: Copy> Consumer<T> {
    /// # Safety
    /// See [`Ring::new`], for a ring that the kernel writes.
    pub(super) unsafe fn new(memory: &Shared, layout: &Layout, size: u32) -> Option<Self> {
        // SAFETY: the caller's promise.
        Some(Self { ring: unsafe { Ring::new(memory, layout, size) }?, read: 0, written: 0 })
    }

    /// The number of entries to read, at least `wanted` if there are as many.
    #[inline]
    pub(super) fn available(&mut self, wanted: u32) -> u32 {
        let available = self.written.wrapping_sub(self.read);
        if available >= wanted {
            return available;
        }
        self.written = self.ring.producer().load(Ordering::Acquire);
        self.written.wrapping_sub(self.read)
    }

    /// The entry `ahead` places after the next one, if it is [available](Self::available).
    #[inline]
    pub(super) fn peek(&self, ahead: u32) -> Option<T> {
        if ahead >= self.written.wrapping_sub(self.read) {
            return None;
        }
        // SAFETY: the kernel has written the entry and does not touch it until it is given back; any
        // bytes are a value of the entries' types, which are numbers.
        Some(unsafe { self.ring.entry(self.read.wrapping_add(ahead)).read() })
    }

    /// Moves on past `count` entries that were read.
    #[inline]
    pub(super) fn skip(&mut self, count: u32) {
        let available = self.written.wrapping_sub(self.read);
        self.read = self.read.wrapping_add(count.min(available));
    }

    /// Releases the entries that were read to the kernel.
    #[inline]
    pub(super) fn release(&self) {
        self.ring.consumer().store(self.read, Ordering::Release);
    }

    /// The number of entries of the ring.
    pub(super) fn size(&self) -> u32 {
        self.ring.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sides of a ring of four numbers, in private memory.
    fn ring() -> (Shared, Producer<u64>, Consumer<u64>) {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("ring", flags).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let memory = Shared::map(&file, 4096, 0).unwrap();
        let layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 256 };
        assert_eq!(layout.len::<u64>(4), 256 + 32);
        // SAFETY: the memory outlives both sides in each test, and they use it alike.
        let sides = unsafe {
            (
                Producer::new(&memory, &layout, 4).unwrap(),
                Consumer::new(&memory, &layout, 4).unwrap(),
            )
        };
        (memory, sides.0, sides.1)
    }

    #[test]
    fn entries_arrive_in_order_and_the_ring_turns() {
        let (_memory, mut producer, mut consumer) = ring();
        let mut next = 0;
        for n in 0..50u64 {
            let count = n % 5;
            assert_eq!(producer.room(4), 4);
            for at in 0..count {
                // SAFETY: there is room, and the numbers name no memory.
                unsafe { producer.write(n * 10 + at) };
            }
            assert_eq!(consumer.available(1), 0, "not published yet");
            producer.publish();
            assert_eq!(consumer.available(4), count as u32);
            assert_eq!(producer.unread(), count as u32);
            let got: Vec<u64> = (0..9).filter_map(|ahead| consumer.peek(ahead)).collect();
            assert!(got.iter().copied().eq((0..count).map(|at| n * 10 + at)));
            consumer.skip(count as u32);
            consumer.release();
            next += count;
        }
        assert!(next > 50);
    }

    #[test]
    fn a_full_ring_has_no_room_until_it_is_read() {
        let (memory, mut producer, mut consumer) = ring();
        for n in 0..4 {
            assert_eq!(producer.room(1), 4 - n);
            // SAFETY: there is room, and the numbers name no memory.
            unsafe { producer.write(n.into()) };
        }
        producer.publish();
        assert_eq!(producer.room(1), 0);
        assert_eq!(consumer.available(1), 4);
        consumer.skip(99);
        assert_eq!(consumer.available(1), 0, "no more than there are");
        assert_eq!(producer.room(1), 0, "not given back yet");
        consumer.release();
        assert_eq!(producer.room(1), 4);
        assert!(!producer.wants_call());
        // SAFETY: the word lies within the mapping, and both sides use it as an atomic, too.
        unsafe { memory.at(128, 4).unwrap().cast::<AtomicU32>().as_ref() }
            .store(1, Ordering::Relaxed);
        assert!(producer.wants_call());
        let layout = Layout { entries: 4090, ..Layout::default() };
        // SAFETY: nothing is read or written where there is no room for the ring.
        assert!(unsafe { Producer::<u64>::new(&memory, &layout, 4) }.is_none());
    }

    #[test]
    fn addresses_name_positions() {
        assert_eq!(position(address(0x1000, 0x123)), 0x1123);
        assert_eq!(position(0x1123), 0x1123);
    }
}

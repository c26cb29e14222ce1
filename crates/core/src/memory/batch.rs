//! Batches: contiguous arrays of packet pointers that travel through the graph.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut, Range};

use super::cache;
use super::class::{DEFAULT_HEADROOM, STANDARD_ROOM};
use super::descriptor::{Slot, prefetch};
use super::packet::Packet;

/// Up to [`Batch::CAPACITY`] packets in order.
///
/// The array is on the heap and never grows, so a batch is made once and reused; swapping two batches swaps
/// two pointers. It dereferences to a slice of packets. Clearing or dropping it frees all packets with one
/// call.
///
/// # Loops
/// [`for_each`](Batch::for_each), [`map_filter`](Batch::map_filter) and [`classify`](Batch::classify) are the
/// library's loops over packets. While they work on one packet, they prefetch the descriptors of the packets
/// [`LOOK_AHEAD`](Batch::LOOK_AHEAD) places ahead. The `_ahead` forms choose how far. For packets outside the
/// near caches, with about 200 instructions of work for each, 4 places ahead make the loop 1.8 times as fast
/// as none (2 and 8 are as good), and 3.8 times as fast after a call of
/// [`prefetch_data`](Batch::prefetch_data). For packets in the cache, prefetching costs 4 instructions.
pub struct Batch {
    slots: Box<Array>,
    len: usize,
}

type Array = [MaybeUninit<Packet>; Batch::CAPACITY];

/// For each packet of a batch, the output that it goes to.
pub type Ports = [u16; Batch::CAPACITY];

impl Batch {
    /// The maximum number of packets in a batch.
    pub const CAPACITY: usize = 256;

    /// How many packets ahead of the current one the loops prefetch.
    pub const LOOK_AHEAD: usize = 4;

    /// An empty batch.
    pub fn new() -> Batch {
        Batch { slots: Box::new([const { MaybeUninit::uninit() }; Batch::CAPACITY]), len: 0 }
    }

    /// The number of packets in the batch.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the batch is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the batch is full.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len == Batch::CAPACITY
    }

    /// The number of packets that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        Batch::CAPACITY - self.len
    }

    /// Adds a packet at the end.
    ///
    /// # Errors
    /// The packet itself when the batch is full.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        match self.slots.get_mut(self.len) {
            Some(entry) => {
                entry.write(packet);
                self.len += 1;
                Ok(())
            }
            None => Err(packet),
        }
    }

    /// Removes and returns the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: entries below the old length are initialised; this one is now beyond it.
        Some(unsafe { self.slots.get(self.len)?.assume_init_read() })
    }

    /// Adds `count` new packets with room to receive up to `capacity` bytes, made like
    /// [`Packet::for_receive`], or as many as there is room and memory for. Returns their number.
    pub fn allocate(&mut self, count: usize, capacity: usize) -> usize {
        let count = count.min(self.room());
        if capacity > STANDARD_ROOM - DEFAULT_HEADROOM {
            return self.allocate_large(count, capacity);
        }
        let entries = self.slots.get_mut(self.len..self.len + count).unwrap_or_default();
        // SAFETY: `MaybeUninit<Packet>` and `MaybeUninit<Slot>` are the same pointer.
        let entries = unsafe { &mut *(std::ptr::from_mut(entries) as *mut [MaybeUninit<Slot>]) };
        let taken = cache::take_standard(entries);
        for entry in entries.iter().take(taken) {
            // SAFETY: the first `taken` entries have just been written.
            unsafe { entry.assume_init() }.reset(DEFAULT_HEADROOM as u16, 0);
        }
        self.len += taken;
        taken
    }

    #[cold]
    fn allocate_large(&mut self, count: usize, capacity: usize) -> usize {
        let start = self.len;
        for _ in 0..count {
            let Some(packet) = Packet::for_receive(capacity) else { break };
            if self.push(packet).is_err() {
                break;
            }
        }
        self.len - start
    }

    /// Moves packets from the front of another batch to the end of this one, as many as there is room for.
    /// Returns their number.
    pub fn append(&mut self, other: &mut Batch) -> usize {
        let count = other.len.min(self.room());
        other.drain_front(count).move_to(self)
    }

    /// Frees all packets with one call.
    #[inline]
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Frees all packets after the first `len`, with one call.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            let freed = len..self.len;
            self.len = len;
            // SAFETY: the entries were initialised, and the batch no longer counts them.
            unsafe { self.free(freed) };
        }
    }

    /// Removes all packets, in order. Packets that the iterator does not yield are freed with it.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        self.drain_run(0..self.len)
    }

    /// Removes the first `count` packets, in order; the others move to the front.
    #[inline]
    pub fn drain_front(&mut self, count: usize) -> Drain<'_> {
        self.drain_run(0..count)
    }

    /// Removes a run of packets from the middle, in order; those behind it close the gap. A run beyond the
    /// end is truncated.
    #[inline]
    pub fn drain_run(&mut self, run: Range<usize>) -> Drain<'_> {
        let end = run.end.min(self.len);
        let start = run.start.min(end);
        let tail = end..self.len;
        // Should the drain be leaked, the batch forgets the run and the tail: a leak, never a double free.
        self.len = start;
        Drain { next: start, end, start, tail, batch: self }
    }

    /// Runs `f` on every packet, in order.
    #[inline(always)]
    pub fn for_each(&mut self, f: impl FnMut(&mut Packet)) {
        self.for_each_ahead::<{ Batch::LOOK_AHEAD }>(f);
    }

    /// Like [`for_each`](Batch::for_each) with your own look-ahead; 0 prefetches nothing.
    #[inline(always)]
    pub fn for_each_ahead<const AHEAD: usize>(&mut self, mut f: impl FnMut(&mut Packet)) {
        // Kept here, so that the compiler need not read them again after each call.
        let packets: &mut [Packet] = self;
        let len = packets.len();
        for packet in packets.iter().take(AHEAD) {
            packet.slot().prefetch();
        }
        for index in 0..len {
            if AHEAD > 0
                && let Some(packet) = packets.get(index + AHEAD)
            {
                packet.slot().prefetch();
            }
            // SAFETY: `index` is below the length.
            f(unsafe { packets.get_unchecked_mut(index) });
        }
    }

    /// Prefetches the first line of every packet's data, in one pass. For code that receives packets that are
    /// not yet in the processor's cache; the descriptors should be.
    #[inline]
    pub fn prefetch_data(&self) {
        self.iter().for_each(|packet| prefetch(packet.data().as_ptr()));
    }

    /// Replaces every packet with the result of `f`, in order; drops it where that is `None`.
    #[inline(always)]
    pub fn map_filter(&mut self, f: impl FnMut(Packet) -> Option<Packet>) {
        self.map_filter_ahead::<{ Batch::LOOK_AHEAD }>(f);
    }

    /// Like [`map_filter`](Batch::map_filter) with your own look-ahead; 0 prefetches nothing.
    #[inline(always)]
    pub fn map_filter_ahead<const AHEAD: usize>(
        &mut self,
        mut f: impl FnMut(Packet) -> Option<Packet>,
    ) {
        for packet in self.iter().take(AHEAD) {
            packet.slot().prefetch();
        }
        let mut sieve = Sieve { end: self.len, read: 0, kept: 0, batch: self };
        sieve.batch.len = 0;
        loop {
            sieve.look_ahead::<AHEAD>();
            let Some(packet) = sieve.take() else { break };
            if let Some(packet) = f(packet) {
                sieve.keep(packet);
            }
        }
    }

    /// Adds packets at the end.
    ///
    /// # Safety
    /// There is room for them.
    #[inline(always)]
    pub(crate) unsafe fn fill(&mut self, packets: impl Iterator<Item = Packet>) {
        let start: *mut MaybeUninit<Packet> = self.free_entries().as_mut_ptr();
        let mut end = start;
        for packet in packets {
            // SAFETY: the caller's promise.
            unsafe {
                (*end).write(packet);
                end = end.add(1);
            }
        }
        // SAFETY: both point into the entries, or to their end.
        self.len += unsafe { end.offset_from_unsigned(start) };
    }

    /// Keeps the packets for which `f` returns true, in order, and frees the others.
    #[inline]
    pub fn retain_mut(&mut self, mut f: impl FnMut(&mut Packet) -> bool) {
        self.map_filter(|mut packet| f(&mut packet).then_some(packet));
    }

    /// Writes the result of `f` for each packet to `ports`, in order: the first pass of routing a batch.
    #[inline(always)]
    pub fn classify(&mut self, ports: &mut Ports, f: impl FnMut(&mut Packet) -> u16) {
        self.classify_ahead::<{ Batch::LOOK_AHEAD }>(ports, f);
    }

    /// Like [`classify`](Batch::classify) with your own look-ahead; 0 prefetches nothing.
    #[inline(always)]
    pub fn classify_ahead<const AHEAD: usize>(
        &mut self,
        ports: &mut Ports,
        mut f: impl FnMut(&mut Packet) -> u16,
    ) {
        let mut entries = ports.iter_mut();
        self.for_each_ahead::<AHEAD>(|packet| {
            let port = f(packet);
            if let Some(entry) = entries.next() {
                *entry = port;
            }
        });
    }

    /// Removes all packets in runs with the same output: the second pass of routing a batch. The sink gets
    /// each run with its output, in order; packets that it leaves in the run are freed.
    #[inline]
    pub fn distribute(&mut self, ports: &[u16], mut sink: impl FnMut(u16, &mut Drain<'_>)) {
        let mut run = self.drain();
        let mut ports = ports.get(..run.end).unwrap_or(ports);
        while let [port, others @ ..] = ports {
            let same = others.iter().take_while(|other| *other == port).count();
            run.end = run.next + 1 + same;
            sink(*port, &mut run);
            run.free_rest();
            ports = others.get(same..).unwrap_or_default();
        }
    }

    /// The entries after the packets.
    #[inline(always)]
    pub(super) fn free_entries(&mut self) -> &mut [MaybeUninit<Packet>] {
        self.slots.get_mut(self.len..).unwrap_or_default()
    }

    /// Counts the first `count` free entries as packets.
    ///
    /// # Safety
    /// They have been written.
    #[inline(always)]
    pub(crate) unsafe fn take_in(&mut self, count: usize) {
        debug_assert!(count <= self.room());
        self.len += count;
    }

    /// Forgets the first `count` packets, which must exist; the others move to the front.
    #[inline(always)]
    pub(crate) fn forget_front(&mut self, count: usize) {
        let rest = count..self.len;
        self.len = rest.len();
        if !rest.is_empty() && count > 0 {
            // SAFETY: the rest is initialised and moves down, over packets that are forgotten.
            unsafe { self.shift(rest, 0) };
        }
    }

    /// # Safety
    /// The entries of the range are initialised and the caller never uses them again.
    #[inline(always)]
    unsafe fn free(&mut self, range: Range<usize>) {
        let slots = self.slots.get(range).unwrap_or_default();
        // SAFETY: `MaybeUninit<Packet>` and `Slot` are the same pointer (both wrappers are transparent), and
        // the entries are initialised.
        cache::release_all(unsafe { &*(std::ptr::from_ref(slots) as *const [Slot]) });
    }

    /// Moves entries to another position in the array.
    ///
    /// # Safety
    /// Both ranges are inside the array; moved entries are used only in one of the positions.
    #[inline(always)]
    unsafe fn shift(&mut self, from: Range<usize>, to: usize) {
        let base = self.slots.as_mut_ptr();
        // SAFETY: the caller's promise; `copy` allows overlaps.
        unsafe { std::ptr::copy(base.add(from.start), base.add(to), from.len()) };
    }
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Deref for Batch {
    type Target = [Packet];

    #[inline(always)]
    fn deref(&self) -> &[Packet] {
        // SAFETY: entries below the length are initialised.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Batch {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Packet] {
        // SAFETY: entries below the length are initialised.
        unsafe { std::slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast(), self.len) }
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Packet;
    type IntoIter = std::slice::Iter<'a, Packet>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Batch {
    type Item = &'a mut Packet;
    type IntoIter = std::slice::IterMut<'a, Packet>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Packets on their way out of a batch, in order. Those that are not taken are freed with it.
#[derive(Debug)]
pub struct Drain<'a> {
    batch: &'a mut Batch,
    /// The start of the gap that closes at the end.
    start: usize,
    next: usize,
    end: usize,
    /// The packets behind, which move up. Everything from `next` to here is initialised and not part of the
    /// batch.
    tail: Range<usize>,
}

impl Drain<'_> {
    /// Moves packets to the end of another batch, as many as there is room for, as one block. Returns their
    /// number.
    #[inline]
    pub fn move_to(&mut self, to: &mut Batch) -> usize {
        let count = self.len().min(to.room());
        if count == 1 {
            // Alternating outputs make runs of one, for which a block copy is too much.
            if let (Some(entry), Some(packet)) = (to.slots.get_mut(to.len), self.next()) {
                entry.write(packet);
                to.len += 1;
            }
            return 1;
        }
        // SAFETY: `count` initialised entries begin at `next`, and the target has that much room; two batches
        // borrowed mutably are different arrays. Both sides' bounds are moved past the block at once.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.batch.slots.as_ptr().add(self.next),
                to.slots.as_mut_ptr().add(to.len),
                count,
            );
        }
        self.next += count;
        to.len += count;
        count
    }

    /// The packets that are still left.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        let base = self.batch.slots.as_mut_ptr();
        // SAFETY: entries from `next` to `end` are initialised.
        unsafe { std::slice::from_raw_parts_mut(base.add(self.next).cast(), self.end - self.next) }
    }

    /// Frees the packets that are still left, with one call.
    #[inline]
    pub fn free_rest(&mut self) {
        if self.next == self.end {
            return;
        }
        let rest = self.next..self.end;
        self.next = self.end;
        // SAFETY: the entries are initialised, and the drain no longer counts them.
        unsafe { self.batch.free(rest) };
    }
}

impl Iterator for Drain<'_> {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        if self.next == self.end {
            return None;
        }
        let entry = self.batch.slots.get(self.next)?;
        self.next += 1;
        // SAFETY: entries from `next` to `end` are initialised; this one was just passed.
        Some(unsafe { entry.assume_init_read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.end - self.next;
        (len, Some(len))
    }
}

impl ExactSizeIterator for Drain<'_> {}
impl std::iter::FusedIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end = self.tail.start;
        self.free_rest();
        if !self.tail.is_empty() {
            // SAFETY: the tail is initialised and moves down, into entries that were taken or freed.
            unsafe { self.batch.shift(self.tail.clone(), self.start) };
        }
        self.batch.len = self.start + self.tail.len();
    }
}

/// The state of `map_filter`: packets below `kept` were kept, those from `read` on are still to come.
/// Dropping it closes the gap, also when the caller's function panics.
struct Sieve<'a> {
    batch: &'a mut Batch,
    read: usize,
    kept: usize,
    end: usize,
}

impl Sieve<'_> {
    #[inline(always)]
    fn look_ahead<const AHEAD: usize>(&self) {
        let ahead = self.read + AHEAD;
        if AHEAD > 0 && ahead < self.end {
            // SAFETY: entries from `read` to `end` are initialised, and `ahead` is one of them.
            unsafe { (*self.batch.slots.as_ptr().cast::<Slot>().add(ahead)).prefetch() };
        }
    }

    #[inline(always)]
    fn take(&mut self) -> Option<Packet> {
        if self.read == self.end {
            return None;
        }
        let entry = self.batch.slots.get(self.read)?;
        self.read += 1;
        // SAFETY: entries from `read` to `end` are initialised; this one was just passed.
        Some(unsafe { entry.assume_init_read() })
    }

    #[inline(always)]
    fn keep(&mut self, packet: Packet) {
        // SAFETY: fewer packets are kept than were read, so the entry is one that was read.
        unsafe { (*self.batch.slots.as_mut_ptr().add(self.kept)).write(packet) };
        self.kept += 1;
    }
}

impl Drop for Sieve<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let rest = self.read..self.end;
        let left = rest.len();
        if left > 0 {
            // SAFETY: the rest is initialised and moves down, into entries that were read.
            unsafe { self.batch.shift(rest, self.kept) };
        }
        self.batch.len = self.kept + left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(numbers: impl IntoIterator<Item = u8>) -> Batch {
        let mut batch = Batch::new();
        for number in numbers {
            batch.push(Packet::from_bytes(&[number]).unwrap()).unwrap();
        }
        batch
    }

    fn numbers(batch: &Batch) -> Vec<u8> {
        batch.iter().map(|packet| packet.data()[0]).collect()
    }

    #[test]
    fn runs_go_where_they_belong() {
        let mut all = batch(0..10);
        let mut ports = [0; Batch::CAPACITY];
        all.classify(&mut ports, |packet| u16::from(packet.data()[0] / 3));
        let mut out = [Batch::new(), Batch::new(), Batch::new(), Batch::new()];
        all.distribute(&ports, |port, run| {
            assert!(!run.as_mut_slice().is_empty());
            run.move_to(&mut out[usize::from(port)]);
        });
        assert!(all.is_empty());
        assert_eq!(
            out.each_ref().map(numbers),
            [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8], vec![9]]
        );
    }

    #[test]
    fn map_filter_keeps_order() {
        let mut all = batch(0..100);
        all.map_filter(|packet| (packet.data()[0] % 3 != 0).then_some(packet));
        assert_eq!(numbers(&all), (0..100).filter(|n| n % 3 != 0).collect::<Vec<_>>());
        drop(all.drain_front(2));
        all.drain_run(1..60);
        assert_eq!(numbers(&all), [4, 94, 95, 97, 98]);
    }

    #[test]
    fn a_panic_loses_the_packet_at_hand_alone() {
        let mut all = batch(0..20);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            all.map_filter(|packet| {
                assert_ne!(packet.data()[0], 10);
                (packet.data()[0] % 2 == 1).then_some(packet)
            })
        }));
        assert!(outcome.is_err());
        assert_eq!(numbers(&all), [1, 3, 5, 7, 9].into_iter().chain(11..20).collect::<Vec<_>>());
    }
}

//! Packet slots that are lent to the kernel.
//!
//! The memory of an AF_XDP socket is the region of standard slots of a NUMA node: the kernel identifies bytes
//! by their offset in it. A slot that is given to the kernel is recorded, and only recorded slots are taken
//! back: no address from a ring can make two packets from one slot.

#![allow(unsafe_code, reason = "packets are taken back by their place in the arena")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::{HashMap, HashMapExt};
use millrace_core::Packet;
use millrace_core::memory::{Arena, Descriptor, Region, SlotClass};

use super::ring::position;

/// Bytes from one slot to the next.
const STRIDE: usize = SlotClass::Standard.stride();
/// Bytes of a slot before its buffer.
const DESCRIPTOR: usize = STRIDE - SlotClass::Standard.room();
/// Bytes that the kernel reserves in front of received data (`XDP_PACKET_HEADROOM`).
pub(super) const HEADROOM: usize = 256;
/// Bytes of a slot that the kernel may use: its whole buffer.
pub(super) const CHUNK: usize = SlotClass::Standard.room();

/// The packet slots of a NUMA node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    region: Region,
    /// The page size, if no slot may cross a page boundary because the device reads and writes the slots
    /// itself.
    pages: Option<usize>,
}

// SAFETY: a description; its pointer leads to memory that is mapped as long as the process runs.
unsafe impl Sync for Frames {}

impl Frames {
    /// The slots of a node, or of the first one that has any.
    pub(super) fn of_node(node: Option<usize>) -> Option<Self> {
        let regions = Arena::regions();
        let mut standard = regions.iter().filter(|region| region.class == SlotClass::Standard);
        let first = standard.clone().next();
        let region = standard.find(|region| Some(region.node) == node).or(first)?;
        Some(Self { region: *region, pages: None })
    }

    /// The same slots for a device that reads and writes them itself: slots that cross two pages are
    /// excluded, because the pages need not be adjacent in physical memory. `None` if that would exclude most
    /// of them.
    pub(super) fn for_device(self) -> Option<Self> {
        (self.region.page >= 16 * STRIDE).then_some(Self { pages: Some(self.region.page), ..self })
    }

    pub(super) fn region(&self) -> &Region {
        &self.region
    }

    /// The number of slots.
    pub(super) fn count(&self) -> usize {
        self.region.slots
    }

    /// The slot that contains a byte.
    #[inline]
    fn slot_at(&self, offset: usize) -> Option<usize> {
        let slot = offset / STRIDE;
        (slot < self.region.slots).then_some(slot)
    }

    /// The slot that contains a packet's bytes, and their offset in it.
    #[inline]
    fn find(&self, packet: &Packet) -> Option<(usize, usize)> {
        let offset = self.region.offset_of(packet)?;
        let slot = self.slot_at(offset)?;
        Some((slot, offset - slot * STRIDE))
    }

    /// Whether the device can use `len` bytes from `start`.
    #[inline]
    fn is_whole(&self, start: usize, len: usize) -> bool {
        self.pages.is_none_or(|page| start / page == (start + len.max(1) - 1) / page)
    }

    fn descriptor(&self, slot: usize) -> NonNull<Descriptor> {
        // SAFETY: callers name slots below the count, which lie within the region.
        unsafe { self.region.base.add(slot * STRIDE) }.cast()
    }
}

/// The slots of [`Frames`] that the kernel has, each with its packet.
///
/// When this is dropped, the packets are freed if `released` says that the kernel no longer uses them;
/// otherwise their slots are never used again.
#[derive(Debug)]
pub(super) struct Lent {
    frames: Frames,
    released: Arc<AtomicBool>,
    /// One bit per slot, set if the slot's own packet was lent.
    own: Box<[u64]>,
    count: usize,
    /// Packets that share a slot, or use it from elsewhere, by slot.
    others: HashMap<usize, Vec<Packet>>,
}

impl Lent {
    pub(super) fn new(frames: Frames, released: Arc<AtomicBool>) -> Self {
        let own = vec![0; frames.count().div_ceil(64)].into();
        Self { frames, released, own, count: 0, others: HashMap::new() }
    }

    /// The number of packets that the kernel has.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Lends an empty packet for the kernel to write to. Returns the address of its buffer.
    ///
    /// # Errors
    /// The packet is not in these slots, or not usable by the device.
    #[inline]
    pub(super) fn lend_to_write(&mut self, packet: Packet) -> Result<u64, Packet> {
        let Some((slot, _)) = self.frames.find(&packet) else { return Err(packet) };
        let start = slot * STRIDE + DESCRIPTOR;
        if packet.is_shared() || !self.frames.is_whole(start, CHUNK) {
            return Err(packet);
        }
        self.note_own(slot, packet)?;
        Ok(start as u64)
    }

    /// Lends a packet for the kernel to read. Returns the start of its slot and the offset of the data.
    ///
    /// # Errors
    /// The packet is not in these slots, or not usable by the device.
    #[inline]
    pub(super) fn lend_to_read(&mut self, packet: Packet) -> Result<(u64, u64), Packet> {
        let Some((slot, within)) = self.frames.find(&packet) else { return Err(packet) };
        let start = slot * STRIDE;
        if !self.frames.is_whole(start + within, packet.len()) {
            return Err(packet);
        }
        if packet.is_shared() {
            self.note_other(slot, packet);
        } else if let Err(packet) = self.note_own(slot, packet) {
            self.note_other(slot, packet);
        }
        Ok((start as u64, within as u64))
    }

    /// Records a slot's own packet; returns one that uses the slot from elsewhere.
    #[inline]
    fn note_own(&mut self, slot: usize, packet: Packet) -> Result<(), Packet> {
        let raw = packet.into_raw();
        if raw != self.frames.descriptor(slot) {
            // SAFETY: it came from `into_raw` just now.
            return Err(unsafe { Packet::from_raw(raw) });
        }
        if let Some(word) = self.own.get_mut(slot / 64) {
            *word |= 1 << (slot % 64);
        }
        self.count += 1;
        Ok(())
    }

    #[cold]
    fn note_other(&mut self, slot: usize, packet: Packet) {
        self.others.entry(slot).or_default().push(packet);
        self.count += 1;
    }

    /// Takes back the packet at an address that the kernel returned, and returns the offset of the address in
    /// its buffer. `None` for an address that was not lent.
    #[inline]
    pub(super) fn take_back(&mut self, address: u64) -> Option<(Packet, usize)> {
        let offset = usize::try_from(position(address)).ok()?;
        let slot = self.frames.slot_at(offset)?;
        if !self.others.is_empty()
            && let Some(packet) = self.take_other(slot)
        {
            return Some((packet, 0));
        }
        let word = self.own.get_mut(slot / 64)?;
        let bit = 1 << (slot % 64);
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.count -= 1;
        // SAFETY: the packet was given up with `into_raw` when its bit was set, and is taken once: the
        // bit is clear now.
        let packet = unsafe { Packet::from_raw(self.frames.descriptor(slot)) };
        Some((packet, (offset - slot * STRIDE).saturating_sub(DESCRIPTOR)))
    }

    #[cold]
    fn take_other(&mut self, slot: usize) -> Option<Packet> {
        let packets = self.others.get_mut(&slot)?;
        let packet = packets.pop();
        if packets.is_empty() {
            self.others.remove(&slot);
        }
        self.count -= usize::from(packet.is_some());
        packet
    }

    /// Frees all packets.
    fn reclaim(&mut self) {
        for (index, word) in self.own.iter_mut().enumerate() {
            while *word != 0 {
                let slot = index * 64 + word.trailing_zeros() as usize;
                *word &= *word - 1;
                // SAFETY: as in `take_back`.
                drop(unsafe { Packet::from_raw(self.frames.descriptor(slot)) });
            }
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.released.load(Ordering::Acquire) {
            self.reclaim();
        } else {
            std::mem::forget(std::mem::take(&mut self.others));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::af_xdp::ring::address;

    fn lent() -> (Lent, Arc<AtomicBool>) {
        let released = Arc::new(AtomicBool::new(false));
        (Lent::new(Frames::of_node(None).unwrap(), Arc::clone(&released)), released)
    }

    fn empty() -> Packet {
        Packet::stale(HEADROOM, 0, CHUNK - HEADROOM).unwrap()
    }

    #[test]
    fn what_is_lent_comes_back_once() {
        let (mut lent, _) = lent();
        let packet = empty();
        let place = packet.data().as_ptr();
        let start = lent.lend_to_write(packet).unwrap();
        assert_eq!(start % 64, 0, "buffers begin with a cache line");
        assert_eq!(lent.count(), 1);
        let (packet, within) = lent.take_back(address(start, HEADROOM as u64)).unwrap();
        assert_eq!((packet.data().as_ptr(), within), (place, HEADROOM));
        // The kernel may err, or lie.
        for wrong in [start, start + STRIDE as u64, 0, 1 << 47, u64::MAX] {
            assert!(lent.take_back(wrong).is_none());
        }
        assert_eq!(lent.count(), 0);
    }

    #[test]
    fn every_kind_of_packet_is_known_by_its_slot() {
        let (mut lent, released) = lent();
        let first = Packet::from_bytes(b"shared").unwrap();
        let second = first.share().unwrap();
        let mut alone = Packet::from_bytes(b"alone").unwrap();
        assert!(alone.strip(1));
        let place = alone.data().as_ptr();
        let mut addresses = Vec::new();
        for packet in [first.share().unwrap(), second, alone] {
            let (start, within) = lent.lend_to_read(packet).unwrap();
            assert_eq!(start % 2, 0, "kernels lose the lowest bit of an address");
            addresses.push(address(start, within));
        }
        assert_eq!(addresses[0], addresses[1]);
        let (alone, _) = lent.take_back(addresses[2]).unwrap();
        assert_eq!(alone.data().as_ptr(), place);
        for at in [0, 1] {
            assert_eq!(lent.take_back(addresses[at]).unwrap().0.data(), b"shared");
        }
        assert!(lent.take_back(addresses[0]).is_none());
        assert!(!first.is_shared());
        // Neither a jumbo packet nor a shared one can be received into.
        let jumbo = Packet::with_len(9000).unwrap();
        assert!(lent.lend_to_read(jumbo).is_err());
        let other = first.share().unwrap();
        assert!(lent.lend_to_write(other).is_err());
        // This thread gets the slot that was freed last, if it was freed.
        let packet = empty();
        let place = packet.data().as_ptr();
        lent.lend_to_write(packet).unwrap();
        released.store(true, Ordering::Release);
        drop(lent);
        assert_eq!(empty().data().as_ptr(), place);
    }

    #[test]
    fn what_the_kernel_may_still_use_is_never_used_again() {
        let (mut lent, _) = lent();
        let packet = empty();
        let place = packet.data().as_ptr();
        lent.lend_to_write(packet).unwrap();
        drop(lent);
        assert_ne!(empty().data().as_ptr(), place);
    }

    #[test]
    fn a_device_gets_no_slot_on_two_pages() {
        let frames = Frames::of_node(None).unwrap();
        let on_huge_pages = Frames { pages: Some(2 << 20), ..frames };
        let mut lent = Lent::new(on_huge_pages, Arc::new(AtomicBool::new(true)));
        let mut refused = 0;
        let mut kept = Vec::new();
        for _ in 0..3 * (2 << 20) / STRIDE {
            match lent.lend_to_write(empty()) {
                Ok(start) => assert_eq!(start >> 21, (start + CHUNK as u64 - 1) >> 21),
                Err(packet) => {
                    refused += 1;
                    kept.push(packet);
                }
            }
        }
        assert!((1..=4).contains(&refused), "{refused}");
        // Most slots lie across ordinary pages.
        assert_eq!(frames.for_device().is_some(), frames.region().page > 4096);
    }
}

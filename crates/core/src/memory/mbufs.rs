//! Bursts of mbufs: packets passed between a batch and a driver as addresses, in one call.

use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use super::batch::Batch;
use super::descriptor::{Descriptor, LARGE, Slot, prefetch};
use super::packet::Packet;

/// The driver's view of a descriptor: the address of an mbuf.
pub type Mbuf = *mut Descriptor;

/// Where a packet's bytes are, for a driver that reads them in place.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The descriptor.
    pub descriptor: NonNull<Descriptor>,
    /// The first byte of the buffer.
    pub buffer: *mut u8,
    /// Offset of the data in the buffer.
    pub offset: u16,
    /// The number of bytes of data.
    pub len: u16,
}

/// The contents of one burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Packets.
    pub packets: usize,
    /// Bytes of their data.
    pub bytes: usize,
    /// Packets of several segments: their bytes are not contiguous.
    pub scattered: usize,
}

impl Batch {
    /// Adds up to `max` mbufs that a driver has received. The driver gets an array for addresses and its
    /// length, fills it from the front and returns how many it filled. The packets' MAC header is at the
    /// start of their data.
    ///
    /// # Safety
    /// The driver writes pointers to `rte_mbuf`s of DPDK 22.11 that the caller owns: direct, a reference count
    /// of 1, 64 bytes of private area, directly followed by the buffer, which is shorter than 65,535 bytes.
    /// They have one segment: when the burst has scattered packets, the caller
    /// [takes them out](Packet::segments) before any other code sees the batch.
    #[inline]
    pub unsafe fn receive_mbufs(
        &mut self,
        max: usize,
        receive: impl FnOnce(*mut Mbuf, usize) -> usize,
    ) -> Burst {
        let free = self.free_entries();
        let free = free.get_mut(..max.min(free.len())).unwrap_or_default();
        let count = receive(free.as_mut_ptr().cast(), free.len()).min(free.len());
        // SAFETY: so many entries were written.
        unsafe { self.take_in(count) };
        let start = self.len() - count;
        adopt(self.get(start..).unwrap_or_default())
    }

    /// Passes mbufs from the front of the batch to a driver. If the driver cannot accept all packets
    /// unchanged, `ready` is called for each in turn. It may change the packet, and returns whether it is an
    /// mbuf that the driver accepts; the driver is offered the packets before the first that is not. The
    /// driver gets their addresses and their number, and returns how many it accepted. The others stay, in
    /// order.
    ///
    /// # Safety
    /// The driver owns the packets that it accepts, and it accepts them from the front. `ready` returns true
    /// only for mbufs that are not shared.
    #[inline]
    pub unsafe fn transmit_mbufs(
        &mut self,
        limits: &Limits,
        ready: impl FnMut(&mut Packet) -> bool,
        transmit: impl FnOnce(*mut Mbuf, usize) -> usize,
    ) -> Burst {
        let scan = match limits.pool {
            None => Scan::of::<false>(self, limits),
            Some(_) => Scan::of::<true>(self, limits),
        };
        let (offered, mut bytes) = match scan.as_they_are(limits) {
            true => (self.len(), scan.bytes),
            false => self.make_ready(ready),
        };
        let taken = transmit(self.as_mut_ptr().cast(), offered).min(offered);
        let left = self.get(taken..offered).unwrap_or_default();
        left.iter().for_each(|packet| bytes -= packet.len());
        self.forget_front(taken);
        Burst { packets: taken, bytes, scattered: 0 }
    }

    /// How many packets from the front on are ready, and the number of their bytes.
    #[cold]
    fn make_ready(&mut self, mut ready: impl FnMut(&mut Packet) -> bool) -> (usize, usize) {
        let mut sum = (0, 0);
        for packet in self.iter_mut() {
            if !ready(packet) {
                break;
            }
            sum.0 += 1;
            sum.1 += packet.len();
        }
        sum
    }
}

/// Which mbufs a driver accepts unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of bytes of data.
    pub longest: usize,
    /// The only pool that they may come from, with their own buffer; any mbufs if it is `None`.
    pub pool: Option<*const ()>,
}

/// The results of one pass over packets that are to be transmitted: one or two instructions per field, and no
/// branches.
struct Scan {
    bytes: usize,
    longest: u32,
    /// 1 at the end when none of them is shared: no count is 0.
    holders: u16,
    /// All of them are mbufs if the flag is still set.
    flags: u32,
    /// 0 at the end when all are from the one pool, with their own buffers.
    odd: usize,
}

impl Scan {
    #[inline(always)]
    fn of<const OWN_POOL: bool>(packets: &[Packet], limits: &Limits) -> Scan {
        let own = limits.pool.map_or(0, <*const ()>::addr);
        let mut scan = Scan { bytes: 0, longest: 0, holders: 0, flags: u32::MAX, odd: 0 };
        let (fours, rest) = packets.as_chunks::<4>();
        for four in fours {
            four.iter().for_each(|packet| scan.add::<OWN_POOL>(packet, own));
        }
        rest.iter().for_each(|packet| scan.add::<OWN_POOL>(packet, own));
        // What the others did with the bytes that they have let go of comes before.
        fence(Ordering::Acquire);
        scan
    }

    #[inline(always)]
    fn add<const OWN_POOL: bool>(&mut self, packet: &Packet, own: usize) {
        let slot = packet.slot();
        let len = slot.pkt_len();
        self.bytes += len as usize;
        self.longest = self.longest.max(len);
        self.holders |= slot.holders_word();
        self.flags &= slot.last_word();
        if OWN_POOL {
            self.odd |= (slot.pool().addr() ^ own) | usize::from(!slot.is_direct());
        }
    }

    /// Whether all can be passed on unchanged.
    fn as_they_are(&self, limits: &Limits) -> bool {
        let mbufs = self.flags & Slot::EXTERNAL_IN_LAST_WORD != 0;
        // Of no packets, no count was seen.
        self.holders <= 1 && mbufs && self.odd == 0 && self.longest as usize <= limits.longest
    }
}

/// Converts what a driver has received into packets.
#[inline]
fn adopt(received: &[Packet]) -> Burst {
    if received.is_empty() {
        return Burst::default();
    }
    let seen = crate::isa::run(
        #[inline(always)]
        || Seen::of(received),
    );
    let mut burst = Burst { packets: received.len(), bytes: seen.bytes as usize, scattered: 0 };
    if !seen.are_plain() {
        burst.scattered = adopt_odd(received);
    }
    burst
}

/// The results of the pass over received packets.
struct Seen {
    /// For a batch, far less than 2^32.
    bytes: u32,
    /// Bits that are set in at least one of their rearm words, and bits that are set in all.
    any: u64,
    all: u64,
}

impl Seen {
    #[inline(always)]
    fn of(received: &[Packet]) -> Seen {
        let mut seen = Seen { bytes: 0, any: 0, all: u64::MAX };
        let (fours, rest) = received.as_chunks::<4>();
        for four in fours {
            four.iter().for_each(|packet| seen.add(packet));
        }
        rest.iter().for_each(|packet| seen.add(packet));
        seen
    }

    #[inline(always)]
    fn add(&mut self, packet: &Packet) {
        /// The offset from a descriptor to the data, for nearly all mbufs.
        const DATA: usize = 192 + 128;
        let slot = packet.slot();
        slot.adopt_plain();
        prefetch(slot.as_ptr().cast::<u8>().wrapping_add(DATA));
        let word = slot.rearm_word();
        self.any |= word;
        self.all &= word;
        self.bytes = self.bytes.wrapping_add(slot.pkt_len());
    }

    /// Whether all are as [`Slot::adopt_plain`] assumes.
    fn are_plain(&self) -> bool {
        Slot::is_plain(self.any) && Slot::is_plain(self.all)
    }
}

/// Corrects the few packets that differ. Returns how many have several segments.
#[cold]
fn adopt_odd(received: &[Packet]) -> usize {
    for packet in received {
        packet.slot().adopt(packet.slot().data_off());
    }
    received.iter().filter(|packet| packet.segments() != 1).count()
}

impl Packet {
    /// The packet's descriptor, as drivers know it.
    #[inline]
    pub fn as_mbuf(&self) -> Mbuf {
        self.slot().as_ptr()
    }

    /// The number of segments of an mbuf that a driver received; 1 for any other packet.
    #[inline]
    pub fn segments(&self) -> u16 {
        self.slot().segments()
    }

    /// Whether the packet is an mbuf whose buffer is not shared.
    #[inline(always)]
    pub fn is_sole_mbuf(&self) -> bool {
        self.is_mbuf() & self.slot().is_sole()
    }

    /// Whether the packet is an mbuf of this pool, with its own buffer that is not shared.
    #[inline]
    pub fn is_mbuf_of(&self, pool: *const ()) -> bool {
        let slot = self.slot();
        self.is_mbuf()
            && std::ptr::eq(slot.pool().cast(), pool)
            && slot.is_sole()
            && slot.is_direct()
    }

    /// The VLAN tag that the device removed, if `ol_flags` has this flag.
    pub fn mbuf_vlan(&self, flag: u64) -> Option<u16> {
        (self.slot().ol_flags() & flag != 0).then(|| self.slot().vlan_tci())
    }

    /// Where the bytes are; `None` when the offset does not fit in 16 bits.
    pub fn window(&self) -> Option<Window> {
        let slot = self.slot();
        let offset = slot.data_off();
        let len = u16::try_from(self.len()).ok()?;
        offset.checked_add(len).filter(|end| *end != LARGE)?;
        let descriptor = NonNull::new(slot.as_ptr())?;
        Some(Window { descriptor, buffer: slot.buf_addr(), offset, len })
    }

    /// Replaces this packet with an mbuf that uses this packet's [window](Packet::window), with the packet's
    /// annotations. Ownership of this packet is given up: when the mbuf is freed, the packet is made again
    /// [from its descriptor](Packet::from_raw), to drop it.
    ///
    /// # Safety
    /// The mbuf is as [`receive_mbufs`](Batch::receive_mbufs) requires, but its buffer is this packet's; the bytes must not be
    /// written while another packet uses them.
    pub unsafe fn become_mbuf(&mut self, descriptor: NonNull<Descriptor>) {
        // SAFETY: the caller's promise.
        unsafe { Slot::from_raw(descriptor) }.adopt_like(self.slot());
        // SAFETY: an adopted mbuf is a packet; the old one is given up.
        let old = std::mem::replace(self, unsafe { Packet::from_raw(descriptor) });
        old.into_raw();
    }

    /// Replaces the packet with an mbuf that has a copy of the bytes, with the packet's annotations.
    ///
    /// # Safety
    /// The mbuf is as [`receive_mbufs`](Batch::receive_mbufs) requires.
    pub unsafe fn move_to_mbuf(&mut self, descriptor: NonNull<Descriptor>) {
        // SAFETY: the caller's promise.
        unsafe { Slot::from_raw(descriptor) }.adopt_like(self.slot());
        let headers = [self.mac_header(), self.network_header(), self.transport_header()];
        // SAFETY: an adopted mbuf is a packet.
        *self = unsafe { Packet::from_raw(descriptor) };
        self.set_header_offsets(headers);
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::null;

    use super::super::descriptor::DESCRIPTOR_LEN;
    use super::*;

    const ROOM: usize = 2176;

    /// Memory for an mbuf, which stays alive until this is dropped.
    struct Memory(NonNull<u8>);

    impl Memory {
        fn layout() -> Layout {
            Layout::from_size_align(DESCRIPTOR_LEN + ROOM, 64).unwrap()
        }

        /// An mbuf in fresh memory, as a driver leaves it.
        fn new(data_off: u16, len: u32) -> (Self, Mbuf) {
            // SAFETY: the size is not zero.
            let memory = NonNull::new(unsafe { alloc_zeroed(Self::layout()) }).unwrap();
            // SAFETY: fresh memory of that size.
            let slot = unsafe { Slot::carve(memory, ROOM as u32, null()) };
            slot.reset(data_off, len);
            (Self(memory), slot.as_ptr())
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: made with this layout; the tests hand every packet back before.
            unsafe { dealloc(self.0.as_ptr(), Self::layout()) };
        }
    }

    #[test]
    fn a_burst_is_received_and_transmitted() {
        // The second one's data does not begin where a driver usually puts it.
        let (memory, mbufs): (Vec<Memory>, Vec<Mbuf>) = [(128, 60), (64, 100), (128, 1500)]
            .map(|(at, len)| Memory::new(at, len))
            .into_iter()
            .unzip();
        let mut batch = Batch::new();
        // SAFETY: these are mbufs of one segment, and there is room for three.
        let burst = unsafe {
            batch.receive_mbufs(8, |to, room| {
                assert_eq!(room, 8);
                to.copy_from_nonoverlapping(mbufs.as_ptr(), mbufs.len());
                mbufs.len()
            })
        };
        assert_eq!(burst, Burst { packets: 3, bytes: 1660, scattered: 0 });
        assert!(batch.iter().all(|packet| packet.is_mbuf() && packet.mac_header() == Some(0)));
        batch[0].set_paint(7);
        assert!(batch[2].trim(500));

        let everything = Limits { longest: 1514, pool: None };
        // SAFETY: the driver keeps the addresses, and the packets are not used again.
        let burst = unsafe {
            batch.transmit_mbufs(&everything, |_| panic!("they are ready"), |_, count| count - 1)
        };
        assert_eq!(burst, Burst { packets: 2, bytes: 160, scattered: 0 });
        assert_eq!((batch.len(), batch[0].len()), (1, 1000));

        // Now something is in the way.
        batch.push(Packet::from_bytes(b"not an mbuf").unwrap()).unwrap();
        let ready = |packet: &mut Packet| packet.is_sole_mbuf();
        // SAFETY: as above.
        let burst = unsafe { batch.transmit_mbufs(&everything, ready, |_, count| count) };
        assert_eq!((burst.packets, burst.bytes, batch.len()), (1, 1000, 1));
        drop(memory);
    }

    #[test]
    fn what_a_driver_does_not_take_as_it_is_is_asked_about() {
        let (memory, mbuf) = Memory::new(128, 60);
        let mut batch = Batch::new();
        // SAFETY: an mbuf of one segment.
        unsafe {
            batch.receive_mbufs(1, |to, _| {
                to.write(mbuf);
                1
            })
        };
        let other = 1u8;
        for limits in [
            Limits { longest: 59, pool: None },
            Limits { longest: 1514, pool: Some((&raw const other).cast()) },
        ] {
            let mut asked = 0;
            let ready = |_: &mut Packet| {
                asked += 1;
                false
            };
            // SAFETY: nothing is offered.
            let burst = unsafe { batch.transmit_mbufs(&limits, ready, |_, count| count) };
            assert_eq!((burst.packets, asked), (0, 1), "{limits:?}");
        }
        let own = Limits { longest: 60, pool: Some(null()) };
        // SAFETY: as above.
        let burst = unsafe { batch.transmit_mbufs(&own, |_| false, |_, count| count) };
        assert_eq!(burst.packets, 1);
        drop(memory);
    }

    #[test]
    fn segments_are_counted() {
        let (memory, mbuf) = Memory::new(128, 60);
        // SAFETY: the memory is alive; `nb_segs` is the third field of the rearm word, as in DPDK.
        unsafe { mbuf.cast::<u16>().add(10).write(2) };
        let mut batch = Batch::new();
        // SAFETY: an mbuf; what its second segment would be is not looked at.
        let burst = unsafe {
            batch.receive_mbufs(1, |to, _| {
                to.write(mbuf);
                1
            })
        };
        assert_eq!((burst.scattered, batch[0].segments()), (1, 2));
        batch.pop().unwrap().into_raw();
        drop(memory);
    }
}

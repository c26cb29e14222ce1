//! Bursts of mbufs: packets that travel between a batch and a driver as addresses, in one call.

use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use super::batch::Batch;
use super::descriptor::{Descriptor, LARGE, Slot, prefetch};
use super::packet::Packet;

/// The driver's side of a descriptor: the address of an mbuf.
pub type Mbuf = *mut Descriptor;

/// Where a packet's bytes lie, for a driver that reads them in place.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The descriptor.
    pub descriptor: NonNull<Descriptor>,
    /// The first byte of the buffer.
    pub buffer: *mut u8,
    /// Bytes from there to the data.
    pub offset: u16,
    /// Bytes of data.
    pub len: u16,
}

/// What went in one burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// Packets.
    pub packets: usize,
    /// Bytes of their data.
    pub bytes: usize,
    /// Packets of several segments: their bytes do not lie behind one another.
    pub scattered: usize,
}

impl Batch {
    /// Adds up to `max` mbufs that a driver has received. It is given a place for addresses and how many it
    /// has room for, fills it from the front and returns how many it filled. The packets' MAC header is where
    /// their data starts.
    ///
    /// # Safety
    /// What the driver writes are mbufs as [`Packet::from_mbuf`] wants them, but for their number of
    /// segments: when the burst has scattered packets, the caller [takes them out](Packet::segments) before
    /// anybody else sees the batch.
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

    /// Hands mbufs from the front to a driver. When there are packets that it does not take as they are,
    /// `ready` is asked about each in turn, may change it, and says whether it is an mbuf that the driver takes;
    /// the driver is offered the packets in front of the first that is not. It is given their addresses and how
    /// many they are, and returns how many it took. The others stay, in order.
    ///
    /// # Safety
    /// What the driver says it took is its own from then on, and it took them from the front. `ready` says yes
    /// to mbufs that nobody shares alone.
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

    /// How many packets from the front on are ready, and their bytes.
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

/// What mbufs a driver takes as they are.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of data.
    pub longest: usize,
    /// The one pool that they may come from, with a buffer of their own; any mbufs unless given.
    pub pool: Option<*const ()>,
}

/// What is seen in one pass over packets that are to be transmitted: one instruction or two for each field, and
/// no branches on what the packets are.
struct Scan {
    bytes: usize,
    longest: u32,
    /// 1 in the end when nobody else looks at any of them: no count is 0.
    holders: u16,
    /// All of them are mbufs when the flag is left.
    flags: u32,
    /// 0 in the end when all are of the one pool, with buffers of their own.
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

    /// Whether all can be handed over as they are.
    fn as_they_are(&self, limits: &Limits) -> bool {
        let mbufs = self.flags & Slot::EXTERNAL_IN_LAST_WORD != 0;
        // Of no packets, no count was seen.
        self.holders <= 1 && mbufs && self.odd == 0 && self.longest as usize <= limits.longest
    }
}

/// Makes packets of what a driver has received.
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

/// What is seen of packets that were received.
struct Seen {
    /// Of a batch they are far fewer than 2^32.
    bytes: u32,
    /// Bits that one of their rearm words has, and bits that all have.
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
        /// From a descriptor to the data of nearly all mbufs.
        const DATA: usize = 192 + 128;
        let slot = packet.slot();
        slot.adopt_plain();
        prefetch(slot.as_ptr().cast::<u8>().wrapping_add(DATA));
        let word = slot.rearm_word();
        self.any |= word;
        self.all &= word;
        self.bytes = self.bytes.wrapping_add(slot.pkt_len());
    }

    /// Whether all are as [`Slot::adopt_plain`] takes them to be.
    fn are_plain(&self) -> bool {
        Slot::is_plain(self.any) && Slot::is_plain(self.all)
    }
}

/// Corrects what is otherwise in few packets. Returns how many have several segments.
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

    /// How many segments an mbuf has that a driver received; 1 of every other packet.
    #[inline]
    pub fn segments(&self) -> u16 {
        self.slot().segments()
    }

    /// Whether the packet is an mbuf whose buffer nobody else looks at.
    #[inline(always)]
    pub fn is_sole_mbuf(&self) -> bool {
        self.is_mbuf() & self.slot().is_sole()
    }

    /// Whether the packet is an mbuf of this pool whose buffer is its own and nobody else's.
    #[inline]
    pub fn is_mbuf_of(&self, pool: *const ()) -> bool {
        let slot = self.slot();
        self.is_mbuf()
            && std::ptr::eq(slot.pool().cast(), pool)
            && slot.is_sole()
            && slot.is_direct()
    }

    /// The VLAN tag that the device took off, if `ol_flags` has this flag.
    pub fn mbuf_vlan(&self, flag: u64) -> Option<u16> {
        (self.slot().ol_flags() & flag != 0).then(|| self.slot().vlan_tci())
    }

    /// Where the bytes lie; none when 16 bits do not reach so far.
    pub fn window(&self) -> Option<Window> {
        let slot = self.slot();
        let offset = slot.data_off();
        let len = u16::try_from(self.len()).ok()?;
        offset.checked_add(len).filter(|end| *end != LARGE)?;
        let descriptor = NonNull::new(slot.as_ptr())?;
        Some(Window { descriptor, buffer: slot.buf_addr(), offset, len })
    }

    /// Puts an mbuf that looks at this packet's [window](Packet::window) in its place, with the packet's
    /// annotations. This packet is given up: who frees the mbuf makes it again
    /// [of its descriptor](Packet::from_raw), to drop it.
    ///
    /// # Safety
    /// As [`from_mbuf`](Packet::from_mbuf), but the mbuf's buffer is this packet's; nobody writes the bytes
    /// while another packet looks at them.
    pub unsafe fn become_mbuf(&mut self, descriptor: NonNull<Descriptor>) {
        // SAFETY: the caller's promise.
        unsafe { Slot::from_raw(descriptor) }.adopt_like(self.slot());
        // SAFETY: an adopted mbuf is a packet; the old one is given up.
        let old = std::mem::replace(self, unsafe { Packet::from_raw(descriptor) });
        old.into_raw();
    }

    /// Puts an mbuf that has a copy of the bytes in the packet's place, with the packet's annotations.
    ///
    /// # Safety
    /// As [`from_mbuf`](Packet::from_mbuf).
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

    /// Memory for an mbuf, which is alive until this is dropped.
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

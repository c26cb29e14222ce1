//! Bursts of mbufs: packets that travel between a batch and a driver as addresses, in one call.

use std::ops::AddAssign;
use std::ptr::NonNull;

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

impl AddAssign<&Packet> for Burst {
    #[inline(always)]
    fn add_assign(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += packet.len();
        self.scattered += usize::from(packet.slot().segments() != 1);
    }
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
        let mut burst = Burst::default();
        let received = free.get(..count).unwrap_or_default();
        for (index, entry) in received.iter().enumerate() {
            if let Some(later) = received.get(index + Batch::LOOK_AHEAD) {
                // SAFETY: the driver wrote the entry.
                let later = unsafe { later.assume_init_ref() };
                prefetch(later.slot().as_ptr().cast::<u8>().wrapping_add(128));
                prefetch(later.data_ptr());
            }
            // SAFETY: the driver wrote the entry: the address of an mbuf, which is what a packet is.
            let packet = unsafe { entry.assume_init_ref() };
            packet.slot().adopt(packet.slot().data_off());
            burst += packet;
        }
        // SAFETY: so many entries were written.
        unsafe { self.take_in(count) };
        burst
    }

    /// Hands mbufs from the front to a driver. `ready` is asked about each packet in turn, may change it, and
    /// says whether it is an mbuf that the driver takes; the driver is offered the packets in front of the
    /// first that is not. It is given their addresses and how many they are, and returns how many it took.
    /// The others stay, in order.
    ///
    /// # Safety
    /// What the driver says it took is its own from then on, and it took them from the front. `ready` says yes
    /// to mbufs alone.
    #[inline]
    pub unsafe fn transmit_mbufs(
        &mut self,
        mut ready: impl FnMut(&mut Packet) -> bool,
        transmit: impl FnOnce(*mut Mbuf, usize) -> usize,
    ) -> Burst {
        let mut burst = Burst::default();
        for packet in self.iter_mut() {
            if !ready(packet) {
                break;
            }
            packet.slot().seal();
            burst += packet;
        }
        let offered = burst.packets;
        let taken = transmit(self.as_mut_ptr().cast(), offered).min(offered);
        if taken < offered {
            let left = self.get(taken..offered).unwrap_or_default();
            left.iter().for_each(|packet| burst.bytes -= packet.len());
            burst.packets = taken;
        }
        self.forget_front(taken);
        burst
    }
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
        self.is_mbuf() && self.slot().is_sole()
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

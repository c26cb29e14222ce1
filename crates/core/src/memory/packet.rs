//! A packet: one owning pointer to a slot of the arena.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::arena::Region;
use super::cache;
use super::class::{DEFAULT_HEADROOM, JUMBO_ROOM, STANDARD_ROOM, SlotClass};
use super::copies::{self, CopyCause};
use super::descriptor::{
    Descriptor, FLAG_EXTERNAL, FLAG_TYPE_MASK, LARGE, NO_DEVICE, NO_HEADER, OL_RSS_HASH, Slot,
};
use super::homes;
use crate::net::EtherAddress;
use crate::time::Timestamp;

/// A packet: its bytes, the positions of its headers, and Click's annotations.
///
/// It is eight bytes long, and so is an `Option<Packet>`. The bytes between the start of the buffer and the
/// data are the *headroom*, those after the data the *tailroom*. [`strip`](Packet::strip),
/// [`prepend`](Packet::prepend), [`trim`](Packet::trim) and [`append`](Packet::append) move the borders
/// between them, and copy nothing while there is room.
///
/// # Failure
/// Making a packet can fail (`None`) when the arena is exhausted, which is counted in
/// [`Arena::stats`](super::Arena::stats): it is a drop, never a crash. Changing a packet never fails: if the
/// arena is empty, a copy uses memory from the heap.
#[repr(transparent)]
pub struct Packet(Slot);

// SAFETY: a packet is the one holder of its descriptor. Its bytes may be shared with packets of other
// threads, but then nobody writes them; the count of sharers is atomic.
unsafe impl Send for Packet {}
// SAFETY: through `&Packet` nothing is written but the atomic count.
unsafe impl Sync for Packet {}

const _: () = assert!(size_of::<Option<Packet>>() == 8);

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        cache::release(self.0);
    }
}

/// The recipient to which the link layer addressed a packet (Click's packet type annotation).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[repr(u8)]
pub enum PacketType {
    /// To this host.
    #[default]
    Host = 0,
    /// To all hosts.
    Broadcast = 1,
    /// To a group.
    Multicast = 2,
    /// To another host.
    OtherHost = 3,
    /// Sent by this host and captured on its way out.
    Outgoing = 4,
    /// Looped back.
    Loopback = 5,
    /// Forwarded by a fast path.
    FastRoute = 6,
}

impl PacketType {
    /// The type of a frame for the host with address `own`, by the frame's destination. Without `own`, a frame to a
    /// single host is for this host.
    #[inline]
    #[must_use]
    pub fn of_frame(frame: &[u8], own: Option<EtherAddress>) -> Self {
        let Some(destination) = frame.first_chunk().map(|bytes| EtherAddress(*bytes)) else {
            return Self::Host;
        };
        if !destination.is_group() {
            let is_own = own.is_none_or(|own| own == destination);
            return if is_own { Self::Host } else { Self::OtherHost };
        }
        if destination.is_broadcast() { Self::Broadcast } else { Self::Multicast }
    }

    /// The type in a descriptor's flags.
    #[inline(always)]
    pub(super) fn of_flags(flags: u16) -> Self {
        match flags & FLAG_TYPE_MASK {
            1 => Self::Broadcast,
            2 => Self::Multicast,
            3 => Self::OtherHost,
            4 => Self::Outgoing,
            5 => Self::Loopback,
            6 => Self::FastRoute,
            _ => Self::Host,
        }
    }
}

/// # Making packets
impl Packet {
    /// A packet with a copy of these bytes and the default headroom.
    pub fn from_bytes(bytes: &[u8]) -> Option<Packet> {
        let mut packet = Packet::stale(DEFAULT_HEADROOM, bytes.len(), 0)?;
        packet.own_bytes().copy_from_slice(bytes);
        Some(packet)
    }

    /// A packet of `len` zero bytes with the default headroom.
    pub fn with_len(len: usize) -> Option<Packet> {
        Packet::with_room(DEFAULT_HEADROOM, len, 0)
    }

    /// A packet of `len` zero bytes with at least this much headroom and tailroom.
    pub fn with_room(headroom: usize, len: usize, tailroom: usize) -> Option<Packet> {
        let mut packet = Packet::stale(headroom, len, tailroom)?;
        packet.own_bytes().fill(0);
        Some(packet)
    }

    /// An empty packet into which up to `capacity` bytes can be received, with the default headroom: fill
    /// [`buffer_mut`](Packet::buffer_mut), then [`set_len`](Packet::set_len). The buffer holds stale bytes.
    #[inline]
    pub fn for_receive(capacity: usize) -> Option<Packet> {
        Packet::stale(DEFAULT_HEADROOM, 0, capacity)
    }

    /// A packet whose `len` bytes are undefined: for callers that write every byte.
    #[inline]
    pub fn stale(headroom: usize, len: usize, tailroom: usize) -> Option<Packet> {
        let room = headroom.saturating_add(len).saturating_add(tailroom);
        if room <= STANDARD_ROOM
            && let Some(slot) = cache::take_at_hand()
        {
            slot.reset(headroom as u16, len as u32);
            return Some(Packet(slot));
        }
        Packet::stale_slowly(headroom, len, room)
    }

    /// Like [`stale`](Packet::stale), in a standard slot of this NUMA node, for a device that reaches no
    /// other memory. `None` when the node has no slots left, or the packet does not fit in one.
    pub fn stale_of_node(node: usize, headroom: usize, len: usize) -> Option<Packet> {
        if headroom.saturating_add(len) > STANDARD_ROOM {
            return None;
        }
        let slot = cache::take_of_node(node)?;
        slot.reset(headroom as u16, len as u32);
        Some(Packet(slot))
    }

    #[inline(never)]
    fn stale_slowly(headroom: usize, len: usize, room: usize) -> Option<Packet> {
        if room <= STANDARD_ROOM {
            let slot = cache::take(SlotClass::Standard)?;
            slot.reset(headroom as u16, len as u32);
            return Some(Packet(slot));
        }
        let slot = if room <= JUMBO_ROOM {
            cache::take(SlotClass::Jumbo)?
        } else {
            cache::take_heap(room)?
        };
        Some(Packet::in_large_slot(slot, headroom, len))
    }

    /// Like [`stale`](Packet::stale), on the heap when the arena is empty. `None` only for a size that no
    /// packet can have.
    fn stale_anywhere(headroom: usize, len: usize, tailroom: usize) -> Option<Packet> {
        Packet::stale(headroom, len, tailroom).or_else(|| {
            let room = headroom.saturating_add(len).saturating_add(tailroom);
            Some(Packet::in_large_slot(cache::take_heap(room.max(1))?, headroom, len))
        })
    }

    #[cold]
    fn in_large_slot(slot: Slot, headroom: usize, len: usize) -> Packet {
        slot.set_buf_addr(slot.own_buffer());
        slot.reset(0, len as u32);
        let mut packet = Packet(slot);
        packet.place(headroom);
        packet
    }

    /// A second packet that shares the same bytes (Click's `clone`). Only the descriptor is copied:
    /// annotations, header offsets, timestamp. `None` when the arena is exhausted.
    pub fn share(&self) -> Option<Packet> {
        let owner = self.0.buffer_owner();
        let shell = cache::take(SlotClass::Shell)?;
        if owner.retain(homes::tag()) {
            shell.mirror(self.0, owner);
            return Some(Packet(shell));
        }
        self.copy_instead(shell)
    }

    /// A copy, for a packet that cannot be shared.
    #[cold]
    fn copy_instead(&self, shell: Slot) -> Option<Packet> {
        cache::give_back(shell);
        self.copy()
    }

    /// A packet with its own buffer and the same bytes, including headroom, annotations and header offsets.
    /// `None` when the arena is exhausted.
    pub fn copy(&self) -> Option<Packet> {
        let mut copy = Packet::stale(self.headroom(), self.len(), self.tailroom().min(SPARE))?;
        copies::count(CopyCause::Clone);
        copy.take_over(self);
        Some(copy)
    }

    /// Whether other packets share the same bytes.
    #[inline]
    pub fn is_shared(&self) -> bool {
        !self.0.is_sole() && self.0.buffer_owner().holders() > 1
    }

    /// Whether the packet is shared and only one thread changes its reference count, without atomic
    /// instructions.
    pub fn is_counted_plainly(&self) -> bool {
        self.0.buffer_owner().is_tagged()
    }

    /// Gives up ownership and returns the descriptor's address, for a driver that stores packets as pointers.
    #[inline]
    pub fn into_raw(self) -> NonNull<Descriptor> {
        let packet = ManuallyDrop::new(self);
        // SAFETY: a slot's pointer is never null.
        unsafe { NonNull::new_unchecked(packet.0.as_ptr()) }
    }

    /// Takes ownership of a packet again.
    ///
    /// # Safety
    /// `descriptor` came from [`into_raw`](Packet::into_raw) and was not given to `from_raw` since.
    #[inline]
    pub unsafe fn from_raw(descriptor: NonNull<Descriptor>) -> Packet {
        // SAFETY: the caller's promise.
        Packet(unsafe { Slot::from_raw(descriptor) })
    }

    /// Whether the packet is an mbuf of its driver's own pool, which the driver may free itself.
    #[inline]
    pub fn is_mbuf(&self) -> bool {
        self.0.flags() & FLAG_EXTERNAL != 0
    }
}

/// # Bytes
impl Packet {
    /// The number of bytes of data.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.pkt_len() as usize
    }

    /// Whether there are no bytes.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packet's bytes.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // SAFETY: `data_ptr` to `len` bytes further lies within the buffer (kept by every method that moves
        // a border), is initialised, and nobody writes it while this packet is borrowed: writing takes
        // `&mut` of the only packet that looks at the buffer.
        unsafe { std::slice::from_raw_parts(self.data_ptr(), self.len()) }
    }

    /// The packet's bytes for writing. A shared packet is first copied, which is counted.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.make_sole();
        self.own_bytes()
    }

    /// Bytes of headroom.
    #[inline]
    pub fn headroom(&self) -> usize {
        if self.0.buf_len() == LARGE {
            return self.data_ptr() as usize - self.0.buffer_owner().own_buffer() as usize;
        }
        usize::from(self.0.data_off())
    }

    /// The data, and `n` bytes of headroom in front of it: a header that was stripped, for one. `None` if the headroom
    /// is smaller.
    pub fn data_from(&self, n: usize) -> Option<&[u8]> {
        if n > self.headroom() {
            return None;
        }
        // SAFETY: headroom and data are bytes of one buffer, which `unstrip` makes data in the same way.
        Some(unsafe { std::slice::from_raw_parts(self.data_ptr().sub(n), self.len() + n) })
    }

    /// A number that no other packet has as long as this one exists.
    pub fn identity(&self) -> usize {
        self.0.as_non_null().addr().get()
    }

    /// Bytes of tailroom.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.room().saturating_sub(self.headroom() + self.len())
    }

    /// Removes `n` bytes from the front. Returns false, and changes nothing, when there are fewer.
    #[inline(always)]
    #[must_use = "a packet that is too short is not changed"]
    pub fn strip(&mut self, n: usize) -> bool {
        let len = self.len();
        if n > len {
            return false;
        }
        let offset = usize::from(self.0.data_off()) + n;
        if offset > usize::from(u16::MAX) {
            self.place(self.headroom() + n);
        } else {
            self.0.set_data_off(offset as u16);
        }
        self.0.set_pkt_len((len - n) as u32);
        true
    }

    /// Makes `n` bytes of the headroom part of the data again, with their old contents. Returns false, and
    /// changes nothing, when the headroom is smaller.
    #[inline(always)]
    #[must_use = "a packet without the headroom is not changed"]
    pub fn unstrip(&mut self, n: usize) -> bool {
        match usize::from(self.0.data_off()).checked_sub(n) {
            Some(offset) => self.0.set_data_off(offset as u16),
            None => match self.headroom().checked_sub(n) {
                // A large buffer whose offsets count from a later base.
                Some(headroom) => self.place(headroom),
                None => return false,
            },
        }
        self.0.set_pkt_len((self.len() + n) as u32);
        true
    }

    /// Extends the packet by `n` bytes at the front and returns them; their contents are undefined. Copies
    /// (counted) when the packet is shared or has too little headroom.
    #[inline(always)]
    pub fn prepend(&mut self, n: usize) -> &mut [u8] {
        match usize::from(self.0.data_off()).checked_sub(n) {
            Some(offset) if self.0.is_sole() => {
                self.0.set_data_off(offset as u16);
                self.0.set_pkt_len((self.len() + n) as u32);
                // SAFETY: the `n` bytes in front of where the data lay are headroom of a buffer that this packet alone
                // looks at.
                unsafe { std::slice::from_raw_parts_mut(self.data_ptr(), n) }
            }
            _ => self.prepend_slowly(n),
        }
    }

    #[inline(never)]
    fn prepend_slowly(&mut self, n: usize) -> &mut [u8] {
        self.make_headroom(n);
        let grown = self.unstrip(n);
        debug_assert!(grown);
        self.own_bytes().get_mut(..n).unwrap_or_default()
    }

    fn make_headroom(&mut self, n: usize) {
        self.make_sole();
        if self.headroom() < n {
            let headroom = n.saturating_add(DEFAULT_HEADROOM);
            self.relocate(headroom, self.tailroom().min(SPARE), CopyCause::Headroom);
        }
    }

    /// Prepends these bytes, like [`prepend`](Packet::prepend).
    #[inline(always)]
    pub fn push_front(&mut self, bytes: &[u8]) {
        self.prepend(bytes.len()).copy_from_slice(bytes);
    }

    /// Extends the packet by `n` bytes at the end and returns them; their contents are undefined. Copies
    /// (counted) when the packet is shared or has too little tailroom.
    #[inline]
    pub fn append(&mut self, n: usize) -> &mut [u8] {
        if !(self.0.is_sole() && n <= self.tailroom()) {
            self.make_tailroom(n);
        }
        let len = self.len();
        self.0.set_pkt_len((len + n) as u32);
        self.own_bytes().get_mut(len..).unwrap_or_default()
    }

    #[inline(never)]
    fn make_tailroom(&mut self, n: usize) {
        self.make_sole();
        if self.tailroom() < n {
            self.relocate(self.headroom(), n, CopyCause::Tailroom);
        }
    }

    /// Appends these bytes, like [`append`](Packet::append).
    #[inline]
    pub fn push_back(&mut self, bytes: &[u8]) {
        self.append(bytes.len()).copy_from_slice(bytes);
    }

    /// Removes `n` bytes from the end. Returns false, and changes nothing, when there are fewer.
    #[inline]
    #[must_use = "a packet that is too short is not changed"]
    pub fn trim(&mut self, n: usize) -> bool {
        let Some(len) = self.len().checked_sub(n) else { return false };
        self.0.set_pkt_len(len as u32);
        true
    }

    /// Truncates the packet to `len` bytes; a shorter one does not change.
    #[inline(always)]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.0.set_pkt_len(len as u32);
        }
    }

    /// Data and tailroom as one slice, for receiving into. A shared packet is first copied.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        self.make_sole();
        let len = self.len() + self.tailroom();
        // SAFETY: the buffer reaches from the data to the end of the tailroom, is initialised, and after
        // `make_sole` this packet alone looks at it.
        unsafe { std::slice::from_raw_parts_mut(self.data_ptr(), len) }
    }

    /// Sets the length within data and tailroom, for example after a receive. Returns false, and changes
    /// nothing, when the buffer is smaller.
    #[inline]
    #[must_use = "a length beyond the buffer is refused"]
    pub fn set_len(&mut self, len: usize) -> bool {
        if len > self.len() + self.tailroom() {
            return false;
        }
        self.0.set_pkt_len(len as u32);
        true
    }

    /// Sets the position of the data in the buffer, for receive paths where the device chose it. Returns
    /// false, and changes nothing, when it does not fit.
    #[must_use = "a window beyond the buffer is refused"]
    pub fn set_window(&mut self, headroom: usize, len: usize) -> bool {
        if headroom.checked_add(len).is_none_or(|end| end > self.room()) {
            return false;
        }
        self.place(headroom);
        self.0.set_pkt_len(len as u32);
        true
    }

    /// Makes sure that the bytes are not shared. Copies them if they are.
    #[inline(always)]
    pub fn make_sole(&mut self) {
        if !self.0.is_sole() {
            self.unshare();
        }
    }
}

/// # Annotations that are not in the annotation area
impl Packet {
    /// When the packet was received or made.
    #[inline]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.timestamp())
    }

    /// Sets the timestamp.
    #[inline]
    pub fn set_timestamp(&mut self, timestamp: Timestamp) {
        self.0.set_timestamp(timestamp.as_nanos());
    }

    /// The recipient to which the link layer addressed the packet.
    #[inline(always)]
    pub fn packet_type(&self) -> PacketType {
        PacketType::of_flags(self.0.flags())
    }

    /// Sets the packet type.
    #[inline(always)]
    pub fn set_packet_type(&mut self, packet_type: PacketType) {
        self.0.set_flags((self.0.flags() & !FLAG_TYPE_MASK) | packet_type as u16);
    }

    /// The number of the device that the packet came from or goes to.
    #[inline]
    pub fn device(&self) -> Option<u16> {
        Some(self.0.port()).filter(|device| *device != NO_DEVICE)
    }

    /// Sets the device number; 65,535 counts as none.
    #[inline]
    pub fn set_device(&mut self, device: Option<u16>) {
        self.0.set_port(device.unwrap_or(NO_DEVICE));
    }

    /// The hash over the packet's flow that the device computed.
    #[inline]
    pub fn device_hash(&self) -> Option<u32> {
        (self.0.ol_flags() & OL_RSS_HASH != 0).then(|| self.0.rss())
    }

    /// Records the device's flow hash.
    #[inline]
    pub fn set_device_hash(&mut self, hash: u32) {
        self.0.set_rss(hash);
        self.0.set_ol_flags(self.0.ol_flags() | OL_RSS_HASH);
    }
}

/// Tailroom worth keeping when a packet is copied.
const SPARE: usize = 64;

/// # The packet's slot
impl Packet {
    #[inline(always)]
    pub(super) fn slot(&self) -> Slot {
        self.0
    }

    #[inline(always)]
    pub(super) fn data_ptr(&self) -> *mut u8 {
        // SAFETY: `data_off` lies within the buffer or one past its end.
        unsafe { self.0.buf_addr().add(usize::from(self.0.data_off())) }
    }

    /// The bytes of a packet that is known not to be shared.
    #[inline(always)]
    pub(super) fn own_bytes(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`; callers made sure that no other packet looks at the buffer.
        unsafe { std::slice::from_raw_parts_mut(self.data_ptr(), self.len()) }
    }

    /// The size of the whole buffer in bytes.
    #[inline]
    fn room(&self) -> usize {
        match self.0.buf_len() {
            LARGE => self.0.buffer_owner().capacity() as usize,
            room => usize::from(room),
        }
    }

    /// Sets where the data starts in the buffer, and adjusts the header offsets.
    ///
    /// Offsets have 16 bits. In a large buffer, their base is moved when the data is too far from its start;
    /// a header that is then out of reach (more than 32 KiB in front of the data) is cleared.
    #[cold]
    pub(super) fn place(&mut self, headroom: usize) {
        let start = if self.0.buf_len() == LARGE {
            self.0.buffer_owner().own_buffer()
        } else {
            self.0.buf_addr()
        };
        let offset = headroom.min(REACH);
        let base = start.wrapping_add(headroom - offset);
        let moved = base as isize - self.0.buf_addr() as isize;
        let shifted = |header: u16| match header {
            NO_HEADER => NO_HEADER,
            header => u16::try_from(header as isize - moved).unwrap_or(NO_HEADER),
        };
        self.0.set_mac(shifted(self.0.mac()));
        self.0.set_network(shifted(self.0.network()));
        self.0.set_transport(shifted(self.0.transport()));
        self.0.set_buf_addr(base);
        self.0.set_data_off(offset as u16);
    }

    #[cold]
    fn unshare(&mut self) {
        if self.is_shared() {
            self.relocate(self.headroom(), self.tailroom().min(SPARE), CopyCause::Unshare);
        }
    }

    /// Moves the packet to a new slot with at least this much room around the data.
    #[cold]
    fn relocate(&mut self, headroom: usize, tailroom: usize, cause: CopyCause) {
        let headroom = headroom.max(self.headroom());
        // Sizes beyond what a packet can have end here, as running out of memory does.
        let Some(mut roomier) = Packet::stale_anywhere(headroom, self.len(), tailroom) else {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<Descriptor>())
        };
        copies::count(cause);
        roomier.take_over(self);
        *self = roomier;
    }

    /// Copies data, headroom contents, metadata and header offsets from a packet that is not longer and has
    /// no more headroom than this one.
    fn take_over(&mut self, from: &Packet) {
        let headroom = from.headroom();
        self.0.copy_metadata(from.0);
        // SAFETY: this packet was made with at least as much headroom and as many bytes, in a slot that is
        // not the other's; the source range lies within the other's buffer and is initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.data_ptr().sub(headroom),
                self.data_ptr().sub(headroom),
                headroom + from.len(),
            );
        }
        self.set_header_offsets([
            from.mac_header(),
            from.network_header(),
            from.transport_header(),
        ]);
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("len", &self.len())
            .field("headroom", &self.headroom())
            .field("tailroom", &self.tailroom())
            .field("shared", &self.is_shared())
            .field("timestamp", &self.timestamp())
            .finish_non_exhaustive()
    }
}

/// How far from the base the data may be in a large buffer, so that headers on both sides are in reach.
pub(super) const REACH: usize = 32_768;

impl Region {
    /// The offset of the packet's data from `base`, in bytes; `None` for a packet of another region. For a
    /// shared packet the data is in the slot that holds the bytes, not in that of its descriptor.
    pub fn offset_of(&self, packet: &Packet) -> Option<usize> {
        let offset = packet.data().as_ptr().addr().checked_sub(self.base.addr().get())?;
        (offset < self.len).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_move_and_headers_stay() {
        let mut packet = Packet::from_bytes(&[1, 2, 3, 4, 5, 6]).unwrap();
        packet.set_mac_header(0);
        packet.set_network_header(2, 2);
        assert!(packet.strip(2));
        assert_eq!(packet.data(), [3, 4, 5, 6]);
        assert_eq!((packet.mac_header(), packet.network_header()), (Some(-2), Some(0)));
        assert_eq!(packet.mac_data(), Some(&[1, 2, 3, 4, 5, 6][..]));
        assert_eq!(packet.transport_data(), Some(&[5, 6][..]));
        assert!(!packet.strip(5));
        assert!(packet.trim(1));
        assert!(packet.unstrip(2));
        assert_eq!(packet.data(), [1, 2, 3, 4, 5]);
        packet.push_front(&[9]);
        packet.push_back(&[7]);
        assert_eq!(packet.data(), [9, 1, 2, 3, 4, 5, 7]);
        assert_eq!(packet.mac_header(), Some(1));
    }

    #[test]
    fn a_shared_packet_is_copied_when_written() {
        let mut first = Packet::from_bytes(b"shared").unwrap();
        first.set_paint(3);
        let mut second = first.share().unwrap();
        assert!(first.is_shared() && second.is_shared());
        assert_eq!(first.data().as_ptr(), second.data().as_ptr());
        second.data_mut()[0] = b'S';
        assert!(!first.is_shared() && !second.is_shared());
        assert_eq!((first.data(), second.data()), (&b"shared"[..], &b"Shared"[..]));
        assert_eq!(second.paint(), 3);
    }
}

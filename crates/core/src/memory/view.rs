//! A packet as seen by elements that process packets one by one. The fields that they use most - where its
//! bytes begin, how many there are, where its headers are - are in registers.
//!
//! A descriptor is memory, and for all that the compiler knows, a byte stored into a packet might belong to
//! the descriptor. So an element that works on a [`Packet`] reloads address and length for each header that
//! it reads, and stores them after each header that it removes. A [`View`] loads them once, when the packet
//! enters a row of such elements, and stores them once, when it leaves.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::descriptor::{Descriptor, FLAG_TYPE_MASK, LARGE, NO_DEVICE, NO_HEADER, Slot, prefetch};
use super::packet::{Packet, PacketType};
use crate::headers::{Header, Ipv4Header};
use crate::time::Timestamp;

mod notes;
#[cfg(test)]
mod tests;

pub(super) use notes::Changed;
pub(crate) use notes::Readiness;

/// A packet whose address, length and header offsets are in registers.
///
/// The methods are those of [`Packet`], with the same meaning and limits; [`with_packet`](View::with_packet)
/// gives access to the others.
pub struct View {
    slot: Slot,
    /// The first byte of the data.
    data: *mut u8,
    /// Bytes of data; less than 2^32.
    len: usize,
    /// The descriptor's word of headers and flags, and [`IPV4`] if that is known.
    headers: u64,
    /// The bytes are not shared, and the buffer is not a large one. This is nearly always so, and the
    /// compiler knows it in the steps for such packets.
    ready: bool,
    /// Where the data starts, relative to the base of the descriptor's offsets, if that was asked before. A byte
    /// stored into the packet might change that base, for all that the compiler knows.
    start: Option<usize>,
    changed: Changed,
}

/// Set in `headers`: the network header is set, and the 20 bytes of an IPv4 header from there on are before
/// the end of the data.
const IPV4: u64 = 1 << 63;

/// The position of the link-layer header in `headers`.
const MAC: u32 = 16;
/// The position of the transport header.
const TRANSPORT: u32 = 32;
/// The position of the flags.
const FLAGS: u32 = 48;

/// The parts of a [`View`] as machine words, for functions that pass it on in registers.
type Words = (NonNull<Descriptor>, *mut u8, usize, u64);

/// Between packets and views.
impl View {
    /// The view of a packet, which it then owns. Dropping a view leaks its packet.
    #[inline(always)]
    pub(crate) fn of(packet: Packet) -> Self {
        let slot = ManuallyDrop::new(packet).slot();
        Self::of_slot(slot)
    }

    #[inline(always)]
    fn of_slot(slot: Slot) -> Self {
        let ready = slot.is_sole() && slot.buf_len() != LARGE;
        Self { ready, ..Self::of_unready(slot) }
    }

    #[inline(always)]
    fn of_unready(slot: Slot) -> Self {
        // SAFETY: `data_off` lies within the buffer or one past its end.
        let data = unsafe { slot.buf_addr().add(usize::from(slot.data_off())) };
        let (len, headers) = (slot.pkt_len() as usize, slot.headers());
        Self { slot, data, len, headers, ready: false, start: None, changed: Changed::ALL }
    }

    /// The view of one of many packets, which it then owns, as if it were not ready. `readiness` says of all of them
    /// whether they are.
    #[inline(always)]
    pub(crate) fn of_any(packet: Packet, readiness: &mut Readiness) -> Self {
        let slot = ManuallyDrop::new(packet).slot();
        readiness.add(slot);
        Self::of_unready(slot)
    }

    /// Converts the view back into the packet.
    #[inline(always)]
    pub(crate) fn into_packet(self) -> Packet {
        self.store();
        // SAFETY: the view owned the packet, and ends here.
        unsafe { Packet::from_raw(self.slot.as_non_null()) }
    }

    /// Writes the fields back into the descriptor.
    #[inline(always)]
    fn store(&self) {
        self.slot.set_headers(self.headers & !IPV4);
        let offset = self.offset();
        if !self.ready && (offset | self.len) > usize::from(u16::MAX) {
            return store_far(self.slot, self.data, self.len);
        }
        self.slot.set_short_window(offset as u16, self.len as u16);
    }

    /// Whether the packet may take the short form of a step: see [`from_words`](View::from_words).
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// Prefetches the first line of the bytes.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        prefetch(self.data);
    }

    /// Checks for `n` bytes of headroom, so that they can be used without another check. Returns false if
    /// there is less.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, n: usize) -> bool {
        let start = self.offset();
        self.start = Some(start);
        start >= n
    }

    /// The view as machine words, and which of them may have changed. [`from_words`](View::from_words) makes
    /// it a view again.
    #[inline(always)]
    pub(crate) fn into_words(self) -> (Words, Changed) {
        ((self.slot.as_non_null(), self.data, self.len, self.headers), self.changed)
    }

    /// # Safety
    /// The words are those of a view, and are used once; `ready` is false unless it was of that view.
    #[inline(always)]
    pub(crate) unsafe fn from_words((slot, data, len, headers): Words, ready: bool) -> Self {
        // SAFETY: the slot was a view's, and so was the length, which the descriptor holds in 32 bits.
        let slot = unsafe {
            std::hint::assert_unchecked(len <= u32::MAX as usize);
            Slot::from_raw(slot)
        };
        Self { slot, data, len, headers, ready, start: None, changed: Changed::NOTHING }
    }

    /// Runs `f` on the packet itself, for operations that a view does not have. Costs about forty
    /// instructions.
    #[inline(always)]
    pub fn with_packet<R>(&mut self, f: impl FnOnce(&mut Packet) -> R) -> R {
        let (slot, result) = apart(self.slot, self.data, self.len, self.headers, f);
        *self = Self::of_slot(slot);
        result
    }
}

// What follows takes and gives back words rather than views: one that is lent lies in memory, and so would the view of
// every step in which such a call is possible.

/// Runs `f` on the packet of a view, and returns the slot of the packet that `f` leaves.
#[inline(never)]
fn apart<R>(
    slot: Slot,
    data: *mut u8,
    len: usize,
    headers: u64,
    f: impl FnOnce(&mut Packet) -> R,
) -> (Slot, R) {
    View { slot, data, len, headers, ready: false, start: None, changed: Changed::ALL }.store();
    // SAFETY: the view owned the packet, and is made again of what `f` leaves.
    let mut packet = ManuallyDrop::new(unsafe { Packet::from_raw(slot.as_non_null()) });
    let result = f(&mut packet);
    (packet.slot(), result)
}

/// Writes back the position of the data in a large buffer.
#[cold]
#[inline(never)]
fn store_far(slot: Slot, data: *mut u8, len: usize) {
    slot.set_pkt_len(len as u32);
    let headroom = data as usize - slot.buffer_owner().own_buffer() as usize;
    // SAFETY: the view owns the packet; the second owner is forgotten.
    let mut packet = ManuallyDrop::new(unsafe { Packet::from_raw(slot.as_non_null()) });
    packet.place(headroom);
}

impl Packet {
    /// Runs `f` on a view of the packet, for code that works on views when you have a packet.
    #[inline]
    pub fn with_view<R>(self, f: impl FnOnce(&mut View) -> R) -> (Packet, R) {
        let mut view = View::of(self);
        let result = f(&mut view);
        (view.into_packet(), result)
    }
}

/// # Bytes
impl View {
    /// The number of bytes of data.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The packet's bytes.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // SAFETY: as in `Packet::data`; `data` and `len` are the packet's.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }

    /// The packet's bytes for writing. A shared packet is first copied, which is counted.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.make_sole();
        // SAFETY: as in `data`, and nobody else looks at the buffer.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }

    /// Whether other packets share the same bytes.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        !self.ready && !self.slot.is_sole() && self.slot.buffer_owner().holders() > 1
    }

    /// Makes sure that the bytes are not shared. Copies them if they are.
    #[inline(always)]
    pub fn make_sole(&mut self) {
        if !self.ready && !self.slot.is_sole() {
            self.with_packet(Packet::make_sole);
        }
    }

    /// Removes `n` bytes from the front. Returns false, and changes nothing, when there are fewer.
    #[inline(always)]
    #[must_use = "a packet that is too short is not changed"]
    pub fn strip(&mut self, n: usize) -> bool {
        if n > self.len {
            return false;
        }
        self.set_window(self.data.wrapping_add(n), self.len - n);
        true
    }

    /// Makes `n` bytes of the headroom part of the data again, with their old contents. Returns false, and
    /// changes nothing, when the headroom is smaller.
    #[inline(always)]
    #[must_use = "a packet without the headroom is not changed"]
    pub fn unstrip(&mut self, n: usize) -> bool {
        if n > self.offset() {
            return !self.ready && self.with_packet(|packet| packet.unstrip(n));
        }
        self.set_window(self.data.wrapping_sub(n), self.len + n);
        true
    }

    /// Extends the packet by `n` bytes at the front and returns them; their contents are undefined. Copies
    /// (counted) when the packet is shared or has too little headroom.
    #[inline(always)]
    pub fn prepend(&mut self, n: usize) -> &mut [u8] {
        if n <= self.offset() && (self.ready || self.slot.is_sole()) {
            let start = self.start;
            self.set_window(self.data.wrapping_sub(n), self.len + n);
            self.start = start.map(|start| start - n);
        } else {
            self.with_packet(|packet| {
                packet.prepend(n);
            });
        }
        // SAFETY: the packet has grown by these bytes, and nobody else looks at its buffer.
        unsafe { std::slice::from_raw_parts_mut(self.data, n) }
    }

    /// Prepends these bytes, like [`prepend`](View::prepend).
    #[inline(always)]
    pub fn push_front(&mut self, bytes: &[u8]) {
        self.prepend(bytes.len()).copy_from_slice(bytes);
    }

    /// Extends the packet by `n` bytes at the end and returns them; their contents are undefined. Copies
    /// (counted) when the packet is shared or has too little tailroom.
    #[inline(always)]
    pub fn append(&mut self, n: usize) -> &mut [u8] {
        let len = self.len;
        self.with_packet(|packet| {
            packet.append(n);
        });
        self.data_mut().get_mut(len..).unwrap_or_default()
    }

    /// Removes `n` bytes from the end. Returns false, and changes nothing, when there are fewer.
    #[inline(always)]
    #[must_use = "a packet that is too short is not changed"]
    pub fn trim(&mut self, n: usize) -> bool {
        let Some(len) = self.len.checked_sub(n) else { return false };
        self.truncate(len);
        true
    }

    /// Truncates the packet to `len` bytes; a shorter one does not change.
    #[inline(always)]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.set_len(len);
            self.set_headers(IPV4, 0);
        }
    }

    /// Bytes of headroom.
    #[inline]
    pub fn headroom(&mut self) -> usize {
        self.with_packet(|packet| packet.headroom())
    }

    #[inline(always)]
    fn set_window(&mut self, data: *mut u8, len: usize) {
        self.data = data;
        self.start = None;
        self.changed.data = true;
        self.set_len(len);
    }

    #[inline(always)]
    fn set_len(&mut self, len: usize) {
        self.len = len;
        self.changed.len = true;
    }

    /// Where the data starts, relative to the base of the descriptor's offsets.
    #[inline(always)]
    fn offset(&self) -> usize {
        let start = (self.data as usize).wrapping_sub(self.slot.buf_addr() as usize);
        self.start.unwrap_or(start)
    }
}

/// # Headers
impl View {
    /// The link-layer header's offset from the data; negative when it is in the headroom.
    #[inline(always)]
    pub fn mac_header(&self) -> Option<isize> {
        self.relative(self.mac())
    }

    /// The network header's offset from the data; negative when it is in the headroom.
    #[inline(always)]
    pub fn network_header(&self) -> Option<isize> {
        self.relative(self.network())
    }

    /// The transport header's offset from the data; negative when it is in the headroom.
    #[inline(always)]
    pub fn transport_header(&self) -> Option<isize> {
        self.relative(self.transport())
    }

    /// The network header's position in `data()`, if it is there.
    #[inline(always)]
    pub fn network_offset(&self) -> Option<usize> {
        self.in_data(self.network_header())
    }

    /// The transport header's position in `data()`, if it is there.
    #[inline(always)]
    pub fn transport_offset(&self) -> Option<usize> {
        self.in_data(self.transport_header())
    }

    /// Sets the link-layer header, as an offset from the data.
    #[inline(always)]
    pub fn set_mac_header(&mut self, offset: isize) {
        let place = self.place_of(offset, 0);
        self.set_headers(0xffff << MAC, place << MAC);
    }

    /// Sets the link-layer header, as an offset from the data, and the network header `header_len` bytes
    /// after it. Does not change the transport header.
    #[inline(always)]
    pub fn set_link_header(&mut self, offset: isize, header_len: usize) {
        let (place, next) = self.places_of(offset, header_len);
        self.set_headers(0xffff << MAC | 0xffff | IPV4, place << MAC | next);
    }

    /// Sets the network header, as an offset from the data, and the transport header `header_len` bytes after
    /// it.
    #[inline(always)]
    pub fn set_network_header(&mut self, offset: isize, header_len: usize) {
        let (place, next) = self.places_of(offset, header_len);
        let whole = offset >= 0 && self.len.wrapping_sub(offset as usize) >= Ipv4Header::LEN;
        let whole = whole && offset as usize <= self.len && next != u64::from(NO_HEADER);
        let known = if whole { IPV4 } else { 0 };
        self.set_headers(0xffff | 0xffff << TRANSPORT | IPV4, place | next << TRANSPORT | known);
    }

    /// If the bytes from `offset` on are a complete datagram with an IPv4 header without options, and
    /// `is_good` returns true for it: truncates the packet to the datagram's end, and sets the network header
    /// and the transport header. Otherwise changes nothing and returns false.
    #[inline(always)]
    #[must_use = "a packet with another header is not changed"]
    pub fn enter_ipv4(
        &mut self,
        offset: usize,
        is_good: impl FnOnce(&[u8; Ipv4Header::LEN]) -> bool,
    ) -> bool {
        /// Version 4, and a header of five words.
        const PLAIN: u8 = 0x45;
        let end = offset.checked_add(Ipv4Header::LEN);
        // The bytes after the header.
        let Some(rest) = end.and_then(|end| self.len.checked_sub(end)) else { return false };
        // SAFETY: the header ends in front of the end of the data.
        let header: &[u8; Ipv4Header::LEN] = unsafe { &*self.data.add(offset).cast() };
        let &[first, _, high, low, ..] = header;
        let len = usize::from(u16::from_be_bytes([high, low]));
        // Both are compared at once.
        let within = len.wrapping_sub(Ipv4Header::LEN) <= rest;
        if first != PLAIN || !within || !is_good(header) {
            return false;
        }
        self.set_len(offset + len);
        if !self.ready {
            self.set_network_header(offset as isize, Ipv4Header::LEN);
            return true;
        }
        // Inside of the data is inside of the buffer.
        let place = self.offset().wrapping_add(offset) as u64;
        let mask = 0xffff | 0xffff << TRANSPORT | IPV4;
        // One addition for what is constant.
        const SET: u64 = IPV4 | (Ipv4Header::LEN as u64) << TRANSPORT;
        let places = (place | place << TRANSPORT).wrapping_add(SET);
        self.set_headers(mask, places);
        true
    }

    /// Sets the transport header, as an offset from the data.
    #[inline(always)]
    pub fn set_transport_header(&mut self, offset: isize) {
        let place = self.place_of(offset, 0);
        self.set_headers(0xffff << TRANSPORT, place << TRANSPORT);
    }

    /// Clears the link-layer header.
    #[inline(always)]
    pub fn clear_mac_header(&mut self) {
        self.set_headers(0, u64::from(NO_HEADER) << MAC);
    }

    /// Clears the network header.
    #[inline(always)]
    pub fn clear_network_header(&mut self) {
        self.set_headers(IPV4, NO_HEADER.into());
    }

    /// Clears the transport header.
    #[inline(always)]
    pub fn clear_transport_header(&mut self) {
        self.set_headers(0, u64::from(NO_HEADER) << TRANSPORT);
    }

    /// The bytes from the link-layer header to the end of the packet, wherever the data starts.
    #[inline(always)]
    pub fn mac_data(&self) -> Option<&[u8]> {
        self.bytes_at(self.mac())
    }

    /// The bytes from the network header to the end of the packet.
    #[inline(always)]
    pub fn network_data(&self) -> Option<&[u8]> {
        self.bytes_at(self.network())
    }

    /// The bytes from the transport header to the end of the packet.
    #[inline(always)]
    pub fn transport_data(&self) -> Option<&[u8]> {
        self.bytes_at(self.transport())
    }

    /// Like [`mac_data`](View::mac_data), for writing; a shared packet is first copied.
    #[inline(always)]
    pub fn mac_data_mut(&mut self) -> Option<&mut [u8]> {
        self.make_sole();
        self.bytes_at_mut(self.mac())
    }

    /// Like [`network_data`](View::network_data), for writing; a shared packet is first copied.
    #[inline(always)]
    pub fn network_data_mut(&mut self) -> Option<&mut [u8]> {
        self.make_sole();
        self.bytes_at_mut(self.network())
    }

    /// Like [`transport_data`](View::transport_data), for writing; a shared packet is first copied.
    #[inline(always)]
    pub fn transport_data_mut(&mut self) -> Option<&mut [u8]> {
        self.make_sole();
        self.bytes_at_mut(self.transport())
    }

    /// The first 20 bytes from the network header on, as an IPv4 header: `None` when the header is not set,
    /// or the packet is too short. Costs nothing after an element that has checked the header.
    #[inline(always)]
    pub fn ipv4(&self) -> Option<&Ipv4Header> {
        if self.headers & IPV4 == 0 {
            std::hint::cold_path();
            return Some(Ipv4Header::view(self.network_data()?)?.0);
        }
        // SAFETY: the flag says that the bytes are there; they are initialised, any bytes are a header, which
        // has no alignment, and nobody writes them while this packet is borrowed.
        Some(unsafe { &*self.there(self.network()).cast() })
    }

    /// Like [`ipv4`](View::ipv4), for writing; a shared packet that has the header is first copied.
    #[inline(always)]
    pub fn ipv4_mut(&mut self) -> Option<&mut Ipv4Header> {
        if self.headers & IPV4 == 0 {
            std::hint::cold_path();
            Ipv4Header::view(self.network_data()?)?;
        }
        self.make_sole();
        // The copy of a large packet forgets a header that is far in front of the data.
        if !self.ready && self.network() == NO_HEADER {
            return None;
        }
        // SAFETY: the bytes are there, as the flag or the look said, and a copy has them, too; nobody else looks
        // at the buffer.
        Some(unsafe { &mut *self.there(self.network()).cast() })
    }

    #[inline(always)]
    fn network(&self) -> u16 {
        self.headers as u16
    }

    #[inline(always)]
    fn mac(&self) -> u16 {
        (self.headers >> MAC) as u16
    }

    #[inline(always)]
    fn transport(&self) -> u16 {
        (self.headers >> TRANSPORT) as u16
    }

    #[inline(always)]
    fn set_headers(&mut self, mask: u64, headers: u64) {
        self.headers = self.headers & !mask | headers;
        self.changed.headers = true;
    }

    #[inline(always)]
    fn relative(&self, header: u16) -> Option<isize> {
        (header != NO_HEADER).then(|| (header as isize).wrapping_sub(self.offset() as isize))
    }

    #[inline(always)]
    fn in_data(&self, header: Option<isize>) -> Option<usize> {
        let offset = usize::try_from(header?).ok()?;
        (offset <= self.len).then_some(offset)
    }

    /// The position that the descriptor stores for `offset + len` bytes after the start of the data. Outside
    /// the buffer, or more than 64 KiB from the base of the offsets in a large one, the header is not set.
    #[inline(always)]
    fn place_of(&self, offset: isize, len: usize) -> u64 {
        let place = self.offset().wrapping_add_signed(offset).wrapping_add(len);
        // What lies inside of the data lies inside of the buffer.
        let end = offset.wrapping_add_unsigned(len);
        let in_data = self.ready && offset >= 0 && end >= 0 && end as usize <= self.len;
        let inside = in_data || place <= usize::from(self.slot.buf_len());
        if inside { place as u64 } else { NO_HEADER.into() }
    }

    /// The positions of a header and of the byte after its `len` bytes.
    #[inline(always)]
    fn places_of(&self, offset: isize, len: usize) -> (u64, u64) {
        (self.place_of(offset, 0), self.place_of(offset, len))
    }

    /// # Safety
    /// The header is set.
    #[inline(always)]
    unsafe fn there(&self, header: u16) -> *mut u8 {
        let place = self.at(header);
        // SAFETY: a header that is set lies in the buffer.
        unsafe { std::hint::assert_unchecked(!place.is_null()) };
        place
    }

    #[inline(always)]
    fn at(&self, header: u16) -> *mut u8 {
        self.slot.buf_addr().wrapping_add(usize::from(header))
    }

    #[inline(always)]
    fn bytes_at(&self, header: u16) -> Option<&[u8]> {
        let len = self.len_from(header)?;
        // SAFETY: as in `Packet`: a header that is set lies in the buffer, here in front of the end of the data.
        Some(unsafe {
            let start = self.at(header);
            std::hint::assert_unchecked(!start.is_null());
            std::slice::from_raw_parts(start, len)
        })
    }

    /// Call [`make_sole`](View::make_sole) first, and only then read the header's position.
    #[inline(always)]
    fn bytes_at_mut(&mut self, header: u16) -> Option<&mut [u8]> {
        let len = self.len_from(header)?;
        // SAFETY: as in `bytes_at`; the callers made sure that this packet alone looks at the buffer.
        Some(unsafe {
            let start = self.at(header);
            std::hint::assert_unchecked(!start.is_null());
            std::slice::from_raw_parts_mut(start, len)
        })
    }

    /// Bytes from a header to the end of the data.
    #[inline(always)]
    fn len_from(&self, header: u16) -> Option<usize> {
        if header == NO_HEADER {
            return None;
        }
        (self.offset() + self.len).checked_sub(usize::from(header))
    }
}

/// # Annotations that are not in the annotation area
impl View {
    /// When the packet was received or made.
    #[inline(always)]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_nanos(self.slot.timestamp())
    }

    /// Sets the timestamp.
    #[inline(always)]
    pub fn set_timestamp(&mut self, timestamp: Timestamp) {
        self.slot.set_timestamp(timestamp.as_nanos());
    }

    /// The recipient to which the link layer addressed the packet.
    #[inline(always)]
    pub fn packet_type(&self) -> PacketType {
        PacketType::of_flags((self.headers >> FLAGS) as u16)
    }

    /// Sets the packet type.
    #[inline(always)]
    pub fn set_packet_type(&mut self, packet_type: PacketType) {
        let mask = u64::from(FLAG_TYPE_MASK) << FLAGS;
        self.set_headers(mask, (packet_type as u64) << FLAGS);
    }

    /// The number of the device that the packet came from or goes to.
    #[inline(always)]
    pub fn device(&self) -> Option<u16> {
        Some(self.slot.port()).filter(|device| *device != NO_DEVICE)
    }

    /// A second packet that shares the same bytes, like [`Packet::share`].
    pub fn share(&mut self) -> Option<Packet> {
        self.with_packet(|packet| packet.share())
    }

    #[inline(always)]
    pub(super) fn slot(&self) -> Slot {
        self.slot
    }
}

//! The positions of a packet's headers.
//!
//! Offsets are stored relative to the buffer, so that moving the front of the packet does not change them.
//! The methods accept and return them relative to the data. A header may be in front of the data: after
//! `Strip(14)` the Ethernet header is at -14.

use super::descriptor::{LARGE, NO_HEADER};
use super::packet::{Packet, REACH};

impl Packet {
    /// The link-layer header's offset from the data; negative when it is in the headroom.
    #[inline(always)]
    pub fn mac_header(&self) -> Option<isize> {
        self.relative(self.slot().mac())
    }

    /// The network header's offset from the data; negative when it is in the headroom.
    #[inline(always)]
    pub fn network_header(&self) -> Option<isize> {
        self.relative(self.slot().network())
    }

    /// The transport header's offset from the data; negative when it is in the headroom.
    #[inline]
    pub fn transport_header(&self) -> Option<isize> {
        self.relative(self.slot().transport())
    }

    /// The network header's position in `data()`, if it is there.
    #[inline]
    pub fn network_offset(&self) -> Option<usize> {
        self.in_data(self.network_header())
    }

    /// The transport header's position in `data()`, if it is there.
    #[inline]
    pub fn transport_offset(&self) -> Option<usize> {
        self.in_data(self.transport_header())
    }

    /// Bytes from the link-layer header to the network header.
    #[inline]
    pub fn mac_header_len(&self) -> Option<usize> {
        distance(self.slot().mac(), self.slot().network())
    }

    /// Sets the link-layer header, as an offset from the data.
    #[inline(always)]
    pub fn set_mac_header(&mut self, offset: isize) {
        let offset = self.in_buffer(offset);
        self.slot().set_mac(offset);
    }

    /// Sets the link-layer header to the start of the data, like `set_mac_header(0)` with fewer instructions.
    #[inline(always)]
    pub fn start_with_mac_header(&mut self) {
        if self.slot().buf_len() == LARGE {
            return self.set_mac_header(0);
        }
        // The data starts inside of the buffer.
        self.slot().set_mac(self.slot().data_off_alone());
    }

    /// Sets the link-layer header, as an offset from the data, and the network header `header_len` bytes
    /// after it. Does not change the transport header.
    #[inline(always)]
    pub fn set_link_header(&mut self, offset: isize, header_len: usize) {
        self.set_mac_header(offset);
        let network = offset.saturating_add_unsigned(header_len);
        let network = self.in_buffer(network);
        self.slot().set_network(network);
    }

    /// Sets the network header, as an offset from the data, and the transport header `header_len` bytes after
    /// it.
    #[inline(always)]
    pub fn set_network_header(&mut self, offset: isize, header_len: usize) {
        let buf_len = self.slot().buf_len();
        if buf_len == LARGE {
            return self.set_network_header_in_large(offset, header_len);
        }
        let fit =
            |place: usize| if place <= usize::from(buf_len) { place as u16 } else { NO_HEADER };
        let network = usize::from(self.slot().data_off_alone()).wrapping_add_signed(offset);
        self.slot().set_network(fit(network));
        self.slot().set_transport(fit(network.wrapping_add(header_len)));
    }

    #[cold]
    fn set_network_header_in_large(&mut self, offset: isize, header_len: usize) {
        let network = self.in_buffer(offset);
        let transport = offset.checked_add_unsigned(header_len);
        let transport = transport.map_or(NO_HEADER, |offset| self.in_buffer(offset));
        self.slot().set_network(network);
        self.slot().set_transport(transport);
    }

    /// Sets the transport header, as an offset from the data.
    #[inline(always)]
    pub fn set_transport_header(&mut self, offset: isize) {
        let offset = self.in_buffer(offset);
        self.slot().set_transport(offset);
    }

    /// Clears the link-layer header.
    #[inline]
    pub fn clear_mac_header(&mut self) {
        self.slot().set_mac(NO_HEADER);
    }

    /// Clears the network header.
    #[inline]
    pub fn clear_network_header(&mut self) {
        self.slot().set_network(NO_HEADER);
    }

    /// Clears the transport header.
    #[inline]
    pub fn clear_transport_header(&mut self) {
        self.slot().set_transport(NO_HEADER);
    }

    /// The bytes from the link-layer header to the end of the packet, wherever the data starts.
    #[inline]
    pub fn mac_data(&self) -> Option<&[u8]> {
        self.bytes_at(self.slot().mac())
    }

    /// The bytes from the network header to the end of the packet.
    #[inline(always)]
    pub fn network_data(&self) -> Option<&[u8]> {
        self.bytes_at(self.slot().network())
    }

    /// The bytes from the transport header to the end of the packet.
    #[inline]
    pub fn transport_data(&self) -> Option<&[u8]> {
        self.bytes_at(self.slot().transport())
    }

    /// Like [`mac_data`](Packet::mac_data), for writing; a shared packet is first copied.
    #[inline]
    pub fn mac_data_mut(&mut self) -> Option<&mut [u8]> {
        self.make_sole();
        self.bytes_at_mut(self.slot().mac())
    }

    /// Like [`network_data`](Packet::network_data), for writing; a shared packet is first copied.
    #[inline(always)]
    pub fn network_data_mut(&mut self) -> Option<&mut [u8]> {
        self.make_sole();
        self.bytes_at_mut(self.slot().network())
    }

    /// Like [`transport_data`](Packet::transport_data), for writing; a shared packet is first copied.
    #[inline]
    pub fn transport_data_mut(&mut self) -> Option<&mut [u8]> {
        self.make_sole();
        self.bytes_at_mut(self.slot().transport())
    }

    /// Sets all three headers at once.
    pub(super) fn set_header_offsets(&mut self, [mac, network, transport]: [Option<isize>; 3]) {
        let mut offset = |header: Option<isize>| match header {
            Some(header) => self.in_buffer(header),
            None => NO_HEADER,
        };
        let (mac, network, transport) = (offset(mac), offset(network), offset(transport));
        self.slot().set_mac(mac);
        self.slot().set_network(network);
        self.slot().set_transport(transport);
    }

    #[inline(always)]
    fn relative(&self, header: u16) -> Option<isize> {
        let data = isize::from_ne_bytes(usize::from(self.slot().data_off()).to_ne_bytes());
        (header != NO_HEADER).then(|| header as isize - data)
    }

    #[inline]
    fn in_data(&self, header: Option<isize>) -> Option<usize> {
        let offset = usize::try_from(header?).ok()?;
        (offset <= self.len()).then_some(offset)
    }

    /// Converts an offset relative to the data to one that the descriptor stores. A header outside the
    /// buffer, or more than 32 KiB away in a large one, is not set.
    #[inline(always)]
    fn in_buffer(&mut self, offset: isize) -> u16 {
        let buf_len = self.slot().buf_len();
        if buf_len == LARGE {
            return self.in_large_buffer(offset);
        }
        let place = usize::from(self.slot().data_off_alone()).wrapping_add_signed(offset);
        if place <= usize::from(buf_len) { place as u16 } else { NO_HEADER }
    }

    #[cold]
    fn in_large_buffer(&mut self, offset: isize) -> u16 {
        let limit = self.len() + self.tailroom();
        if offset < -(self.headroom() as isize) || offset > limit as isize {
            return NO_HEADER;
        }
        if usize::from(self.slot().data_off()) > REACH {
            self.place(self.headroom());
        }
        let place = self.slot().data_off() as isize + offset;
        u16::try_from(place).unwrap_or(NO_HEADER)
    }

    #[inline(always)]
    fn bytes_at(&self, header: u16) -> Option<&[u8]> {
        let len = self.len_from(header)?;
        // SAFETY: a header that is set lies in the buffer, and `len_from` checked that it lies in front of the
        // end of the data; the buffer is initialised, and nobody writes it while this packet is borrowed.
        Some(unsafe {
            let start = self.slot().buf_addr().add(usize::from(header));
            // Else the compiler asks, for nothing looks like no slice.
            std::hint::assert_unchecked(!start.is_null());
            std::slice::from_raw_parts(start, len)
        })
    }

    /// Call [`make_sole`](Packet::make_sole) first, and only then read the header's position.
    #[inline(always)]
    fn bytes_at_mut(&mut self, header: u16) -> Option<&mut [u8]> {
        let len = self.len_from(header)?;
        // SAFETY: as in `bytes_at`; the callers made sure that this packet alone looks at the buffer.
        Some(unsafe {
            let start = self.slot().buf_addr().add(usize::from(header));
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
        (usize::from(self.slot().data_off()) + self.len()).checked_sub(usize::from(header))
    }
}

#[inline]
fn distance(from: u16, to: u16) -> Option<usize> {
    if from == NO_HEADER || to == NO_HEADER {
        return None;
    }
    to.checked_sub(from).map(usize::from)
}

//! The work on a packet that the kernel leaves to us: checksums, and cutting large segments; and on transmit
//! the work that we leave to the kernel ([`merge`]).
//!
//! The header is that of virtio (OASIS virtio 1.2, 5.1.6), in the machine's byte order. Packet sockets and
//! TAP devices put it in front of each packet.

mod finish;
pub(crate) mod merge;
mod partial;

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, Ipv6Addr};

use millrace_core::Packet;
use millrace_core::checksum::{Sum, checksum};
use millrace_core::headers::{Header, Ipv6Header, VlanHeader, ether_type, protocol};

pub(crate) use finish::{Finished, Finisher};
pub(crate) use partial::{complete_partial, cut_within};

/// Bytes of the header in front of each packet.
pub(crate) const HEADER: usize = 10;

pub(crate) const NEEDS_CHECKSUM: u8 = 1;
pub(crate) const GSO_TCP_IPV4: u8 = 1;
pub(crate) const GSO_TCP_IPV6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Set in addition to a type when the sender reduced its congestion window.
const GSO_ECN: u8 = 0x80;

/// The first header of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Link {
    /// An Ethernet header.
    #[default]
    Ethernet,
    /// The IP header.
    Ip,
}

impl Link {
    /// Bytes in front of the IP header if there is no VLAN tag.
    pub(crate) const fn header(self) -> usize {
        match self {
            Link::Ethernet => 14,
            Link::Ip => 0,
        }
    }
}

/// The work that is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offload {
    link: Link,
    checksum: Option<Partial>,
    /// Bytes of payload of each segment, if there are several.
    pub(crate) segments: Option<Segments>,
}

/// A checksum field that contains only the sum of the pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Partial {
    /// The start of the bytes that it covers, up to the end of the packet.
    start: usize,
    /// The offset of the field from there.
    offset: usize,
}

/// How to cut a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segments {
    /// Into segments with this many bytes of payload.
    Of(usize),
    /// In a way that we do not know.
    Unknown,
}

impl Offload {
    /// Reads the header of an Ethernet frame.
    pub(crate) fn parse(header: &[u8; HEADER]) -> Self {
        Self::parse_over(Link::Ethernet, header)
    }

    /// Reads the header of a packet that starts with `link`.
    pub(crate) fn parse_over(link: Link, header: &[u8; HEADER]) -> Self {
        let word = |at: usize| {
            let bytes = header.get(at..).and_then(|bytes| bytes.first_chunk());
            usize::from(bytes.map_or(0, |bytes| u16::from_ne_bytes(*bytes)))
        };
        let [flags, kind, ..] = *header;
        let partial = || Partial { start: word(6), offset: word(8) };
        let size = word(4);
        let segments = match kind & !GSO_ECN {
            0 => None,
            GSO_TCP_IPV4 | GSO_TCP_IPV6 | GSO_UDP if size > 0 => Some(Segments::Of(size)),
            _ => Some(Segments::Unknown),
        };
        Self { link, checksum: (flags & NEEDS_CHECKSUM != 0).then(partial), segments }
    }

    /// Accounts for bytes that were inserted before the network header.
    pub(crate) fn shift(&mut self, bytes: usize) {
        if let Some(partial) = &mut self.checksum {
            partial.start += bytes;
        }
    }

    /// Whether a checksum is missing.
    pub(crate) fn lacks_checksum(&self) -> bool {
        self.checksum.is_some()
    }

    /// Fills in the checksum of a whole packet.
    pub(crate) fn complete(&self, frame: &mut [u8]) {
        const UDP_CHECKSUM: usize = 6;
        let Some(Partial { start, offset }) = self.checksum else { return };
        let Some(covered) = frame.get_mut(start..) else { return };
        let sum = Sum::of(covered);
        let value = if offset == UDP_CHECKSUM { sum.finish_udp() } else { sum.finish() };
        put(covered, offset, value.to_be_bytes());
    }
}

/// Cuts a TCP segment or a train of UDP datagrams into packets with `size` bytes of payload each. The bytes
/// of `rest` come after those of `first`, which contains all headers.
///
/// Each packet gets the headers with lengths, checksums, IPv4 identification and TCP sequence numbers and
/// flags as if the sender had cut it. The caller must copy the metadata of `first`. Returns how many packets
/// are missing for lack of memory; `None` when the packet could not be cut.
pub(crate) fn cut(
    link: Link,
    first: &Packet,
    rest: &[u8],
    size: usize,
    mut take: impl FnMut(Packet),
) -> Option<usize> {
    let frame = first.data();
    let layout = Layout::of(link, frame)?;
    let (headers, payload) = frame.split_at_checked(layout.payload)?;
    let total = payload.len() + rest.len();
    let size = size.max(1);
    for (index, at) in (0..total).step_by(size).enumerate() {
        let length = size.min(total - at);
        let Some(mut packet) = Packet::stale(first.headroom(), headers.len() + length, 0) else {
            return Some((total - at).div_ceil(size));
        };
        let (head, body) = packet.data_mut().split_at_mut(headers.len());
        head.copy_from_slice(headers);
        gather(payload, rest, at, body);
        layout.fit(packet.data_mut(), index, at, at + length == total);
        take(packet);
    }
    Some(0)
}

/// Copies the bytes from `at` on, of two slices that belong together.
fn gather(first: &[u8], second: &[u8], at: usize, into: &mut [u8]) {
    let front = first.get(at..).unwrap_or_default();
    let front = front.get(..into.len()).unwrap_or(front);
    let (a, b) = into.split_at_mut(front.len());
    a.copy_from_slice(front);
    let from = at.saturating_sub(first.len());
    if let Some(back) = second.get(from..).and_then(|back| back.get(..b.len())) {
        b.copy_from_slice(back);
    }
}

/// The positions of a frame's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) network: usize,
    pub(crate) is_ipv6: bool,
    pub(crate) transport: usize,
    pub(crate) protocol: u8,
    pub(crate) payload: usize,
}

pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;

impl Layout {
    /// Finds the headers of TCP or UDP over IP.
    pub(crate) fn of(link: Link, frame: &[u8]) -> Option<Self> {
        let (network, ether_type) = match link {
            Link::Ethernet => behind_ethernet(frame)?,
            Link::Ip if frame.first()? >> 4 == 4 => (0, IPV4),
            Link::Ip => (0, IPV6),
        };
        let version = frame.get(network)? >> 4;
        let (is_ipv6, protocol, transport) = match (ether_type, version) {
            (IPV4, 4) => {
                let length = usize::from(frame.get(network)? & 0x0f) * 4;
                (false, *frame.get(network + 9)?, network + length.max(20))
            }
            (IPV6, 6) => {
                let (protocol, transport) = upper_layer(frame, network)?;
                (true, protocol, transport)
            }
            _ => return None,
        };
        let length = match protocol {
            TCP => usize::from(frame.get(transport + 12)? >> 4).max(5) * 4,
            UDP => 8,
            _ => return None,
        };
        let payload = transport + length;
        (payload <= frame.len()).then_some(Self { network, is_ipv6, transport, protocol, payload })
    }

    /// Corrects the headers of the packet whose payload starts `at` bytes into that of the whole one.
    fn fit(&self, frame: &mut [u8], index: usize, at: usize, is_last: bool) {
        let ip_length = frame.len() - self.network;
        if self.is_ipv6 {
            const IPV6_HEADER: usize = 40;
            let length = ip_length.saturating_sub(IPV6_HEADER) as u16;
            put(frame, self.network + 4, length.to_be_bytes());
        } else {
            let id = be16(frame, self.network + 4).unwrap_or(0).wrapping_add(index as u16);
            put(frame, self.network + 2, (ip_length as u16).to_be_bytes());
            put(frame, self.network + 4, id.to_be_bytes());
            put(frame, self.network + 10, [0, 0]);
            let sum = frame.get(self.network..self.transport).map_or(0, checksum);
            put(frame, self.network + 10, sum.to_be_bytes());
        }
        if self.protocol == TCP {
            self.fit_tcp(frame, index, at, is_last);
        } else {
            let length = (frame.len() - self.transport) as u16;
            put(frame, self.transport + 4, length.to_be_bytes());
        }
        self.sum_up(frame);
    }

    fn fit_tcp(&self, frame: &mut [u8], index: usize, at: usize, is_last: bool) {
        const FIN_AND_PSH: u8 = 0x09;
        const CWR: u8 = 0x80;
        let sequence = frame.get(self.transport + 4..).and_then(|bytes| bytes.first_chunk());
        if let Some(sequence) = sequence {
            let sequence = u32::from_be_bytes(*sequence).wrapping_add(at as u32);
            put(frame, self.transport + 4, sequence.to_be_bytes());
        }
        if let Some(flags) = frame.get_mut(self.transport + 13) {
            *flags &= if is_last { 0xff } else { !FIN_AND_PSH };
            *flags &= if index == 0 { 0xff } else { !CWR };
        }
    }

    /// Sets the checksum of TCP or UDP.
    fn sum_up(&self, frame: &mut [u8]) {
        let field = self.transport + if self.protocol == TCP { 16 } else { 6 };
        put(frame, field, [0, 0]);
        let Some(covered) = frame.get(self.transport..) else { return };
        let sum = self.pseudo_sum(frame, covered.len()).add_bytes(covered);
        let value = if self.protocol == UDP { sum.finish_udp() } else { sum.finish() };
        put(frame, field, value.to_be_bytes());
    }

    /// The sum of the pseudo-header of `length` bytes above IP.
    pub(crate) fn pseudo_sum(&self, frame: &[u8], length: usize) -> Sum {
        let address = |at: usize| frame.get(self.network + at..);
        if self.is_ipv6 {
            let of = |at| address(at).and_then(|bytes| bytes.first_chunk::<16>());
            let of = |at| of(at).map_or(Ipv6Addr::UNSPECIFIED, |bytes| Ipv6Addr::from(*bytes));
            Sum::of_pseudo_v6(of(8), of(24), self.protocol, length as u32)
        } else {
            let of = |at| address(at).and_then(|bytes| bytes.first_chunk::<4>());
            let of = |at| of(at).map_or(Ipv4Addr::UNSPECIFIED, |bytes| Ipv4Addr::from(*bytes));
            Sum::of_pseudo_v4(of(12), of(16), self.protocol, length as u16)
        }
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// The position of the header after the Ethernet header and its VLAN tags, and its EtherType.
fn behind_ethernet(frame: &[u8]) -> Option<(usize, u16)> {
    let mut at = 12;
    let mut ether_type = be16(frame, at)?;
    while ether_type::is_tag(ether_type) {
        at += 4;
        ether_type = be16(frame, at)?;
    }
    Some((at + 2, ether_type))
}

/// The protocol above IPv6 and the position of its header, after the extension headers. `None` for a fragment and for
/// an authenticated packet, in which no length or sequence number may change.
fn upper_layer(frame: &[u8], network: usize) -> Option<(u8, usize)> {
    let (header, payload) = Ipv6Header::view(frame.get(network..)?)?;
    let mut extensions = header.extensions(payload);
    let fixed = |kind| matches!(kind, protocol::FRAGMENT | protocol::AH);
    if extensions.by_ref().any(|extension| fixed(extension.kind)) {
        return None;
    }
    let (protocol, at) = extensions.upper()?;
    Some((protocol, network + Ipv6Header::LEN + at))
}

/// How much longer a packet may be because of its VLAN tag.
#[inline]
pub(crate) fn tag_len(frame: &[u8]) -> usize {
    if be16(frame, 12).is_some_and(ether_type::is_tag) { VlanHeader::LEN } else { 0 }
}

/// The 16-bit field at `at`.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Writes a field, if it exists.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = value;
    }
}

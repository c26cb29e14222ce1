//! Merging on transmit: consecutive segments of a TCP connection go to the kernel as one, which cuts it again
//! if the interface does not accept it whole.
//!
//! A host on the same machine then receives one segment of up to 64 KiB where it would receive 45 packets, as
//! it does when the kernel forwards; on the wire nothing differs. Segments are merged only if they can be cut
//! into the very same packets: the same headers, consecutive sequence and identification numbers, equal
//! lengths except for the last, no flags except ACK (and PSH on the last), correct checksums.

use std::io;
use std::ops::Range;

use millrace_core::Packet;
use millrace_core::checksum::checksum;

use super::{GSO_TCP_IPV4, GSO_TCP_IPV6, HEADER, Layout, Link, NEEDS_CHECKSUM, TCP, be16, put};

/// The longest headers that are merged: Ethernet, IP and TCP with all possible options.
const LONGEST: usize = 14 + 60 + 60;
/// The maximum length of a merged packet after its Ethernet header, in bytes.
const LARGEST: usize = 65_000;

/// Packets that go to the kernel as one message.
pub(crate) struct Message {
    /// Which packets of the batch.
    pub(crate) packets: Range<usize>,
    /// The header of virtio-net, followed by the headers that several packets share.
    head: [u8; HEADER + LONGEST],
    /// How many bytes of `head` are used.
    length: usize,
    /// How many bytes of each packet are its headers, if `head` has them.
    stripped: usize,
}

impl Message {
    /// The bytes in front of the packets' bytes.
    pub(crate) fn head(&self) -> &[u8] {
        self.head.get(..self.length).unwrap_or_default()
    }

    /// The part of a packet that goes to the kernel.
    pub(crate) fn body<'p>(&self, packet: &'p Packet) -> &'p [u8] {
        packet.data().get(self.stripped..).unwrap_or_default()
    }

    /// A packet by itself.
    fn single(index: usize) -> Self {
        Self { packets: index..index + 1, head: [0; HEADER + LONGEST], length: HEADER, stripped: 0 }
    }
}

/// Whether an error means that the kernel rejects such a message, rather than that it accepts nothing at this
/// moment.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}

/// Whether any Ethernet frames may be merged. It only glances at their headers; most batches then need no
/// call of [`messages`].
pub(crate) fn may_merge(packets: &[Packet], longest: usize) -> bool {
    let alike = |a: &[u8], b: &[u8]| {
        let same = |range: Range<usize>| a.get(range.clone()) == b.get(range);
        let is_tcp = match be16(a, 12) {
            Some(0x0800) => a.get(23) == Some(&TCP) && same(26..38),
            Some(0x86dd) => a.get(20) == Some(&TCP) && same(22..58),
            _ => false,
        };
        is_tcp && a.len() <= longest && b.len() <= a.len()
    };
    packets.windows(2).any(|pair| match pair {
        [a, b] => alike(a.data(), b.data()),
        _ => false,
    })
}

/// Divides Ethernet frames into messages, in order. Frames of more than `longest` bytes are not
/// merged.
pub(crate) fn messages(packets: &[Packet], longest: usize, into: &mut Vec<Message>) {
    messages_over(Link::Ethernet, packets, longest, into);
}

/// Divides packets that start with `link` into messages, like [`messages`].
pub(crate) fn messages_over(
    link: Link,
    packets: &[Packet],
    longest: usize,
    into: &mut Vec<Message>,
) {
    into.clear();
    let mut at = 0;
    while let Some(packet) = packets.get(at) {
        let mut message = Message::single(at);
        if let Some(first) = Segment::of(link, packet, longest) {
            let end = run(&first, packets, at, longest);
            if end > at + 1 {
                message = first.merged(packets, at..end);
            }
        }
        at = message.packets.end;
        into.push(message);
    }
}

/// The end of the run of segments that can be merged with the first one, at `start`.
fn run(first: &Segment<'_>, packets: &[Packet], start: usize, longest: usize) -> usize {
    let link = first.link;
    let size = first.payload().len();
    let mut total = first.frame.len();
    let mut end = start + 1;
    let mut closed = first.is_pushed();
    while !closed && let Some(next) = packets.get(end) {
        let Some(segment) = Segment::of(link, next, longest) else { break };
        let length = segment.payload().len();
        total += length;
        if length > size || total > LARGEST || !first.goes_on_with(&segment, end - start, size) {
            break;
        }
        closed = segment.is_pushed() || length < size;
        end += 1;
    }
    end
}

/// A frame that may be merged with others.
struct Segment<'p> {
    link: Link,
    frame: &'p [u8],
    layout: Layout,
}

impl<'p> Segment<'p> {
    fn of(link: Link, packet: &'p Packet, longest: usize) -> Option<Self> {
        const ACK: u8 = 0x10;
        const ACK_AND_PSH: u8 = 0x18;
        const MORE_OR_OFFSET: u16 = 0x3fff;
        let frame = packet.data();
        // Most packets that are no TCP segments are told by their length.
        if frame.len() > longest || frame.len() < link.header() + 20 + 20 + 1 {
            return None;
        }
        let layout = Layout::of(link, frame)?;
        let segment = Self { link, frame, layout };
        let ip_length = match layout.is_ipv6 {
            true => 40 + usize::from(be16(frame, layout.network + 4)?),
            false => usize::from(be16(frame, layout.network + 2)?),
        };
        let fragment = match layout.is_ipv6 {
            true => 0,
            false => be16(frame, layout.network + 6)? & MORE_OR_OFFSET,
        };
        let plain = layout.network == link.header()
            && layout.protocol == TCP
            && layout.payload <= LONGEST
            && layout.payload < frame.len()
            && ip_length == frame.len() - layout.network
            && fragment == 0
            && matches!(segment.flags()?, ACK | ACK_AND_PSH);
        (plain && segment.is_right()).then_some(segment)
    }

    fn payload(&self) -> &'p [u8] {
        self.frame.get(self.layout.payload..).unwrap_or_default()
    }

    fn flags(&self) -> Option<u8> {
        self.frame.get(self.layout.transport + 13).copied()
    }

    fn is_pushed(&self) -> bool {
        const PSH: u8 = 0x08;
        self.flags().is_some_and(|flags| flags & PSH != 0)
    }

    fn sequence(&self) -> u32 {
        let bytes = self.frame.get(self.layout.transport + 4..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    fn id(&self) -> u16 {
        be16(self.frame, self.layout.network + 4).unwrap_or(0)
    }

    /// Whether the checksums are correct: incorrect ones must stay incorrect.
    fn is_right(&self) -> bool {
        let Layout { network, transport, is_ipv6, .. } = self.layout;
        let header = self.frame.get(network..transport).unwrap_or_default();
        let Some(covered) = self.frame.get(transport..) else { return false };
        let pseudo = self.layout.pseudo_sum(self.frame, covered.len());
        (is_ipv6 || checksum(header) == 0) && pseudo.add_bytes(covered).is_right()
    }

    /// Whether another segment is the one that cutting would make, `index` segments of `size` bytes after
    /// this one.
    fn goes_on_with(&self, other: &Self, index: usize, size: usize) -> bool {
        let ahead = u32::try_from(index * size).unwrap_or(u32::MAX);
        self.layout == other.layout
            && other.sequence() == self.sequence().wrapping_add(ahead)
            && (self.layout.is_ipv6 || other.id() == self.id().wrapping_add(index as u16))
            && self.constant_parts() == other.constant_parts()
    }

    /// The headers without the fields that differ from segment to segment: lengths, identification, sequence
    /// number, flags, checksums.
    fn constant_parts(&self) -> [&'p [u8]; 6] {
        let Layout { network, transport, payload, is_ipv6, .. } = self.layout;
        let part = |range: Range<usize>| self.frame.get(range).unwrap_or_default();
        let (length, checksum) = match is_ipv6 {
            true => (network + 4..network + 6, network + 6),
            false => (network + 2..network + 6, network + 10),
        };
        let after_checksum = if is_ipv6 { checksum } else { checksum + 2 };
        [
            part(0..length.start),
            part(length.end..checksum),
            part(after_checksum..transport + 4),
            part(transport + 8..transport + 13),
            part(transport + 14..transport + 16),
            part(transport + 18..payload),
        ]
    }

    /// One message of several segments, of which this is the first.
    fn merged(&self, packets: &[Packet], run: Range<usize>) -> Message {
        let Layout { network, transport, payload, is_ipv6, .. } = self.layout;
        let run_of = packets.get(run.clone()).unwrap_or_default();
        let data: usize = run_of.iter().map(|packet| packet.len().saturating_sub(payload)).sum();
        let mut message = Message::single(run.start);
        message.packets = run.clone();
        message.length = HEADER + payload;
        message.stripped = payload;
        let (virtio, head) = message.head.split_at_mut(HEADER);
        let Some(head) = head.get_mut(..payload) else { return Message::single(run.start) };
        head.copy_from_slice(self.frame.get(..payload).unwrap_or_default());

        let ip_length = payload - network + data;
        if is_ipv6 {
            put(head, network + 4, ((ip_length - 40) as u16).to_be_bytes());
        } else {
            put(head, network + 2, (ip_length as u16).to_be_bytes());
            put(head, network + 10, [0, 0]);
            let sum = head.get(network..transport).map_or(0, checksum);
            put(head, network + 10, sum.to_be_bytes());
        }
        // The flags of the last one: PSH there comes out at the end again.
        if let Some(last) = run_of.last().and_then(|packet| packet.data().get(transport + 13)) {
            put(head, transport + 13, [*last]);
        }
        let pseudo = self.layout.pseudo_sum(head, payload - transport + data);
        put(head, transport + 16, (!pseudo.finish()).to_be_bytes());

        let kind = if is_ipv6 { GSO_TCP_IPV6 } else { GSO_TCP_IPV4 };
        put(virtio, 0, [NEEDS_CHECKSUM, kind]);
        let words = [payload, self.payload().len(), transport, 16];
        for (at, word) in (2..).step_by(2).zip(words) {
            put(virtio, at, (word as u16).to_ne_bytes());
        }
        message
    }
}

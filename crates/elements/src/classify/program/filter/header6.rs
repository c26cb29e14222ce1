//! IPv6 headers in the form that programs test.

use millrace_core::headers::{Header, Ipv6Header, protocol};

use super::primitive::Extension;

/// The length of an IPv6 header and of the word that follows it here.
const LEN: usize = Ipv6Header::LEN + 4;

/// An IPv6 header, and behind it a word that sums up what follows it in the packet, however many extension headers that
/// is: the upper layer's protocol (8 bits), the extension headers that the packet has (8 bits, see [`Extension`]),
/// and the word of the fragment header with the offset and the flag, or 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header6 {
    bytes: [u8; LEN],
    /// How many of the bytes the packet has.
    len: usize,
    /// Where the upper layer's header begins in the packet, if the packet has it.
    transport: Option<usize>,
}

impl Header6 {
    /// No header.
    pub(super) const NONE: Self = Self { bytes: [0; LEN], len: 0, transport: None };

    /// The header of a packet that begins with `packet`.
    pub(super) fn of(packet: &[u8]) -> Self {
        let mut header = Self::NONE;
        let Some((ip, payload)) = Ipv6Header::view(packet) else {
            header.len = packet.len().min(Ipv6Header::LEN);
            header.bytes.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
            return header;
        };
        let mut walk = ip.extensions(payload);
        let (mut has, mut part) = (0, 0);
        let mut upper = None;
        for extension in walk.by_ref() {
            has |= Extension::bit(extension.kind);
            let Some((fragment, _)) = extension.fragment() else { continue };
            part |= fragment.offset_more.get();
            // What follows in a later fragment is not a header, though it may look like one.
            if fragment.offset() > 0 {
                upper = Some((fragment.next_header, None));
                break;
            }
        }
        let (kind, place) = upper.unwrap_or_else(|| {
            let (kind, place) = walk.reached();
            // An extension header that the packet does not have whole is not the upper layer's.
            let is_upper = Extension::bit(kind) == 0 && kind != protocol::NO_NEXT_HEADER;
            (kind, is_upper.then_some(Ipv6Header::LEN + place))
        });
        header.transport = place;
        header.len = LEN;
        let summary = u32::from(kind) << 24 | u32::from(has) << 16 | u32::from(part);
        let fixed = header.bytes.first_chunk_mut::<{ Ipv6Header::LEN }>();
        if let (Some(to), Some(from)) = (fixed, packet.first_chunk()) {
            *to = *from;
        }
        if let Some(to) = header.bytes.last_chunk_mut() {
            *to = summary.to_be_bytes();
        }
        header
    }

    /// The header and the word behind it.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The packet from the upper layer's header on.
    pub(super) fn transport<'p>(&self, packet: &'p [u8]) -> &'p [u8] {
        self.transport.and_then(|at| packet.get(at..)).unwrap_or_default()
    }
}

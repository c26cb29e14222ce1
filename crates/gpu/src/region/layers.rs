//! Finds where the headers of a packet begin.

use millrace_core::Packet;
use millrace_core::headers::{
    EthernetHeader, Header, Ipv4Header, Ipv6Header, TcpHeader, VlanHeader, ether_type, protocol,
};
use millrace_core::memory::ANNOTATION_LEN;

use super::{Base, Extent, Region};

/// Maximum number of extension headers between an IPv6 header and the transport header. Longer chains are an attack.
pub const MAX_EXTENSIONS: usize = 16;

/// The positions of a packet's headers in its [`View`]'s bytes.
///
/// - **Ethernet** begins at the packet's link-layer header annotation, which may be in the headroom, as after
///   `Strip`. If it is not set, it begins at the start of the data. There is none if the network header is marked
///   less than 14 bytes after it, as in packets that begin at the IP header. A packet without both annotations is
///   taken for an Ethernet frame: packets that begin at the IP header must be marked by `MarkIPHeader` or
///   `CheckIPHeader`.
/// - **Network** begins at the network header annotation. If that is not set, or points at a VLAN tag, it begins
///   after the tags (0x8100, 0x88a8) of the Ethernet header. It is IP if its version says so, and the EtherType too,
///   if one is known.
/// - An IP packet **ends** where its length field says, if that is within the packet and not shorter than its header.
///   A region with a base from Network on also ends there, and a region of Ethernet ends with the frame. A length of
///   0 in an IPv6 header with hop-by-hop options is that of a jumbogram, which ends with the frame.
/// - **Transport** is absent in later fragments, after more than [`MAX_EXTENSIONS`] extension headers, after a
///   truncated one, and after "no next header". An ESP header is the transport header.
/// - **TransportPayload** is the payload of TCP (after its options), UDP, UDP-Lite, SCTP, ICMP or ICMPv6. For other
///   protocols it is everything from Transport on, and for a later fragment it is the fragment's payload.
///
/// A header that is truncated or invalid is present, with the bytes that exist. The layers after it are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Start positions by base.
    start: [u32; 6],
    end: u32,
    ip_end: u32,
}

/// The start of an absent layer. It is so far after any end that no offset leads back.
const ABSENT: u32 = u32::MAX;
/// The number of bytes of a packet that are examined. No packet is larger.
const MOST: usize = i32::MAX as usize;

impl Default for Layers {
    fn default() -> Self {
        Self { start: [0, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT], end: 0, ip_end: 0 }
    }
}

/// A packet's bytes from the first header on, and the positions of its headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct View<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The layers.
    pub layers: Layers,
}

/// Where a view's bytes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Data,
    Mac,
    Network,
}

/// The header annotations of a packet, as offsets in the view.
struct Marks {
    origin: Origin,
    mac: Option<usize>,
    network: Option<usize>,
}

const LINK: isize = EthernetHeader::LEN as isize;

impl Marks {
    #[inline]
    fn of(packet: &Packet) -> Self {
        let (mac, network) = (packet.mac_header(), packet.network_header());
        if let None | Some(0) = mac
            && network.is_none_or(|at| (LINK..=packet.len() as isize).contains(&at))
        {
            // A frame as it was received.
            let network = network.map(|at| at as usize);
            return Self { origin: Origin::Data, mac: Some(0), network };
        }
        Self::of_stripped(packet.len() as isize, mac, network)
    }

    /// The positions for a packet that does not begin at its link-layer header, or whose annotations are unusual.
    #[inline(never)]
    fn of_stripped(len: isize, mac: Option<isize>, network: Option<isize>) -> Self {
        let network = network.filter(|&at| at <= len);
        let mac = match (mac.filter(|&at| at <= len), network) {
            (Some(mac), Some(network)) => (network >= mac + LINK).then_some(mac),
            (Some(mac), None) => Some(mac),
            (None, Some(network)) => (network >= LINK).then_some(0),
            (None, None) => Some(0),
        };
        let (origin, start) = match (mac, network) {
            (Some(mac), _) if mac < 0 => (Origin::Mac, mac),
            (None, Some(network)) if network < 0 => (Origin::Network, network),
            _ => (Origin::Data, 0),
        };
        let from_start = |at: isize| (at - start) as usize;
        Self { origin, mac: mac.map(from_start), network: network.map(from_start) }
    }

    /// The view's bytes.
    #[inline]
    fn bytes<'p>(&self, packet: &'p Packet) -> &'p [u8] {
        match self.origin {
            Origin::Data => packet.data(),
            Origin::Mac => packet.mac_data().unwrap_or_default(),
            Origin::Network => packet.network_data().unwrap_or_default(),
        }
    }
}

impl<'a> View<'a> {
    /// Parses a packet up to `depth`; deeper layers are absent.
    #[inline]
    pub fn of(packet: &'a Packet, depth: Base) -> Self {
        let mut view = Self::default();
        view.look_at(packet, depth);
        view
    }

    /// As [`of`](Self::of), in place, because moving the result would take half of the time.
    #[inline(always)]
    pub(crate) fn look_at(&mut self, packet: &'a Packet, depth: Base) {
        let marks = Marks::of(packet);
        self.bytes = marks.bytes(packet);
        self.layers.find(self.bytes, &marks, depth);
    }

    /// The bytes of a region that the packet has. Empty for annotations, which are not part of the view's bytes.
    #[inline]
    pub fn slice(&self, region: &Region) -> &'a [u8] {
        if region.base == Base::Annotation {
            return &[];
        }
        let (at, len) = self.layers.span(region);
        self.bytes.get(at..at + len).unwrap_or_default()
    }
}

/// A packet's bytes as in [`View`], for writing. A shared packet is copied first.
#[inline]
pub(crate) fn view_bytes_mut(packet: &mut Packet) -> &mut [u8] {
    match Marks::of(packet).origin {
        Origin::Data => packet.data_mut(),
        Origin::Mac => packet.mac_data_mut().unwrap_or_default(),
        Origin::Network => packet.network_data_mut().unwrap_or_default(),
    }
}

impl Layers {
    /// The positions of a packet's headers up to `depth`; deeper layers are absent.
    #[inline]
    pub fn of(packet: &Packet, depth: Base) -> Self {
        if depth == Base::Annotation { Self::default() } else { View::of(packet, depth).layers }
    }

    /// The bytes of a region that a packet has, by header positions that were found before the packet was changed.
    pub fn slice<'p>(&self, packet: &'p Packet, region: &Region) -> &'p [u8] {
        let (at, len) = self.span(region);
        let bytes = match region.base {
            Base::Annotation => packet.annotations().as_slice(),
            _ => Marks::of(packet).bytes(packet),
        };
        bytes.get(at..at + len).unwrap_or_default()
    }

    /// As [`slice`](Self::slice), for writing. A shared packet is copied first.
    pub fn slice_mut<'p>(&self, packet: &'p mut Packet, region: &Region) -> &'p mut [u8] {
        let (at, len) = self.span(region);
        let bytes = match region.base {
            Base::Annotation => packet.annotations_mut().as_mut_slice(),
            _ => view_bytes_mut(packet),
        };
        bytes.get_mut(at..at + len).unwrap_or_default()
    }

    /// The start of a region in the view's bytes (for annotations, in the annotation area), and the number of bytes
    /// that the packet has: 0 if its first byte is missing.
    #[inline]
    pub fn span(&self, region: &Region) -> (usize, usize) {
        let (start, limit) = self.bounds(region.base, region.extent);
        let at = start + i64::from(region.offset);
        if at < 0 || at >= limit {
            return (0, 0);
        }
        let len = match region.extent {
            Extent::Bytes(bytes) => (limit - at).min(i64::from(bytes)),
            Extent::ToEnd => limit - at,
        };
        (at as usize, len as usize)
    }

    /// The start of a base and the end of its regions. If the base is absent, its start is after its end.
    #[inline]
    pub(crate) fn bounds(&self, base: Base, extent: Extent) -> (i64, i64) {
        let limit = match (base, extent) {
            (Base::Annotation, _) => ANNOTATION_LEN as u32,
            (Base::Ethernet, Extent::Bytes(_)) => self.end,
            _ => self.ip_end,
        };
        (i64::from(self.start[base as usize]), i64::from(limit))
    }

    #[inline]
    fn set(&mut self, base: Base, at: usize) {
        self.start[base as usize] = at as u32;
    }

    #[inline(always)]
    fn find(&mut self, bytes: &[u8], marks: &Marks, depth: Base) {
        let len = bytes.len().min(MOST) as u32;
        *self = Self { end: len, ip_end: len, ..Self::default() };
        if let Some(mac) = marks.mac {
            self.set(Base::Ethernet, mac);
        }
        if depth >= Base::Network
            && let Some((network, ether_type)) = find_network(bytes, marks)
        {
            self.set(Base::Network, network);
            self.find_ip(bytes, network, ether_type, depth);
        }
    }

    #[inline]
    fn find_ip(&mut self, bytes: &[u8], network: usize, ether_type: Option<u16>, depth: Base) {
        let Some(rest) = bytes.get(network..) else { return };
        let is = |expected: u16| ether_type.is_none_or(|ether_type| ether_type == expected);
        match rest.first().map(|byte| byte >> 4) {
            Some(4) if is(ether_type::IPV4) => self.find_in_ipv4(rest, network, depth),
            Some(6) if is(ether_type::IPV6) => self.find_in_ipv6(rest, network),
            _ => {}
        }
    }

    #[inline]
    fn find_in_ipv4(&mut self, rest: &[u8], network: usize, depth: Base) {
        let Some((ip, _)) = Ipv4Header::view(rest) else { return };
        let header_len = ip.header_len();
        if header_len < Ipv4Header::LEN {
            return;
        }
        let total = usize::from(ip.total_len.get());
        let rest = if total < header_len { rest } else { rest.get(..total).unwrap_or(rest) };
        self.ip_end = self.end.min((network + rest.len()) as u32);
        if depth == Base::Network {
            return;
        }
        let Some(payload) = rest.get(header_len..) else { return };
        let at = network + header_len;
        self.set(Base::NetworkPayload, at);
        if ip.is_first_fragment() {
            self.find_transport(ip.protocol, payload, at);
        } else {
            self.set(Base::TransportPayload, at);
        }
    }

    fn find_in_ipv6(&mut self, rest: &[u8], network: usize) {
        let Some((ip, payload)) = Ipv6Header::view(rest) else { return };
        let len = usize::from(ip.payload_len.get());
        let is_jumbogram = len == 0 && ip.next_header == protocol::HOP_BY_HOP;
        let payload = if is_jumbogram { payload } else { payload.get(..len).unwrap_or(payload) };
        let at = network + Ipv6Header::LEN;
        self.ip_end = self.end.min((at + payload.len()) as u32);
        self.set(Base::NetworkPayload, at);
        let mut extensions = ip.extensions(payload);
        for extension in extensions.by_ref().take(MAX_EXTENSIONS) {
            if let Some((fragment, _)) = extension.fragment()
                && fragment.offset() > 0
            {
                let behind = at + extension.offset + extension.bytes.len();
                return self.set(Base::TransportPayload, behind);
            }
        }
        if extensions.clone().next().is_some() {
            return;
        }
        if let Some((protocol, offset)) = extensions.upper()
            && protocol != protocol::NO_NEXT_HEADER
            && let Some(transport) = payload.get(offset..)
        {
            self.find_transport(protocol, transport, at + offset);
        }
    }

    #[inline]
    fn find_transport(&mut self, protocol: u8, bytes: &[u8], at: usize) {
        self.set(Base::Transport, at);
        let header_len = match protocol {
            protocol::TCP => match TcpHeader::view(bytes) {
                Some((tcp, _)) if tcp.header_len() >= TcpHeader::LEN => tcp.header_len(),
                _ => return,
            },
            protocol::UDP | protocol::UDP_LITE | protocol::ICMP | protocol::ICMPV6 => 8,
            protocol::SCTP => 12,
            _ => 0,
        };
        if header_len <= bytes.len() {
            self.set(Base::TransportPayload, at + header_len);
        }
    }
}

/// The position of the network header, and the EtherType before it, if it is known.
#[inline]
fn find_network(bytes: &[u8], marks: &Marks) -> Option<(usize, Option<u16>)> {
    let marked = || marks.network.map(|network| (network, None));
    let ethernet = marks.mac.and_then(|mac| EthernetHeader::view(bytes.get(mac..)?));
    let (Some(mac), Some((ethernet, mut rest))) = (marks.mac, ethernet) else { return marked() };
    let mut at = mac + EthernetHeader::LEN;
    let mut ether_type = ethernet.ether_type.get();
    // The walk over the tags does not meet this annotation. An element has set it that knows of another header in
    // between.
    let mut is_met = marks.network.is_none_or(|network| network == at);
    while ether_type::is_tag(ether_type) {
        let Some((tag, behind)) = VlanHeader::view(rest) else {
            return if is_met { None } else { marked() };
        };
        at += VlanHeader::LEN;
        ether_type = tag.ether_type.get();
        rest = behind;
        is_met |= marks.network == Some(at);
    }
    if is_met { Some((at, Some(ether_type))) } else { marked() }
}
